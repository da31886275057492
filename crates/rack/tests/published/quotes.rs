// SPDX-License-Identifier: Apache-2.0
//! Published figures in sentences: of experiments, platforms, documents and code.

/// A sentence's part with `«expression»` for each figure, and how often it stands there at least.
///
/// It begins with a word; line ends and comment signs count as a space.
pub const QUOTES: &[(usize, &str)] = &[
    // Experiments.
    (8, "takes the published «section_3_2_1.linux_send_receive_ns» ns for sending and receiving a packet, half at each end, and memcached «1000 * section_6_6_1.application_us» ns"),
    (4, "1G round trip of «1000 * table_4_5.ip_numa_1g_us» ns"),
    (2, "the dissertation found, «table_6_3.sockets_1g.get_ns.b16» less «1000 * table_4_5.sockets_1g_us» ns"),
    (1, "note = \"«table_6_3.sockets_1g.get_ns.b16» less «1000 * table_4_5.sockets_1g_us», the round trip of table 4.5"),
    (2, "ns of the published «1000 * section_4_2_3.one_way_10g_us» "),
    (1, "of its «1000 * section_4_2_3.one_way_10g_us» ns one way come from none"),
    (2, "why = \"\"\"«1000 * section_4_2_3.one_way_10g_us - 2 * section_3_2_2_6.dma_write_4_ns - (section_3_2_2_6.rdma_4_byte_ns - 2 * section_3_2_2_6.dma_write_4_ns - section_3_2_2_6.dma_read_4_ns)» ns of the published"),
    (5, "at 1G the «section_5_1_1_5.phy_ns» ns of a pair of PHYs"),
    (4, "the author's has «section_5_2_3.stages» stages, «section_5_2_3.lookup_stages» of them reserved for the lookup, and its measured «section_5_4.measured_ns» ns are «section_5_4.difference_ns» more than the «section_5_4.estimated_ns» that"),
    (3, "where the author's took «table_5_2.fibnic.delay_ns»"),
];

/// Words by which a sentence says that a quantity is somebody else's.
pub const ATTRIBUTED: &[&str] = &["dissertation", "published", "author"];

/// Parts of such sentences that are ours.
pub const OWN: &[&str] = &[];
