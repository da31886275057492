// SPDX-License-Identifier: Apache-2.0
use super::*;

fn store(index: u16, fate: Fate) -> Entry {
    Entry {
        what: What::Store,
        fate,
        page: 0,
        dws: 2,
        first_be: 0xF,
        last_be: 0xF,
        offset: 8 * index,
        seed: u64::from(index),
        wire: u64::from(8 * index),
        reported: false,
        excused: false,
        promised: false,
    }
}

struct Bed {
    stream: Stream,
    shadow: Vec<u8>,
}

impl Bed {
    fn new(merge: bool, fates: &[Fate]) -> Self {
        let mut stream = Stream::new(merge);
        for (index, fate) in (0..).zip(fates) {
            stream.issue(store(index, *fate));
        }
        Self {
            stream,
            shadow: vec![0; PAGE],
        }
    }

    fn write(&mut self, indices: &[u16]) -> Result<(), String> {
        let mut data = Vec::new();
        for index in indices {
            let mut eight = [0; 8];
            fill(u64::from(*index), &mut eight);
            data.extend_from_slice(&eight);
        }
        let write = Write {
            page: 0,
            offset: 8 * usize::from(indices[0]),
            first_be: 0xF,
            last_be: 0xF,
            data: &data,
        };
        self.stream.write(&write, &mut self.shadow)
    }
}

const D: Fate = Fate::Deliver;
const R: Fate = Fate::Refuse(3);

#[test]
fn order_is_order() {
    let mut good = Bed::new(false, &[D, D, D]);
    for index in 0..3 {
        good.write(&[index]).expect("in order");
    }
    good.stream.settle().expect("all arrived");
    let swapped = Bed::new(false, &[D, D, D]).write(&[1]);
    assert!(swapped.unwrap_err().contains("left out or overtaken"));
    let mut again = Bed::new(false, &[D, D]);
    again.write(&[0]).expect("in order");
    assert!(again.write(&[0]).unwrap_err().contains("again"));
    let mut missing = Bed::new(false, &[D, D]);
    missing.write(&[0]).expect("in order");
    assert!(
        missing
            .stream
            .settle()
            .unwrap_err()
            .contains("never arrived")
    );
}

#[test]
fn merged_stores_are_their_concatenation() {
    let mut good = Bed::new(true, &[D, D, D]);
    good.write(&[0, 1]).expect("two as one");
    good.write(&[2]).expect("in order");
    good.stream.settle().expect("all arrived");
    assert!(Bed::new(false, &[D, D]).write(&[0, 1]).is_err());
    assert!(Bed::new(true, &[D, D, D]).write(&[0, 2]).is_err());
    assert!(Bed::new(true, &[D]).write(&[0, 1]).is_err());
}

#[test]
fn refusals_are_reported_once() {
    let mut bed = Bed::new(false, &[D, R, D]);
    bed.write(&[0]).expect("in order");
    bed.stream.report(0, 3, FMT_MWR64, 1, 8).expect("refused");
    bed.write(&[2]).expect("in order");
    bed.stream.settle().expect("all ended");
    assert!(bed.stream.report(0, 3, FMT_MWR64, 1, 8).is_err());

    let mut bed = Bed::new(false, &[D, R, D]);
    bed.write(&[0]).expect("in order");
    bed.write(&[2]).expect("the report may come later");
    let silent = bed.stream.settle();
    assert!(silent.unwrap_err().contains("was not reported"));

    let mut bed = Bed::new(false, &[D, R]);
    assert!(bed.stream.report(0, 1, FMT_MWR64, 1, 8).is_err());
    assert!(bed.stream.report(0, 3, FMT_MWR64, 1, 0).is_err());
    bed.write(&[0]).expect("in order");
    assert!(bed.write(&[1]).is_err(), "a refused store must not arrive");
}

