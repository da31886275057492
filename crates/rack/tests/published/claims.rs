// SPDX-License-Identifier: Apache-2.0
//! Where published figures stand in this repository, and which figure of `experiments/published.toml` each of them is.
//!
//! In a pattern `*` stands for anything without a dot; `$1`, `$2` in the expression are what it stood for, in lower case.

/// What a source calls each pair of a path and a switch, and what `paper.toml` calls it.
const PAIRS: [(&str, &str); 4] = [
    ("socket_ax3630s", "sockets_ax3630s"),
    ("socket_fibnic", "sockets_fibnic"),
    ("ipnuma_ax3630s", "ip_numa_ax3630s"),
    ("ipnuma_fibnic", "ip_numa_fibnic"),
];

/// What is computed from published figures in several places.
pub const DERIVED: &[(&str, &str)] = &[
    // The pair of 10G PHYs with their FIFOs: what section 3.2.2.6 leaves of its sums for 4 and 64 bytes.
    (
        "derived.phy_10g_4_ns",
        "section_3_2_2_6.rdma_4_byte_ns - 2 * section_3_2_2_6.dma_write_4_ns - section_3_2_2_6.dma_read_4_ns",
    ),
    (
        "derived.phy_10g_64_ns",
        "section_3_2_2_6.rdma_64_byte_ns - section_3_2_2_6.dma_write_4_ns - section_3_2_2_6.dma_read_64_ns \
         - section_3_2_2_6.dma_write_64_ns",
    ),
    // One way at 10G by the constants alone, and what they leave of the measured one.
    (
        "derived.constants_10g_ns",
        "2 * section_3_2_2_6.dma_write_4_ns + derived.phy_10g_4_ns",
    ),
    (
        "derived.unexplained_10g_ns",
        "1000 * section_4_2_3.one_way_10g_us - derived.constants_10g_ns",
    ),
    // The same at 1G.
    (
        "derived.constants_1g_ns",
        "2 * table_3_4.gen1x1.write_4_ns + section_5_1_1_5.phy_ns",
    ),
    // Transceivers of AMD at 10G.
    (
        "derived.amd_10g_transceiver_ns",
        "(amd_pg056.tx_ui + amd_pg056.rx_ui) / ieee_802_3.gigabaud",
    ),
    (
        "derived.amd_10g_ns",
        "round(amd_pg210.pcs_ns + derived.amd_10g_transceiver_ns, 1)",
    ),
];

