// SPDX-License-Identifier: Apache-2.0
//! A guest without devices: it boots, runs its init, and ends.

mod common;

use common::{Directory, alone};
use uml::{GuestEvent, Next};

#[test]
fn a_guest_boots_to_its_init_and_halts() {
    let directory = Directory::new();
    let mut guest = directory.guest(
        "boots",
        "echo hello from $(uname -s) at $(cat /proc/uptime); date -u",
        vec![],
    );
    let mut events = Vec::new();
    let status = alone(&mut guest, &mut events);
    eprintln!("{}\n{}", directory.console("boots"), directory.out("boots"));
    assert_eq!(status, 0);
    assert!(matches!(
        events.last().unwrap().event,
        GuestEvent::Exited { status: 0 }
    ));
    assert_eq!(guest.next(), Next::Exited(0));
}