#[test]
fn a_store_without_a_byte_may_have_been_another_one() {
    let blank = |seed, excused| Entry {
        dws: 1,
        first_be: 0,
        last_be: 0,
        seed,
        excused,
        ..store(0, D)
    };
    let write = Write {
        page: 0,
        offset: 0,
        first_be: 0,
        last_be: 0,
        data: &[0; 4],
    };
    let bed = |excused| {
        let mut bed = Bed::new(false, &[]);
        bed.stream.issue(blank(1, excused));
        bed.stream.issue(blank(2, false));
        bed.stream.issue(store(1, D));
        bed.stream
            .write(&write, &mut bed.shadow)
            .expect("one of the two");
        bed
    };
    bed(true).write(&[1]).expect("the first never came");
    assert!(
        bed(false).write(&[1]).is_err(),
        "the first had to come, so the second is left out"
    );
    let mut settled = bed(true);
    settled.write(&[1]).expect("the first never came");
    settled.stream.settle().expect("nothing is owed");
    let mut both = bed(true);
    both.stream
        .write(&write, &mut both.shadow)
        .expect("the other of the two");
    both.write(&[1]).expect("all came");
    both.stream.settle().expect("nothing is owed");
}

#[test]
fn a_report_covers_what_travelled_with_it() {
    let mut bed = Bed::new(true, &[R, R, D]);
    bed.stream.report(0, 3, FMT_MWR64, 1, 0).expect("refused");
    bed.write(&[2]).expect("in order");
    bed.stream.settle().expect("the second travelled with it");
    let mut bed = Bed::new(false, &[R, R, D]);
    bed.stream.report(0, 3, FMT_MWR64, 1, 0).expect("refused");
    bed.write(&[2]).expect("in order");
    assert!(bed.stream.settle().is_err());
}

#[test]
fn revoked_regions_let_either_happen() {
    let mut bed = Bed::new(false, &[Fate::Either, Fate::Either, D]);
    bed.write(&[0]).expect("still given");
    bed.write(&[2]).expect("the second was refused");
    assert!(bed.stream.settle().is_err(), "and not reported");
    let mut bed = Bed::new(false, &[Fate::Either, Fate::Either, D]);
    bed.write(&[0]).expect("still given");
    bed.stream.report(0, 1, FMT_MWR64, 7, 8).expect("refused");
    bed.write(&[2]).expect("in order");
    bed.stream.settle().expect("all ended");
}

#[test]
fn what_is_excused_may_vanish_but_not_come_twice() {
    let mut bed = Bed::new(false, &[D, D, D]);
    bed.write(&[0]).expect("in order");
    bed.stream.excuse(0, false);
    bed.stream.issue(store(3, D));
    bed.write(&[2]).expect("one vanished");
    assert!(bed.write(&[1]).is_err(), "it is gone");
    let mut bed = Bed::new(false, &[D, D]);
    bed.stream.excuse(0, false);
    bed.stream.issue(store(3, D));
    bed.write(&[3]).expect("two vanished");
    bed.stream.settle().expect("all ended");
}

#[test]
fn flushes_come_after_their_stores() {
    let mut bed = Bed::new(false, &[D, D]);
    bed.stream.issue(Entry {
        what: What::Flush(5),
        ..store(9, D)
    });
    assert!(bed.stream.flushed(5, 1).is_err());
    let mut bed = Bed::new(false, &[D]);
    bed.stream.issue(Entry {
        what: What::Flush(5),
        ..store(9, D)
    });
    bed.write(&[0]).expect("in order");
    assert!(bed.stream.flushed(6, 0).is_err());
    bed.stream.flushed(5, 0).expect("all arrived");
    bed.stream.settle().expect("all ended");
}

#[test]
fn flushes_whose_events_were_lost_need_no_answer() {
    let flush = |cookie| Entry {
        what: What::Flush(cookie),
        ..store(9, D)
    };
    let mut bed = Bed::new(false, &[]);
    (5..8).for_each(|cookie| bed.stream.issue(flush(cookie)));
    assert!(bed.stream.flushed(6, 0).is_err(), "the first is missing");
    bed.stream.lose_events(0);
    bed.stream.flushed(6, 0).expect("the first was lost");
    assert!(bed.stream.flushed(5, 0).is_err(), "too late");
    bed.stream.issue(flush(8));
    bed.stream.issue(flush(9));
    assert!(bed.stream.flushed(9, 0).is_err(), "8 came after the loss");
    bed.stream.flushed(8, 0).expect("the third was lost");
    assert!(bed.stream.settle().is_err(), "9 was not");
    bed.stream.flushed(9, 0).expect("in order");
    bed.stream.settle().expect("all ended");
}