/// File, pattern of a path in it, expression.
type Claim = (&'static str, &'static str, &'static str);

/// `experiments/paper.toml`.
const PAPER: &[Claim] = &[
    (
        "paper.toml",
        "offload_mixed_naive.value",
        "hitachi_table_3.normal_mbps",
    ),
    (
        "paper.toml",
        "offload_mixed_counter.value",
        "hitachi_table_3.proposed_gbps",
    ),
    (
        "paper.toml",
        "offload_ceiling_1024.value",
        "hitachi_section_3_3.theoretical_1024_gbps",
    ),
    (
        "paper.toml",
        "dma_read_4_gen2x8.value",
        "table_3_2.gen2x8_read_ns",
    ),
    (
        "paper.toml",
        "dma_write_64_gen2x8.value",
        "table_3_3.gen2x8_write_ns",
    ),
    (
        "paper.toml",
        "dma_write_64_gen2x8_rate.value",
        "table_3_3.gen2x8_writes_per_second",
    ),
    (
        "paper.toml",
        "cpu_read_*.by_link.*",
        "table_3_4.$2.read_$1_ns",
    ),
    (
        "paper.toml",
        "cpu_write_*.by_link.*",
        "table_3_4.$2.write_$1_ns",
    ),
    (
        "paper.toml",
        "combined_write_*.by_link.*",
        "table_3_4.$2.combined_$1_ns",
    ),
    (
        "paper.toml",
        "ring_cpu_read.value",
        "section_3_2_2.nic_cpu_reads",
    ),
    (
        "paper.toml",
        "ring_cpu_write.value",
        "section_3_2_2.nic_cpu_writes",
    ),
    (
        "paper.toml",
        "ring_dma_read.value",
        "section_3_2_2.nic_dma_reads",
    ),
    (
        "paper.toml",
        "rdma_cpu_write.value",
        "section_3_2_2.rdma_cpu_writes",
    ),
    (
        "paper.toml",
        "rdma_dma_read.value",
        "section_3_2_2.rdma_dma_reads",
    ),
    (
        "paper.toml",
        "ipnuma_cpu_write.value",
        "section_3_3.ip_numa_cpu_writes",
    ),
    (
        "paper.toml",
        "ipnuma_cpu_read.value",
        "section_3_3.ip_numa_cpu_reads",
    ),
    (
        "paper.toml",
        "ipnuma_dma_read.value",
        "section_3_3.ip_numa_dma_reads",
    ),
    (
        "paper.toml",
        "estimate_rdma_64.value",
        "section_3_2_2_6.rdma_64_byte_ns",
    ),
    (
        "paper.toml",
        "estimate_rdma_4.value",
        "section_3_2_2_6.rdma_4_byte_ns",
    ),
    (
        "paper.toml",
        "estimate_ipnuma_64.value",
        "1000 * section_4_2_3.one_way_10g_estimate_us",
    ),
    (
        "paper.toml",
        "estimate_ipnuma_4.value",
        "derived.constants_10g_ns",
    ),
    ("paper.toml", "rtt_10g.value", "table_4_5.ip_numa_10g_us"),
    ("paper.toml", "rtt_1g.value", "table_4_5.ip_numa_1g_us"),
    (
        "paper.toml",
        "rtt_socket_10g.value",
        "table_4_5.sockets_10g_us",
    ),
    (
        "paper.toml",
        "rtt_socket_1g.value",
        "table_4_5.sockets_1g_us",
    ),
    (
        "paper.toml",
        "one_way_10g.value",
        "1000 * section_4_2_3.one_way_10g_us",
    ),
    (
        "paper.toml",
        "loops_ratio_10g.value",
        "section_4_2_3.loops_factor",
    ),
    (
        "paper.toml",
        "reduction_rdma.value",
        "section_4_2_3.reduction_percent",
    ),
    (
        "paper.toml",
        "headline_432.value",
        "section_6_6_1.gain_16_percent",
    ),
    (
        "paper.toml",
        "one_way_socket_direct.value",
        "table_4_6.sockets.direct_us",
    ),
    (
        "paper.toml",
        "one_way_socket_rack.value",
        "table_4_6.sockets.in_rack_us",
    ),
    (
        "paper.toml",
        "one_way_socket_racks.value",
        "table_4_6.sockets.between_racks_us",
    ),
    (
        "paper.toml",
        "one_way_direct.value",
        "table_4_6.ip_numa.direct_us",
    ),
    (
        "paper.toml",
        "one_way_rack.value",
        "table_4_6.ip_numa.in_rack_us",
    ),
    (
        "paper.toml",
        "one_way_racks.value",
        "table_4_6.ip_numa.between_racks_us",
    ),
    ("paper.toml", "phy_pair_1g.value", "section_5_1_1_5.phy_ns"),
    (
        "paper.toml",
        "switch_64_fibnic_rate.value",
        "table_5_2.fibnic.pps",
    ),
    (
        "paper.toml",
        "switch_64_fibnic.value",
        "table_5_2.fibnic.delay_ns",
    ),
    (
        "paper.toml",
        "switch_64_3750e_rate.value",
        "table_5_2.c3750e_24pd.pps",
    ),
    (
        "paper.toml",
        "switch_64_3750e.value",
        "table_5_2.c3750e_24pd.delay_ns",
    ),
    (
        "paper.toml",
        "switch_64_ax3630s_rate.value",
        "table_5_2.ax3630s_24t.pps",
    ),
    (
        "paper.toml",
        "switch_64_ax3630s.value",
        "table_5_2.ax3630s_24t.delay_ns",
    ),
    (
        "paper.toml",
        "switch_64_pc_router_rate.value",
        "table_5_2.pc_router.pps",
    ),
    (
        "paper.toml",
        "switch_64_pc_router.value",
        "table_5_2.pc_router.delay_ns",
    ),
    (
        "paper.toml",
        "switch_1518_fibnic_rate.value",
        "table_5_3.fibnic.pps",
    ),
    (
        "paper.toml",
        "switch_1518_fibnic.value",
        "table_5_3.fibnic.delay_ns",
    ),
    (
        "paper.toml",
        "switch_1518_ax3630s.value",
        "section_6_6.ax3630s_1518_byte_ns",
    ),
    (
        "paper.toml",
        "switch_410k_*.value",
        "table_5_4.bytes_$1_delay_ns",
    ),
    (
        "paper.toml",
        "switch_ipv6_*.value",
        "table_5_5.bytes_$1_delay_ns",
    ),
    // A level line; tables 5.2 and 5.3 have its ends.
    (
        "paper.toml",
        "switch_any_size.value",
        "(table_5_2.fibnic.delay_ns + table_5_3.fibnic.delay_ns) / 2",
    ),
    (
        "paper.toml",
        "switch_3_to_1_loss.value",
        "section_5_1_2_4.loss_three_to_one_percent",
    ),
    (
        "paper.toml",
        "network_rack_fibnic.value",
        "table_6_5.in_rack_fibnic.sum_ns",
    ),
    (
        "paper.toml",
        "network_racks_fibnic.value",
        "table_6_5.between_racks_fibnic.sum_ns",
    ),
    (
        "paper.toml",
        "network_rack_ax3630s.value",
        "table_6_5.in_rack_ax3630s.sum_ns",
    ),
    (
        "paper.toml",
        "network_racks_ax3630s.value",
        "table_6_5.between_racks_ax3630s.sum_ns",
    ),
    (
        "paper.toml",
        "transaction_loopback.value",
        "table_1_6.local_loopback_us",
    ),
    (
        "paper.toml",
        "transaction_remote.value",
        "table_1_6.remote_10g_nic_us",
    ),
    (
        "paper.toml",
        "memcached_1g_*.by_length.*",
        "table_6_3.sockets_1g.$1_ns.$2",
    ),
    (
        "paper.toml",
        "memcached_10g_*.by_length.*",
        "table_6_3.sockets_10g.$1_ns.$2",
    ),
    (
        "paper.toml",
        "memcached_loopback_*.by_length.*",
        "table_6_3.loopback.$1_ns.$2",
    ),
    (
        "paper.toml",
        "memcached_application.value",
        "1000 * section_6_6_1.application_us",
    ),
    (
        "paper.toml",
        "memcached_direct_socket.by_length.*",
        "table_6_6.direct_sockets_ns.$1",
    ),
    (
        "paper.toml",
        "memcached_direct_ipnuma.by_length.*",
        "table_6_6.direct_ip_numa_ns.$1",
    ),
    (
        "paper.toml",
        "memcached_hosts_socket.value",
        "1000 * table_4_5.sockets_1g_us",
    ),
    (
        "paper.toml",
        "memcached_hosts_ipnuma.value",
        "1000 * table_4_5.ip_numa_1g_us",
    ),
    (
        "paper.toml",
        "ratio_rack_80us.value",
        "section_6_7.in_rack_gain_at_80_us_factor",
    ),
    (
        "paper.toml",
        "ratio_rack_500us.value",
        "section_6_7.in_rack_gain_at_500_us_factor",
    ),
    (
        "paper.toml",
        "ratio_racks_110us.value",
        "section_6_7.between_racks_gain_at_110_us_factor",
    ),
    (
        "paper.toml",
        "ratio_racks_500us.value",
        "section_6_7.between_racks_gain_at_500_us_factor",
    ),
];

/// The platforms.
const PLATFORMS: &[Claim] = &[
    (
        "keio-2016.toml",
        "default_link.10g.generation",
        "table_4_3.ip_numa_pcie_generation",
    ),
    (
        "keio-2016.toml",
        "default_link.10g.lanes",
        "table_4_3.ip_numa_pcie_lanes",
    ),
    (
        "keio-2016.toml",
        "default_link.1g.generation",
        "table_4_4.ip_numa_pcie_generation",
    ),
    (
        "keio-2016.toml",
        "default_link.1g.lanes",
        "table_4_4.ip_numa_pcie_lanes",
    ),
    (
        "keio-2016.toml",
        "store_latency.ns_by_link.*",
        "table_3_4.$1.write_4_ns",
    ),
    (
        "keio-2016.toml",
        "store_interval.ns_by_link.*",
        "table_3_4.$1.write_4_ns",
    ),
    (
        "keio-2016.toml",
        "combined_store.ns",
        "table_3_4.gen2x8.combined_4_ns",
    ),
    (
        "keio-2016.toml",
        "dma_write_latency.ns_by_link.*",
        "table_3_4.$1.write_4_ns",
    ),
    (
        "keio-2016.toml",
        "dma_read_latency.ns_by_link.Gen2x8",
        "table_3_2.gen2x8_read_ns",
    ),
    (
        "keio-2016.toml",
        "load_latency.ns_by_link.*",
        "table_3_4.$1.read_4_ns",
    ),
    ("keio-2016.toml", "phy.10g.ns", "derived.phy_10g_4_ns"),
    ("keio-2016.toml", "phy.1g.ns", "section_5_1_1_5.phy_ns"),
    (
        "keio-2016.toml",
        "switch_phy.1g.ns",
        "section_5_1_1_5.phy_ns",
    ),
    (
        "keio-2016.toml",
        "cable_metre.ns",
        "1000 * section_4_3_5.cable_us / section_4_3_5.cable_m",
    ),
    (
        "modern.toml",
        "store_latency.ns",
        "pcie_lat_issue_9.mean_ns / 2",
    ),
    (
        "modern.toml",
        "dma_write_latency.ns",
        "pcie_lat_issue_9.mean_ns / 2",
    ),
    ("modern.toml", "load_latency.ns", "pcie_lat_issue_9.mean_ns"),
    ("modern.toml", "phy.10g.ns", "derived.amd_10g_ns"),
    ("modern.toml", "switch_phy.10g.ns", "derived.amd_10g_ns"),
    (
        "modern.toml",
        "phy.1g.ns",
        "amd_pg138.tx_pcs_ns + amd_pg138.tx_gt_ns + amd_pg138.rx_pcs_ns + amd_pg138.rx_gt_ns",
    ),
    (
        "modern.toml",
        "switch_phy.1g.ns",
        "amd_pg138.tx_pcs_ns + amd_pg138.tx_gt_ns + amd_pg138.rx_pcs_ns + amd_pg138.rx_gt_ns",
    ),
    (
        "modern.toml",
        "cable_metre.ns",
        "1000 * section_4_3_5.cable_us / section_4_3_5.cable_m",
    ),
];

/// What the dissertation gives as the conditions of an experiment.
const EXPERIMENTS: &[Claim] = &[
    (
        "table-4.6",
        "in the rack, 20 m.run.switches",
        "section_4_3_5.switches_in_rack",
    ),
    (
        "table-4.6",
        "in the rack, 20 m.run.metres",
        "section_6_6.cable_in_rack_m",
    ),
    (
        "table-4.6",
        "between racks, 200 m.run.switches",
        "section_4_3_5.switches_between_racks",
    ),
    (
        "table-4.6",
        "between racks, 200 m.run.metres",
        "section_4_3_5.cable_m",
    ),
    ("table-5.4", "*.run.routes", "table_5_4.routes"),
    ("table-5.5", "*.run.routes", "table_5_5.routes"),
    (
        "table-6.5",
        "FIBNIC, in a rack.run.switches",
        "table_6_5.in_rack_fibnic.switches",
    ),
    (
        "table-6.5",
        "FIBNIC, in a rack.run.metres",
        "table_6_5.in_rack_fibnic.cable_m",
    ),
    (
        "table-6.5",
        "FIBNIC, between racks.run.switches",
        "table_6_5.between_racks_fibnic.switches",
    ),
    (
        "table-6.5",
        "FIBNIC, between racks.run.metres",
        "table_6_5.between_racks_fibnic.cable_m",
    ),
    (
        "figure-6.17",
        "application of 80 us, calls charged.run.application_us",
        "section_6_7.in_rack_application_us.0",
    ),
    (
        "figure-6.17",
        "application of 500 us, calls charged.run.application_us",
        "section_6_7.in_rack_application_us.1",
    ),
    (
        "figure-6.18",
        "application of 110 us, calls charged.run.application_us",
        "section_6_7.between_racks_application_us.0",
    ),
    (
        "figure-6.18",
        "application of 500 us, calls charged.run.application_us",
        "section_6_7.between_racks_application_us.1",
    ),
    (
        "table-4.6",
        "sockets, in the rack, 20 m.run.switches",
        "section_4_3_5.switches_in_rack",
    ),
    (
        "table-4.6",
        "sockets, between racks, 200 m.run.switches",
        "section_4_3_5.switches_between_racks",
    ),
    (
        "table-4.6",
        "sockets, in the rack, 20 m.run.metres",
        "section_6_6.cable_in_rack_m",
    ),
    (
        "table-4.6",
        "sockets, between racks, 200 m.run.metres",
        "section_4_3_5.cable_m",
    ),
    (
        "figure-6.17",
        "application of 80 us.run.application_us",
        "section_6_7.in_rack_application_us.0",
    ),
    (
        "figure-6.17",
        "application of 500 us.run.application_us",
        "section_6_7.in_rack_application_us.1",
    ),
    (
        "figure-6.18",
        "application of 110 us.run.application_us",
        "section_6_7.between_racks_application_us.0",
    ),
    (
        "figure-6.18",
        "application of 500 us.run.application_us",
        "section_6_7.between_racks_application_us.1",
    ),
    (
        "table-6.7",
        "IP-NUMA + FIBNIC.at_least",
        "table_6_7.ip_numa_fibnic_percent.b16",
    ),
];

/// `rack::cpu`, and constants in the code, by the file's stem and their name.
const CODE: &[Claim] = &[
    (
        "costs",
        "kernel_send_ns",
        "section_3_2_1.linux_send_receive_ns / 2",
    ),
    (
        "costs",
        "kernel_receive_ns",
        "section_3_2_1.linux_send_receive_ns / 2",
    ),
    (
        "costs",
        "loopback_ns",
        "section_3_2_1.linux_application_ns + section_3_2_1.linux_protocol_stack_ns",
    ),
    (
        "costs",
        "application_ns",
        "table_6_3.sockets_1g.get_ns.b16 - 1000 * table_4_5.sockets_1g_us",
    ),
    ("costs", "store_ns", "table_3_4.gen2x8.write_4_ns"),
    (
        "costs",
        "waiting.interrupt_ns",
        "1000 * uzura_table_4.interrupt_us",
    ),
    (
        "constants",
        "*.PAPER_ONE_WAY_10G",
        "1000 * section_4_2_3.one_way_10g_us",
    ),
    (
        "constants",
        "*.PAPER_ONE_WAY_1G",
        "1000 * table_4_5.ip_numa_1g_us / 2",
    ),
    (
        "constants",
        "*.PAPER_CONSTANTS_10G",
        "derived.constants_10g_ns",
    ),
    (
        "constants",
        "*.PAPER_IN_RACK_10G",
        "1000 * table_4_6.ip_numa.in_rack_us",
    ),
    (
        "constants",
        "*.PAPER_BETWEEN_RACKS_10G",
        "1000 * table_4_6.ip_numa.between_racks_us",
    ),
    (
        "constants",
        "*.PAPER_SWITCH_10G",
        "section_4_3_5.arista_7150_ns",
    ),
    (
        "constants",
        "*.PAPER_SWITCH_1G",
        "table_5_2.fibnic.delay_ns",
    ),
    (
        "constants",
        "pingpong.METRES_IN_RACK",
        "section_6_6.cable_in_rack_m",
    ),
    // From each host to the switch.
    (
        "constants",
        "stream.METRES_IN_RACK",
        "section_6_6.cable_in_rack_m / 2",
    ),
    (
        "constants",
        "*.METRES_BETWEEN_RACKS",
        "section_6_6.cable_between_racks_m",
    ),
    (
        "constants",
        "*.AX3630S_NS",
        "table_5_2.ax3630s_24t.delay_ns",
    ),
    (
        "constants",
        "*.ESTIMATE_NS_PER_16_BYTES",
        "section_3_2_2_6.cycle_ns",
    ),
    ("constants", "*.LENGTHS.*", "section_6_5.data_bytes.$2"),
    ("constants", "meter.DMA_READS", "section_3_2_2_2.reads"),
    ("constants", "mix.ETHERNET", "hitachi.frame_overhead_bytes"),
    (
        "constants",
        "layout.SRAM22_INDEX_BITS",
        "section_5_2_3.sram_address_bits",
    ),
];

/// Figures that have no counterpart among the published ones, with their values and the reason.
pub const OTHERS: &[(&str, &str, f64, &str)] = &[
    (
        "modern.toml",
        "default_link.*.generation",
        3.0,
        "a choice: none of the sources says",
    ),
    (
        "modern.toml",
        "default_link.*.lanes",
        8.0,
        "a choice: none of the sources says",
    ),
    (
        "modern.toml",
        "store_latency.reference_link.generation",
        3.0,
        "taken as the default link",
    ),
    (
        "modern.toml",
        "store_latency.reference_link.lanes",
        8.0,
        "taken as the default link",
    ),
    (
        "modern.toml",
        "dma_write_latency.reference_link.generation",
        3.0,
        "taken as the default link",
    ),
    (
        "modern.toml",
        "dma_write_latency.reference_link.lanes",
        8.0,
        "taken as the default link",
    ),
    (
        "modern.toml",
        "load_latency.reference_link.generation",
        3.0,
        "taken as the default link",
    ),
    (
        "modern.toml",
        "load_latency.reference_link.lanes",
        8.0,
        "taken as the default link",
    ),
    ("costs", "poll_ns", 0.0, "not published: nothing is charged"),
    (
        "constants",
        "*.SENT_PACKETS",
        100.0,
        "as many as the counts are averaged over",
    ),
    (
        "constants",
        "meter.WRITE_CYCLES",
        50_000.0,
        "shorter than the dissertation's second; the rate is constant",
    ),
    (
        "constants",
        "meter.COPIES",
        512.0,
        "fewer than the dissertation's 10,000; all take as long",
    ),
    ("constants", "*.MOST_US", 500.0, "the length of an axis"),
    (
        "constants",
        "pingpong.REGION",
        403_087_360.0,
        "an address like the one of figure 3.14's example",
    ),
];

/// Keys of an experiment's row that are no published figures: what is expected of our runs, and their conditions.
pub const OWN_KEYS: &[&str] = &[
    "expect",
    "expect_by_length",
    "expect_by_clients",
    "tolerance_percent",
    "wider",
    "run.bytes",
    "run.per_second",
    "run.senders",
    "run.stores",
    "run.loss",
    "run.window_kib",
    "run.recovery_us",
    "run.corruption",
    "run.duration_us",
];

/// All claims.
pub fn claims() -> Vec<(String, String, String)> {
    let constant = [PAPER, PLATFORMS, EXPERIMENTS, CODE];
    let mut all: Vec<_> = constant
        .iter()
        .flat_map(|claims| claims.iter())
        .map(|(file, pattern, expression)| {
            (
                (*file).to_owned(),
                (*pattern).to_owned(),
                (*expression).to_owned(),
            )
        })
        .collect();
    for (place, table, percent) in [
        ("rack", "in_rack", "table_6_7"),
        ("racks", "between_racks", "table_6_8"),
    ] {
        for (ours, theirs) in PAIRS {
            for (key, expression) in [
                ("", format!("table_6_6.{table}_{theirs}_ns.$1")),
                ("_percent", format!("{percent}.{theirs}_percent.$1")),
                (
                    "_rate",
                    format!("round(1e9 / table_6_6.{table}_{theirs}_ns.$1)"),
                ),
            ] {
                let pattern = format!("memcached_{place}_{ours}{key}.by_length.*");
                all.push(("paper.toml".to_owned(), pattern, expression));
            }
        }
    }
    all
}

/// Places of `paper.toml` that no section of `published.toml` has, with the figures that they are made from.
pub const PLACES: &[(&str, &str)] = &[
    ("derived: 223 + 300 + 223", "section 3.2.2.6"),
    ("figure 5.10", "table 5.2"),
    ("figure 6.13", "table 6.6"),
    ("figure 6.15", "table 6.6"),
];
