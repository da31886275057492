// SPDX-License-Identifier: Apache-2.0
//! Every model that the project builds: its top, parameters and flags.

/// One Verilated model.
#[derive(Debug)]
pub struct Model {
    /// What it is called; also the prefix of its C++ classes.
    pub name: &'static str,
    /// Top module.
    pub top: &'static str,
    /// File lists and sources, relative to the repository root.
    pub files: &'static [&'static str],
    /// Parameters of the top.
    pub parameters: &'static [(&'static str, &'static str)],
    /// What Verilator is told beside the arguments of all models.
    pub flags: &'static [&'static str],
    /// Whether it can write waves, which doubles its C++.
    pub waves: bool,
}

/// Depths of the lookup's memories for 1.3 million IPv4 and 300,000 IPv6 routes.
pub const FULL_TABLES: &[(&str, &str)] = &[
    ("V4Leaves", "2097152"),
    ("V4Groups", "4096"),
    ("V4Hosts", "4096"),
    ("V6Nodes1", "8192"),
    ("V6Nodes2", "65536"),
    ("V6Nodes3", "65536"),
    ("V6Nodes4", "65536"),
    ("V6Nodes5", "131072"),
    ("V6Nodes6", "32768"),
    ("V6Nodes7", "16384"),
    ("V6Leaves", "1048576"),
    ("V6Hosts", "1024"),
    ("V6TcamEntries", "128"),
];

/// Depths for some thousand routes; and VLAN stages, which cost a cycle at 10G.
pub const SMALL_TABLES: &[(&str, &str)] = &[
    ("V4Leaves", "16384"),
    ("V4Groups", "256"),
    ("V4Hosts", "256"),
    ("V6Nodes1", "1024"),
    ("V6Nodes2", "2048"),
    ("V6Nodes3", "2048"),
    ("V6Nodes4", "4096"),
    ("V6Nodes5", "4096"),
    ("V6Nodes6", "4096"),
    ("V6Nodes7", "4096"),
    ("V6Leaves", "32768"),
    ("V6Hosts", "256"),
    ("V6TcamEntries", "32"),
    ("Vlan", "1"),
];

/// Nine ports, so that eight hosts can send to a ninth: the smallest tables, no access list, no storing. A frame takes
/// as many cycles as in the full build.
pub const WIDE_TABLES: &[(&str, &str)] = &[
    ("N", "9"),
    ("MaxFrame", "1536"),
    ("NextHops", "256"),
    ("AclRules", "0"),
    ("StoreAndCheck", "0"),
    ("V4Leaves", "4096"),
    ("V4Groups", "16"),
    ("V4Hosts", "64"),
    ("V6Nodes1", "256"),
    ("V6Nodes2", "256"),
    ("V6Nodes3", "256"),
    ("V6Nodes4", "256"),
    ("V6Nodes5", "256"),
    ("V6Nodes6", "256"),
    ("V6Nodes7", "256"),
    ("V6Leaves", "4096"),
    ("V6Hosts", "64"),
    ("V6TcamEntries", "8"),
];

/// For tops with the same large parts several times: a part keeps its own class, and long loops
/// stay loops. The C++ has a third of the size, and takes that much less time to compile.
const REPEATED: &[&str] = &["--inline-mult", "1", "--unroll-count", "16"];

/// The lookup of the dissertation, section 5.2.3 and 5.2.4: 4 MB of SRAM, and a TCAM of 32 entries for IPv6.
const DISSERTATION: &[(&str, &str)] = &[("Sram22", "1"), ("V6TcamEntries", "32")];

/// The same with two ports: for a rack that has no more cables, and no time to evaluate what has none.
const NARROW: &[&str] = &["--inline-mult", "1", "--unroll-count", "16", "-GN=2"];

const NIC: &[&str] = &["rtl/nic/nic.f"];
const RING: &[&str] = &["rtl/ring/ring.f"];
const SHELL: &[&str] = &["rtl/shell/shell.f"];
const UZURA: &[&str] = &["rtl/shell/uzura_shell.f"];
const TOE: &[&str] = &["rtl/toe/toe_10g.f"];
const FIBNIC: &[&str] = &["rtl/fibnic/fibnic.f"];
const FIBNIC_1G: &[&str] = &["rtl/fibnic/fibnic_1g.f"];
const TESTER: &[&str] = &["rtl/tester/rfc2544.f"];

