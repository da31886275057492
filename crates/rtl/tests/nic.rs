// SPDX-License-Identifier: Apache-2.0
//! The NIC and the bus meter behind their common interface; what they do is tested elsewhere.

use ipnuma_rtl::{Error, NetSpeed, NetWord, Nic, TlpBeat};

/// Cycles in which a NIC that has nothing to do comes to rest.
const REST: usize = 64;

fn step(nic: &mut Nic) -> Result<(), Error> {
    nic.settle()?;
    nic.edge(true, true)?;
    Ok(())
}

fn check_idle(mut nic: Nic) {
    let idle = nic.speed().idle();
    nic.inputs.m_tlp_ready = true;
    nic.reset().expect("reset asserts nothing");
    for _ in 0..REST {
        step(&mut nic).expect("an idle NIC asserts nothing");
    }
    let outputs = *nic.settle().expect("an idle NIC asserts nothing");
    assert_eq!(outputs.net, idle);
    assert_eq!(outputs.m_tlp, None);
    assert!(!outputs.busy_pcie && !outputs.busy_net, "{outputs:?}");
}

/// Reads four bytes at an offset of BAR 0; returns the beats of the completion.
fn read_register(nic: &mut Nic, offset: u64) -> Vec<TlpBeat> {
    // A 3-DW memory read, bytes in order: type, length, requester, tag, byte enables, address.
    let header: [u8; 16] = {
        let mut bytes = [0; 16];
        bytes[3] = 1;
        bytes[6] = 0x5A;
        bytes[7] = 0x0F;
        bytes[8..12].copy_from_slice(&(offset as u32).to_be_bytes());
        bytes
    };
    let beats = [
        TlpBeat {
            data: bytes_of(&header[..8]),
            keep: 0xFF,
            last: false,
            user: 0,
        },
        TlpBeat {
            data: bytes_of(&header[8..]),
            keep: 0x0F,
            last: true,
            user: 0,
        },
    ];
    let mut sent = 0;
    let mut received = Vec::new();
    for _ in 0..1000 {
        nic.inputs.s_tlp = beats.get(sent).copied();
        let outputs = *nic.settle().expect("nothing fails");
        if nic.inputs.s_tlp.is_some() && outputs.s_tlp_ready {
            sent += 1;
        }
        received.extend(outputs.m_tlp);
        nic.edge(true, true).expect("nothing fails");
        if received.last().is_some_and(|beat: &TlpBeat| beat.last) {
            return received;
        }
    }
    panic!("no completion in 1000 cycles; {sent} beats were taken");
}

fn bytes_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[test]
fn all_nics_come_to_rest_after_reset() {
    for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
        check_idle(Nic::new(speed).expect("it is built"));
        check_idle(Nic::new_small(speed).expect("it is built"));
    }
    check_idle(Nic::bus_meter().expect("it is built"));
}

#[test]
fn a_register_read_is_completed() {
    for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
        let mut nic = Nic::new(speed).expect("it is built");
        nic.inputs.m_tlp_ready = true;
        nic.inputs.completer_id = 0x0100;
        nic.reset().expect("reset asserts nothing");
        let beats = read_register(&mut nic, 0);
        assert_eq!(beats.len(), 2, "{beats:?}");
        assert_eq!(
            beats[0].data & 0xFF,
            0x4A,
            "a completion with data: {beats:?}"
        );
        assert_eq!(beats[1].data >> 16 & 0xFF, 0x5A, "our tag: {beats:?}");
    }
}

#[test]
fn ring_nics_come_to_rest_and_say_who_they_are() {
    for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
        check_idle(Nic::ring(speed).expect("it is built"));
        let mut nic = Nic::ring(speed).expect("it is built");
        nic.inputs.m_tlp_ready = true;
        nic.reset().expect("reset asserts nothing");
        let beats = read_register(&mut nic, 0);
        let id = (beats[1].data >> 32) as u32;
        assert_eq!(id, u32::from_be_bytes(*b"RING"), "{beats:?}");
    }
}

#[test]
fn the_rdma_nic_comes_to_rest_and_its_first_function_is_the_ring_nic() {
    let mut nic = Nic::uzura().expect("it is built");
    nic.inputs.m_tlp_ready = true;
    nic.reset().expect("reset asserts nothing");
    // It empties its table of translations first, a word a cycle.
    for _ in 0..1100 {
        step(&mut nic).expect("an idle NIC asserts nothing");
    }
    let outputs = *nic.settle().expect("an idle NIC asserts nothing");
    assert!(!outputs.busy_pcie && !outputs.busy_net, "{outputs:?}");
    let beats = read_register(&mut nic, 0);
    let id = (beats[1].data >> 32) as u32;
    assert_eq!(id, u32::from_be_bytes(*b"RING"), "{beats:?}");
}

#[test]
#[should_panic(expected = "takes XGMII words")]
fn a_word_of_the_other_rate_is_refused() {
    let mut nic = Nic::new(NetSpeed::TenGig).expect("it is built");
    nic.inputs.net = NetWord::Gmii {
        data: 0,
        enable: false,
        error: false,
    };
    let _ = nic.settle();
}

#[test]
fn waves_show_both_clocks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("nic.fst");
    let mut nic = Nic::new_small(NetSpeed::TenGig).expect("it is built");
    nic.trace(&path).expect("the folder exists");
    for cycle in 1..100 {
        nic.set_time(4_000 * cycle);
        step(&mut nic).expect("nothing fails");
    }
    nic.trace_close();
    let size = std::fs::metadata(&path).expect("the file is there").len();
    assert!(size > 1000, "{size} bytes");
}
