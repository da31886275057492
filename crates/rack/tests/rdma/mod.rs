// SPDX-License-Identifier: Apache-2.0
//! Linux guests with a device for RDMA, for the tests of programs that use one.

use std::path::Path;

use rack::Topology;
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};

const RXE: &str = "rdma link add rxe0 type rxe netdev $IPNUMA_NETDEV";

/// Whether the kernel of `tools/uml-kernel --rdma` is there; says so if not.
pub fn kernel() -> bool {
    match uml::rdma_kernel() {
        Ok(_) => true,
        Err(error) => {
            // CI sets this, so that a missing kernel is no success there.
            assert!(std::env::var_os("IPNUMA_UML_REQUIRED").is_none(), "{error}");
            skip::skip!("{error}");
            false
        }
    }
}

/// A guest with a device for RDMA.
#[derive(Clone, Copy, PartialEq)]
pub enum Device {
    Uzura,
    /// In software, behind the ring NIC in RTL.
    Software,
}

impl Device {
    /// A host of a topology; `DEVICE` in its command is the device's name.
    pub fn host(self, name: &str, command: &str) -> String {
        let (nic, before, device) = match self {
            Self::Uzura => ("uzura", "", "uzura0"),
            Self::Software => ("ring", RXE, "rxe0"),
        };
        let command = command.replace("DEVICE", device);
        format!(
            "[[host]]\nname = \"{name}\"\nkind = \"uml\"\nrdma = true\n\
             nic = {{ kind = \"{nic}\", rate = \"10g\" }}\n\
             command = '''\nset -e\n{before}\n{command}\n'''\n"
        )
    }
}

/// Runs hosts and cables until the command of each of these hosts has ended. All end with status 0, and no kernel complains.
pub fn run_hosts(rack: &str, until: &[&str]) -> UmlOutcome {
    let text = format!(
        "platform = \"keio-2016\"\nseed = 1\n{rack}\
         [program]\nkind = \"uml\"\nuntil = {until:?}\nlimit_s = 20\n",
    );
    let topology = Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound");
    let outcome = run_uml(&topology, &Options::default(), &rtl).expect("the run ends");
    for guest in &outcome.guests {
        let out = String::from_utf8_lossy(&guest.stdout);
        let errors = String::from_utf8_lossy(&guest.stderr);
        println!("{}: {:?}\n{out}{errors}", guest.name, guest.report);
        assert_eq!(guest.status, Some(0), "{errors}\n{}", guest.console);
        assert!(!out.contains("invalid data"), "{out}");
        let complaint =
            ["WARNING", "BUG", "Oops", "panic"].map(|word| guest.console.contains(word));
        assert_eq!(complaint, [false; 4], "{}", guest.console);
    }
    println!(
        "{:.1} s wall, hash {}",
        outcome.wall_seconds,
        outcome.digest()
    );
    outcome
}