const fn model(name: &'static str, top: &'static str, files: &'static [&'static str]) -> Model {
    Model {
        name,
        top,
        files,
        parameters: &[],
        flags: &[],
        waves: true,
    }
}

/// A switch, or another top with large parts several times.
const fn switch(
    name: &'static str,
    top: &'static str,
    files: &'static [&'static str],
    parameters: &'static [(&'static str, &'static str)],
) -> Model {
    Model {
        parameters,
        flags: REPEATED,
        waves: false,
        ..model(name, top, files)
    }
}

/// All models, in the order in which they are built when nobody asks for one of them: what `./demo` shows first is first.
pub const MODELS: &[Model] = &[
    model("ipnuma_nic_10g", "ipnuma_nic_10g", NIC),
    model("ipnuma_nic_1g", "ipnuma_nic_1g", NIC),
    model("bus_meter", "bus_meter_top", &["rtl/pcie/pcie.f"]),
    // The conventional NIC, with the pins of the two above.
    model("ring_nic_1g", "ring_nic_1g", RING),
    model("ring_nic_10g", "ring_nic_10g", RING),
    // Both behind one cable.
    model("nic_shell_10g", "nic_shell_10g", SHELL),
    model("nic_shell_1g", "nic_shell_1g", SHELL),
    // The conventional NIC and the RDMA engine behind one cable.
    model("uzura_shell_10g", "uzura_shell_10g", UZURA),
    // The RDMA engine alone, between a host's memory and frames.
    model("uzura", "uzura", &["rtl/uzura/uzura.f"]),
    // The TCP offload engine behind its MAC, for a host without PCI Express.
    switch("toe_10g", "toe_10g", TOE, &[]),
    Model {
        flags: NARROW,
        ..switch("fibnic_1g_narrow", "fibnic_1g", FIBNIC_1G, SMALL_TABLES)
    },
    Model {
        flags: NARROW,
        ..switch("fibnic_10g_narrow", "fibnic_10g", FIBNIC, SMALL_TABLES)
    },
    Model {
        waves: true,
        ..switch("fibnic_1g", "fibnic_1g", FIBNIC_1G, SMALL_TABLES)
    },
    Model {
        waves: true,
        ..switch("fibnic_10g", "fibnic_10g", FIBNIC, SMALL_TABLES)
    },
    // Four tester ports around the switch; one size is enough, tables cost little but memory.
    switch("rig_10g", "rfc2544_10g", TESTER, FULL_TABLES),
    switch("rig_1g", "rfc2544_1g", TESTER, FULL_TABLES),
    switch("rig_10g_sram22", "rfc2544_10g", TESTER, DISSERTATION),
    switch("rig_1g_sram22", "rfc2544_1g", TESTER, DISSERTATION),
    switch("fibnic_10g_wide", "fibnic_10g", FIBNIC, WIDE_TABLES),
    switch("fibnic_1g_wide", "fibnic_1g", FIBNIC_1G, WIDE_TABLES),
    switch("fibnic_10g_full", "fibnic_10g", FIBNIC, FULL_TABLES),
    switch("fibnic_1g_full", "fibnic_1g", FIBNIC_1G, FULL_TABLES),
    // As the first two with a page map that a test can overrun.
    Model {
        parameters: &[("Pages", "1024")],
        ..model("ipnuma_nic_10g_small", "ipnuma_nic_10g", NIC)
    },
    Model {
        parameters: &[("Pages", "1024")],
        ..model("ipnuma_nic_1g_small", "ipnuma_nic_1g", NIC)
    },
    // As deep as crates/fib's Config::default, which a test compares with it.
    Model {
        parameters: FULL_TABLES,
        waves: false,
        ..model(
            "fib_lookup_full",
            "fib_lookup_flat",
            &["rtl/fibnic/lookup.f", "crates/rtl/tops/fib_lookup_flat.sv"],
        )
    },
    model("self_test", "self_test", &["crates/rtl/tests/self_test.sv"]),
];

/// The model of that name.
pub fn find(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}
