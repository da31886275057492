// SPDX-License-Identifier: Apache-2.0
//! The bridge itself, on a small top.

use ipnuma_rtl::{Error, Handle, ports};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

ports!(Ports {
    clk_i,
    rst_i,
    add_i,
    sum_o,
    nibble_i,
    same_o,
    wide_i,
    reversed_o,
    fail_i,
    finish_i,
});

/// The model with its ports.
struct SelfTest {
    model: Handle,
    ports: Ports,
}

impl SelfTest {
    fn new() -> Self {
        let model = Handle::new("self_test").expect("it is built");
        let ports = Ports::of(&model).expect("it has these ports");
        Self { model, ports }
    }
}

fn edge(test: &mut SelfTest) -> Result<(), Error> {
    let SelfTest { model, ports } = test;
    model.set(ports.clk_i, false);
    model.eval()?;
    model.set(ports.clk_i, true);
    model.eval()
}

fn started() -> SelfTest {
    let mut test = SelfTest::new();
    test.model.set(test.ports.rst_i, true);
    edge(&mut test).expect("reset asserts nothing");
    test.model.set(test.ports.rst_i, false);
    test
}

#[test]
fn ports_carry_all_their_bits() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut test = started();
    let mut sum = 0_u64;
    for _ in 0..1000 {
        let add = random.random::<u64>();
        sum = sum.wrapping_add(add);
        test.model.set(test.ports.add_i, add);
        edge(&mut test).expect("nothing fails");
        assert_eq!(test.model.get(test.ports.sum_o), sum);
    }
}

#[test]
fn wide_ports_carry_all_their_bits() {
    const WIDTH: usize = 150;
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut test = started();
    let bit = |lanes: [u64; 3], at: usize| lanes[at / 64] >> (at % 64) & 1;
    for round in 0..1000 {
        let set: [u64; 3] = random.random();
        if round % 2 == 0 {
            test.model.set_wide(test.ports.wide_i, set);
        } else {
            for lane in [2, 0, 1] {
                test.model.set_lane(test.ports.wide_i, lane, set[lane]);
            }
        }
        test.model.eval().expect("nothing fails");
        let got = test.model.wide::<3>(test.ports.reversed_o);
        for at in 0..WIDTH {
            assert_eq!(bit(got, at), bit(set, WIDTH - 1 - at), "bit {at}");
            assert_eq!(
                bit(test.model.wide::<3>(test.ports.wide_i), at),
                bit(set, at),
                "bit {at}"
            );
        }
        assert_eq!(got[2] >> (WIDTH - 128), 0);
        assert_eq!(
            test.model.wide::<3>(test.ports.wide_i)[2] >> (WIDTH - 128),
            0
        );
        assert_eq!(
            got,
            [0, 1, 2].map(|lane| test.model.lane(test.ports.reversed_o, lane))
        );
    }
}

#[test]
#[should_panic(expected = "lane 3 of a port with 3")]
fn a_lane_that_is_not_there_is_refused() {
    let mut test = started();
    test.model.set_lane(test.ports.wide_i, 3, 0);
}

#[test]
fn combinational_outputs_settle_without_a_clock_and_excess_bits_are_cut() {
    let mut test = started();
    test.model.set(test.ports.nibble_i, 0xFFF5_u64);
    test.model.eval().expect("nothing fails");
    assert_eq!(test.model.get(test.ports.same_o), 0x15);
    assert_eq!(test.model.get(test.ports.nibble_i), 0x15);
}

#[test]
fn a_failed_assertion_is_an_error_with_its_message_and_is_final() {
    let mut test = started();
    test.model.set(test.ports.nibble_i, 9_u64);
    test.model.set(test.ports.fail_i, true);
    test.model.set_time(1234);
    let error = edge(&mut test).expect_err("the assertion fails");
    let Error::Rtl {
        model: name,
        message,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*name, "self_test");
    assert!(message.contains("asked to fail with nibble 9"), "{message}");
    assert!(message.contains("self_test.sv"), "{message}");
    assert!(message.contains("1234"), "{message}");

    test.model.set(test.ports.fail_i, false);
    assert_eq!(
        edge(&mut test).expect_err("a failed model stays failed"),
        error
    );
}

#[test]
fn finish_is_an_error() {
    let mut test = started();
    test.model.set(test.ports.finish_i, true);
    let error = edge(&mut test).expect_err("$finish ends the model");
    assert!(error.to_string().contains("$finish"), "{error}");
}

#[test]
fn models_do_not_share_their_failures() {
    let mut failing = started();
    let mut other = started();
    failing.model.set(failing.ports.fail_i, true);
    assert!(edge(&mut failing).is_err());
    assert!(edge(&mut other).is_ok());
}

#[test]
fn a_model_may_move_to_another_thread() {
    let mut test = started();
    let sum = std::thread::spawn(move || {
        test.model.set(test.ports.add_i, 41_u64);
        edge(&mut test).expect("nothing fails");
        test.model.set(test.ports.fail_i, true);
        assert!(edge(&mut test).is_err());
        test.model.get(test.ports.sum_o)
    });
    assert_eq!(sum.join().expect("the thread ends"), 82);
}

#[test]
fn waves_are_written_twice_and_a_missing_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut test = started();
    assert!(matches!(
        test.model.trace(&folder.path().join("missing/a.fst")),
        Err(Error::Trace { .. })
    ));
    for (round, name) in ["a.fst", "b.fst"].into_iter().enumerate() {
        let path = folder.path().join(name);
        test.model.trace(&path).expect("the folder exists");
        for cycle in 0..20 {
            test.model.set(test.ports.add_i, cycle);
            edge(&mut test).expect("nothing fails");
            test.model.dump(1000 * (round as u64 + 1) + cycle);
        }
        test.model.trace_close();
        let size = std::fs::metadata(&path).expect("the file is there").len();
        assert!(size > 100, "{name} has {size} bytes");
    }
}

#[test]
fn ports_are_described() {
    let test = SelfTest::new();
    let ports: Vec<_> = test.model.ports().collect();
    assert_eq!(ports.len(), 10);
    let nibble = ports
        .iter()
        .find(|p| p.name == "nibble_i")
        .expect("it is there");
    assert_eq!((nibble.width, nibble.output), (5, false));
    assert!(
        ports
            .iter()
            .any(|p| p.name == "sum_o" && p.width == 64 && p.output)
    );
}
