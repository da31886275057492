// SPDX-License-Identifier: Apache-2.0
//! Published figures in sentences: of experiments, platforms, documents and code.

/// A sentence's part with `«expression»` for each figure, and how often it stands there at least.
///
/// It does not begin with a figure; line ends and comment signs count as a space.
pub const QUOTES: &[(usize, &str)] = &[
    // Experiments.
    (
        1,
        "headline = \"«section_6_6_1.gain_16_percent» %, calls charged",
    ),
    (
        1,
        "what = \"\"\"«section_4_2_3.reduction_percent» % below RDMA (section 4.2.3), «section_4_2_3.loops_factor» times the sockets (figure 4.4), «section_6_6_1.gain_16_percent» % (table 6.7), each by",
    ),
    (
        1,
        "The author's «section_4_2_3.reduction_percent» % and «section_4_2_3.loops_factor» are measurements",
    ),
    (
        1,
        "his «section_6_6_1.gain_16_percent» % is computed from measured times",
    ),
    (
        1,
        "Published: the «section_3_2_2_6.rdma_4_byte_ns» ns of RDMA",
    ),
    (
        1,
        "The author's IP-NUMA took «1000 * section_4_2_3.one_way_10g_us» ns",
    ),
    (
        1,
        "(table 4.5: «table_4_5.sockets_10g_us» us at 10G, «table_4_5.sockets_1g_us» us at 1G), where published constants give «section_3_2_1.linux_send_receive_ns / 2» («section_3_2_1.linux_send_receive_ns» for both)",
    ),
    (
        1,
        "of the «1000 * section_4_2_3.one_way_10g_us» ns that IP-NUMA was measured to take one way at 10G, 1,764 of «1000 * table_4_5.ip_numa_1g_us / 2» at 1G, and 9.6 of «table_4_6.sockets.direct_us» us over sockets",
    ),
    (
        1,
        "where he measured «table_5_2.fibnic.delay_ns» and «table_5_5.bytes_80_delay_ns» and reckoned «section_5_2_3.delay_ns» for his «section_5_2_3.stages» stages",
    ),
    (
        1,
        "the author's «section_6_4.second_reply_us - section_6_4.second_request_us» us contain tcpdump",
    ),
    (
        8,
        "takes the published «section_3_2_1.linux_send_receive_ns» ns for sending and receiving a packet, half at each end, and memcached «1000 * section_6_6_1.application_us» ns",
    ),
    (4, "1G round trip of «1000 * table_4_5.ip_numa_1g_us» ns"),
    (
        2,
        "the dissertation found, «table_6_3.sockets_1g.get_ns.b16» less «1000 * table_4_5.sockets_1g_us» ns",
    ),
    (
        1,
        "note = \"«table_6_3.sockets_1g.get_ns.b16» less «1000 * table_4_5.sockets_1g_us», the round trip of table 4.5",
    ),
    (
        1,
        " «derived.unexplained_10g_ns» ns of the published «1000 * section_4_2_3.one_way_10g_us» ",
    ),
    (
        1,
        "\"«derived.unexplained_10g_ns» ns of the published «1000 * section_4_2_3.one_way_10g_us» ",
    ),
    (
        1,
        "for «derived.unexplained_10g_ns» of its «1000 * section_4_2_3.one_way_10g_us» ns one way come from none",
    ),
    (5, "at 1G the «section_5_1_1_5.phy_ns» ns of a pair of PHYs"),
    (
        4,
        "the author's has «section_5_2_3.stages» stages, «section_5_2_3.lookup_stages» of them reserved for the lookup, and its measured «section_5_4.measured_ns» ns are «section_5_4.difference_ns» more than the «section_5_4.estimated_ns» that",
    ),
    (3, "where the author's took «table_5_2.fibnic.delay_ns»"),
    (2, "after the published «table_5_2.ax3630s_24t.delay_ns» ns"),
    (
        1,
        "with «section_5_1_1_5.phy_ns» ns for the PHYs of each, a constant",
    ),
    (
        1,
        "The author added up «1000 * section_4_3_5.cable_us / section_4_3_5.cable_m» ns a metre",
    ),
    (
        1,
        "with switches from «section_4_3_5.arista_7150_ns» ns for each, an Arista 7150",
    ),
    (
        1,
        "count «section_4_3_5.arista_7150_ns» ns for each, an Arista 7150",
    ),
    (
        1,
        "a switch of «section_4_3_5.arista_7150_ns» ns and «1000 * section_4_3_5.cable_us / section_4_3_5.cable_m» ns/m",
    ),
    (
        1,
        "the platform has the «table_3_4.gen2x8.combined_4_ns» ns of the other links; why the dissertation's loop has «table_3_4.gen2x4.combined_4_ns» here alone",
    ),
    (
        1,
        "the dissertation's own «table_3_4.gen1x1.combined_64_ns» ns for 64 bytes make «round(table_3_4.gen1x1.combined_64_ns / 16)» ns for each 4, as ours; why its loop over 4 bytes has «table_3_4.gen1x1.combined_4_ns» it",
    ),
    (
        1,
        "note = \"«section_3_2_2_6.dma_write_4_ns» + «section_3_2_2_6.dma_read_64_ns» + «derived.phy_10g_4_ns» + «section_3_2_2_6.dma_write_64_ns»; the author's own sum implies «derived.phy_10g_64_ns» for PHY/FIFO at 64 B, and «derived.phy_10g_4_ns» at 4 B",
    ),
    (
        1,
        "note = \"«section_3_2_2_6.dma_write_64_ns» + «derived.phy_10g_4_ns» + «section_3_2_2_6.dma_write_64_ns»; the author's own sum implies «derived.phy_10g_64_ns» for PHY/FIFO at 64 B.",
    ),
    (
        1,
        "and a pair of GbE PHYs add up to «round(derived.constants_1g_ns / 1000, 1)» us; what the other «round(500 * table_4_5.ip_numa_1g_us / 1000 - derived.constants_1g_ns / 1000)» us are",
    ),
    (
        2,
        "(«round(section_6_6.saved_rtt_1g_ns / 1000, 1)» us as measured there), for what the kernel took beyond the published «section_3_2_1.linux_send_receive_ns» ns",
    ),
    (
        2,
        "which give the measured «round(table_6_3.sockets_1g.get_ns.b16 / 1000, 1)» us for two hosts",
    ),
    (1, "mean of «section_3_2_2_3.memcpy_loops» loops, ns"),
    (
        1,
        "mean of «section_6_5.commands» commands one after the other",
    ),
    // Platforms.
    (
        1,
        "sec. 3.2.2.6: «derived.constants_10g_ns» - 2 x «section_3_2_2_6.dma_write_4_ns»",
    ),
    (
        1,
        "in a loop of «section_3_2_2_3.memcpy_loops»: the latency",
    ),
    (
        1,
        "is 1G only. The «derived.phy_10g_4_ns» ns between two NICs",
    ),
    (
        1,
        "\"table 4.6: «section_4_3_5.cable_m» m of fibre take «section_4_3_5.cable_us» us",
    ),
    (
        1,
        "dissertation table 4.6: «section_4_3_5.cable_m» m, «section_4_3_5.cable_us» us",
    ),
    (
        1,
        "PG210 «amd_pg210.pcs_ns» + PG056 «amd_pg056.tx_ui + amd_pg056.rx_ui» UI",
    ),
    (
        1,
        "at 312.5 MHz: «amd_pg210.pcs_tx_ns» + «amd_pg210.pcs_rx_ns» ns. GTHE3 transceiver, 64b/66b: «amd_pg056.tx_ui» + «amd_pg056.rx_ui» UI of «round(1000 / ieee_802_3.gigabaud, 2)» ps = «round(derived.amd_10g_transceiver_ns, 1)» ns",
    ),
    (
        1,
        "note = \"«amd_pg138.tx_pcs_ns» + «amd_pg138.tx_gt_ns» + «amd_pg138.rx_pcs_ns» + «amd_pg138.rx_gt_ns» ns, without the MAC",
    ),
    (1, "Xeon Gold 6250 at «pcie_lat_issue_9.cpu_ghz» GHz"),
    // Documents.
    (
        1,
        "the dissertation measured a pair, «section_5_1_1_5.phy_ns» ns",
    ),
    (
        1,
        "(figure 3.5, step 2): «table_3_4.gen1x1.read_4_ns» ns at Gen1 x1",
    ),
    (
        1,
        "a pair of PHYs more, «section_5_1_1_5.phy_ns» ns at 1G (section 5.1.1.5)",
    ),
    (
        1,
        "| «table_5_2.fibnic.delay_ns» ns IPv4, «table_5_5.bytes_80_delay_ns» ns IPv6 (tables 5.2 to 5.5)",
    ),
    (
        1,
        "an IPv6 frame of «table_5_5.frame_bytes.0» bytes, the dissertation's smallest",
    ),
    (
        1,
        "(the dissertation estimates «table_6_7.ip_numa_fibnic_percent.b16»)",
    ),
    (
        1,
        "of the «round(table_6_3.sockets_1g.get_ns.b16 / 1000, 1)» us of a GET over sockets",
    ),
    // The PC as a router.
    (
        1,
        "Of its kernel the driver is charged, «section_3_2_1.linux_driver_ns» ns for receiving and sending",
    ),
    (
        1,
        "charged all of the protocol stack's «section_3_2_1.linux_protocol_stack_ns» ns",
    ),
    (
        1,
        "The driver takes «section_3_2_1.linux_driver_ns» ns of a packet that is sent and received",
    ),
    (
        1,
        "the driver, receiving and sending: «section_3_2_1.linux_driver_ns» ns",
    ),
    (
        1,
        "all of the «section_3_2_1.linux_protocol_stack_ns» ns that the stack takes of a packet",
    ),
    (
        1,
        "PC router, dissertation (table 5.2) | «table_5_2.pc_router.delay_ns» |",
    ),
    (
        1,
        "half of the driver's «section_3_2_1.linux_driver_ns», dissertation sec. 3.2.1",
    ),
    (
        1,
        "half of the driver's «section_3_2_1.linux_driver_ns» and the protocol stack's «section_3_2_1.linux_protocol_stack_ns», dissertation sec. 3.2.1",
    ),
    // Code.
    (
        1,
        "half of «section_3_2_1.linux_send_receive_ns», dissertation sec. 3.2.1: driver «section_3_2_1.linux_driver_ns», application «section_3_2_1.linux_application_ns», protocol stack «section_3_2_1.linux_protocol_stack_ns»",
    ),
    (
        1,
        "without a driver: application «section_3_2_1.linux_application_ns», protocol stack «section_3_2_1.linux_protocol_stack_ns»",
    ),
    (
        1,
        "of the same way: «section_3_2_1.linux_send_receive_ns» less «section_3_2_1.linux_driver_ns»",
    ),
    (
        1,
        "GET «table_6_3.sockets_1g.get_ns.b16» less round trip «1000 * table_4_5.sockets_1g_us»",
    ),
    (1, "half of «table_4_5.ip_numa_1g_us» us"),
    (1, "with one switch of «section_4_3_5.arista_7150_ns» ns"),
    (
        1,
        "unexplained: «1000 * section_4_2_3.one_way_10g_us» - «derived.constants_10g_ns»",
    ),
    (1, "The «derived.phy_10g_4_ns» ns of the PHYs include a MAC"),
    (
        1,
        "stores frames and takes «table_5_2.ax3630s_24t.delay_ns» ns",
    ),
    (1, "One switch, «section_6_6.cable_in_rack_m» m of cable"),
    (
        1,
        "Four switches, «section_6_6.cable_between_racks_m» m of cable",
    ),
    (
        1,
        "Self::Rack => («section_6_6.switches_in_rack», «section_6_6.cable_in_rack_m»)",
    ),
    (
        1,
        "Self::Racks => («section_6_6.switches_between_racks», «section_6_6.cable_between_racks_m»)",
    ),
    (
        1,
        "in the rack: one FIBNIC, «section_6_6.cable_in_rack_m» m of cable",
    ),
    (
        1,
        "SRAM for IPv4, TCAM with «section_5_2_4.tcam_entries» entries for IPv6",
    ),
    (
        1,
        "v4: Config4::Sram22, v6: Config6::Tcam { entries: «section_5_2_4.tcam_entries» }",
    ),
    (
        1,
        "Entries; the dissertation has «section_5_2_4.tcam_entries»",
    ),
    (
        1,
        "The dissertation's «section_3_2_2_3.memcpy_loops» are as long",
    ),
    (1, "(Line::ONE_GIG, 64, «table_1_5.gbps_1.pps_64»)"),
    (1, "(Line::ONE_GIG, 1518, «table_1_5.gbps_1.pps_1518»)"),
    (1, "(Line::TEN_GIG, 64, «table_1_5.gbps_10.pps_64»)"),
    (1, "(Line::TEN_GIG, 1518, «table_1_5.gbps_10.pps_1518»)"),
    (
        1,
        "(\"Gen2x8\", Experiment::DmaRead, 4, «table_3_2.gen2x8_read_ns», ",
    ),
    (
        1,
        "(\"Gen2x8\", Experiment::DmaWrite, 64, «table_3_3.gen2x8_write_ns», ",
    ),
    (
        1,
        "(\"Gen2x4\", Experiment::CpuWrite, 4, «table_3_4.gen2x4.write_4_ns», ",
    ),
    (
        1,
        "(\"Gen1x1\", Experiment::CpuWrite, 64, «table_3_4.gen1x1.write_64_ns», ",
    ),
    (
        1,
        "(\"Gen2x8\", Experiment::CpuRead, 4, «table_3_4.gen2x8.read_4_ns», ",
    ),
    (
        1,
        "(\"Gen1x1\", Experiment::CombinedWrite, 64, «table_3_4.gen1x1.combined_64_ns», ",
    ),
    (
        1,
        "(\"Gen2x8\", Experiment::CombinedWrite, 64, «table_3_4.gen2x8.combined_64_ns», ",
    ),
    (
        1,
        "(\"Gen2x4\", Experiment::CombinedWrite, 4, «table_3_4.gen2x4.combined_4_ns», ",
    ),
    // Lanes of PCI Express: bits for a byte, by the rate of a lane.
    (
        1,
        "1 => «10 * 1e6 / section_3_2_2_2.gen1_gigatransfer_per_second», 2 => «10 * 1e6 / section_3_2_2_2.gen2_gigatransfer_per_second», 8 GT/s, 130 bits on the lane for 128. 3 => «round(8 * 130 / 128 * 1e6 / table_1_1.pci_express_3_0.ghz)», 4 => «round(8 * 130 / 128 * 1e6 / table_1_1.pci_express_4_0.ghz)»",
    ),
];

/// Words by which a sentence says that a quantity is somebody else's.
pub const ATTRIBUTED: &[&str] = &["dissertation", "published", "author"];

/// Parts of such sentences whose figures are ours: `«»` is any number.
pub const OWN: &[&str] = &[
    "sockets and AX3630S «» us, IP-NUMA and FIBNIC «» us, «» % (the dissertation estimates",
    "FIBNIC in RTL takes «» ns with its PHYs",
    "the switch takes «» cycles for IPv4 and «» for IPv6 where this project's takes «» and «»: «» and «» ns with a pair of PHYs",
    "constants explain «» of the «»",
    "FIBNIC in RTL takes «» ns, and its PHYs, of which nobody publishes",
    "between racks FIBNIC saves «» us of network, IP-NUMA «» us of host",
    "the order is the dissertation's: 100, «», «» and «» % at 16 bytes",
];
