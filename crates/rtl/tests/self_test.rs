// SPDX-License-Identifier: Apache-2.0
//! The bridge itself, on a small top.

use ipnuma_rtl::{Error, Model, SelfTest};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn edge(model: &mut SelfTest) -> Result<(), Error> {
    model.set_clk_i(false);
    model.eval()?;
    model.set_clk_i(true);
    model.eval()
}

fn started() -> SelfTest {
    let mut model = SelfTest::new();
    model.set_rst_i(true);
    edge(&mut model).expect("reset asserts nothing");
    model.set_rst_i(false);
    model
}

#[test]
fn ports_carry_all_their_bits() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut model = started();
    let mut sum = 0_u64;
    for _ in 0..1000 {
        let add = random.random::<u64>();
        sum = sum.wrapping_add(add);
        model.set_add_i(add);
        edge(&mut model).expect("nothing fails");
        assert_eq!(model.sum_o(), sum);
    }
}

#[test]
fn wide_ports_carry_all_their_bits() {
    const WIDTH: usize = 150;
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut model = started();
    let bit = |lanes: [u64; 3], at: usize| lanes[at / 64] >> (at % 64) & 1;
    for round in 0..1000 {
        let set: [u64; 3] = random.random();
        if round % 2 == 0 {
            model.set_wide_i(set);
        } else {
            for lane in [2, 0, 1] {
                model.set_wide_i_lane(lane, set[lane]);
            }
        }
        model.eval().expect("nothing fails");
        let got = model.reversed_o();
        for at in 0..WIDTH {
            assert_eq!(bit(got, at), bit(set, WIDTH - 1 - at), "bit {at}");
            assert_eq!(bit(model.wide_i(), at), bit(set, at), "bit {at}");
        }
        assert_eq!(got[2] >> (WIDTH - 128), 0);
        assert_eq!(model.wide_i()[2] >> (WIDTH - 128), 0);
        assert_eq!(got, [0, 1, 2].map(|lane| model.reversed_o_lane(lane)));
    }
}

#[test]
#[should_panic(expected = "lane 3 of a port with 3")]
fn a_lane_that_is_not_there_is_refused() {
    started().set_wide_i_lane(3, 0);
}

#[test]
fn combinational_outputs_settle_without_a_clock_and_excess_bits_are_cut() {
    let mut model = started();
    model.set_nibble_i(0xFFF5);
    model.eval().expect("nothing fails");
    assert_eq!(model.same_o(), 0x15);
    assert_eq!(model.nibble_i(), 0x15);
}

#[test]
fn a_failed_assertion_is_an_error_with_its_message_and_is_final() {
    let mut model = started();
    model.set_nibble_i(9);
    model.set_fail_i(true);
    model.set_time(1234);
    let error = edge(&mut model).expect_err("the assertion fails");
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

    model.set_fail_i(false);
    assert_eq!(
        edge(&mut model).expect_err("a failed model stays failed"),
        error
    );
}

#[test]
fn finish_is_an_error() {
    let mut model = started();
    model.set_finish_i(true);
    let error = edge(&mut model).expect_err("$finish ends the model");
    assert!(error.to_string().contains("$finish"), "{error}");
}

#[test]
fn models_do_not_share_their_failures() {
    let mut failing = started();
    let mut other = started();
    failing.set_fail_i(true);
    assert!(edge(&mut failing).is_err());
    assert!(edge(&mut other).is_ok());
}

#[test]
fn a_model_may_move_to_another_thread() {
    let mut model = started();
    let sum = std::thread::spawn(move || {
        model.set_add_i(41);
        edge(&mut model).expect("nothing fails");
        model.set_fail_i(true);
        assert!(edge(&mut model).is_err());
        model.sum_o()
    });
    assert_eq!(sum.join().expect("the thread ends"), 82);
}

#[test]
fn waves_are_written_twice_and_a_missing_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut model = started();
    assert!(matches!(
        model.trace(&folder.path().join("missing/a.fst")),
        Err(Error::Trace { .. })
    ));
    for (round, name) in ["a.fst", "b.fst"].into_iter().enumerate() {
        let path = folder.path().join(name);
        model.trace(&path).expect("the folder exists");
        for cycle in 0..20 {
            model.set_add_i(cycle);
            edge(&mut model).expect("nothing fails");
            model.dump(1000 * (round as u64 + 1) + cycle);
        }
        model.trace_close();
        let size = std::fs::metadata(&path).expect("the file is there").len();
        assert!(size > 100, "{name} has {size} bytes");
    }
}

#[test]
fn ports_are_described() {
    let model = SelfTest::new();
    let ports: Vec<_> = model.handle().ports().collect();
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
