// SPDX-License-Identifier: Apache-2.0
//! Every published figure in this repository is the one of `experiments/published.toml`, which was transcribed from the
//! sources a second time. A figure that nobody claims fails, and so does a claim that finds no figure.

mod claims;
mod expression;
mod quotes;
mod repository;

use std::collections::{BTreeMap, BTreeSet};

use claims::{OTHERS, PLACES, claims};
use expression::{Figures, evaluate};
use quotes::{ATTRIBUTED, OWN, QUOTES};
use repository::{Number, Text};

/// What a change must not pass.
const CHANGE: f64 = 1.02;

/// The published figures by their dotted paths, and the place of each section.
fn published() -> (Figures, BTreeMap<String, String>) {
    let table = repository::toml("experiments/published.toml");
    let figures = repository::numbers("", &table).into_iter();
    let mut places = BTreeMap::new();
    let mut sections = vec![(String::new(), &table)];
    while let Some((path, section)) = sections.pop() {
        if let Some(place) = section.get("place").and_then(toml::Value::as_str) {
            places.insert(path.clone(), place.to_owned());
        }
        for (key, value) in section.as_table().into_iter().flatten() {
            if value.is_table() {
                sections.push((format!("{path}{key}."), value));
            }
        }
    }
    (figures.map(|n| (n.path, n.value)).collect(), places)
}

/// What the stars of a pattern stand for in a path.
fn matches(pattern: &str, path: &str) -> Option<Vec<String>> {
    let Some((head, rest)) = pattern.split_once('*') else {
        return (pattern == path).then(Vec::new);
    };
    let after = path.strip_prefix(head)?;
    let most = after.find('.').unwrap_or(after.len());
    (1..=most).rev().find_map(|end| {
        let mut found = matches(rest, after.get(end..)?)?;
        found.insert(0, after[..end].to_lowercase());
        Some(found)
    })
}

/// The expression for a number, or what is wrong with its claims.
fn expression_of(
    number: &Number,
    claims: &[(String, String, String)],
) -> Result<Option<String>, String> {
    let mut found = Vec::new();
    for (file, pattern, expression) in claims {
        if *file != number.file {
            continue;
        }
        if let Some(stars) = matches(pattern, &number.path) {
            let mut expression = expression.clone();
            for (index, star) in stars.iter().enumerate() {
                expression = expression.replace(&format!("${}", index + 1), star);
            }
            found.push(expression);
        }
    }
    let others = OTHERS
        .iter()
        .filter(|other| other.0 == number.file && matches(other.1, &number.path).is_some());
    found.extend(others.map(|other| format!("{:?}", other.2)));
    match &found[..] {
        [one] => Ok(Some(one.clone())),
        [] => Err(format!(
            "{number}: no published figure is claimed for it; add it to crates/rack/tests/published/claims.rs, and the figure \
             to experiments/published.toml from its source"
        )),
        _ => Err(format!("{number}: claimed more than once: {found:?}")),
    }
}

/// Whether they are the same but for the arithmetic.
fn same(ours: f64, published: f64) -> bool {
    (ours - published).abs() <= 1e-9 * published.abs().max(1e-3)
}

/// All numbers that are not the published ones, as sentences.
fn wrong_numbers(numbers: &[Number], figures: &Figures) -> Vec<String> {
    let claims = claims();
    let mut wrong = Vec::new();
    for number in numbers {
        let held = expression_of(number, &claims)
            .and_then(|found| evaluate(&found.unwrap_or_default(), figures));
        match held {
            Err(sentence) => wrong.push(sentence),
            Ok((value, from)) if !same(number.value, value) => {
                wrong.push(format!("{number}: published is {value} ({from:?})"));
            }
            Ok(_) => {}
        }
    }
    wrong
}

/// One figure of a sentence: where its digits stand in the text, its value and its expression.
struct Quoted {
    from: usize,
    to: usize,
    value: f64,
    expression: String,
}

/// All figures of a quotation in a text, one list for each time that it stands there.
fn quoted(template: &str, text: &str) -> Vec<Vec<Quoted>> {
    let mut parts = template.split(['«', '»']);
    let head = parts.next().expect("a first part");
    let rest: Vec<&str> = parts.collect();
    let mut found = Vec::new();
    for (start, _) in text.match_indices(head) {
        let mut at = start + head.len();
        let mut figures = Vec::new();
        let whole = rest.chunks(2).all(|pair| {
            let Some((value, length)) = repository::leading_number(&text[at..]) else {
                return false;
            };
            figures.push(Quoted {
                from: at,
                to: at + length,
                value,
                expression: pair[0].to_owned(),
            });
            at += length;
            let literal = pair.get(1).copied().unwrap_or_default();
            let follows = text[at..].starts_with(literal);
            at += literal.len();
            follows
        });
        if whole {
            found.push(figures);
        }
    }
    found
}

/// All figures in sentences that are not the published ones.
fn wrong_quotes(text: &Text, figures: &Figures) -> Vec<String> {
    let mut wrong = Vec::new();
    for (_, template) in QUOTES {
        for figure in quoted(template, &text.text).into_iter().flatten() {
            match evaluate(&figure.expression, figures) {
                Err(sentence) => wrong.push(format!("{}: {sentence}", text.file)),
                Ok((value, _)) if !same(figure.value, value) => wrong.push(format!(
                    "{}: {} where `{template}` has {value}",
                    text.file, figure.value
                )),
                Ok(_) => {}
            }
        }
    }
    wrong
}

/// Sentences that name the dissertation beside a quantity that no quotation claims.
fn unclaimed_quantities(text: &Text) -> Vec<String> {
    let mut masked = text.text.clone().into_bytes();
    let mut mask = |from: usize, to: usize| masked[from..to].fill(b'#');
    for (_, template) in QUOTES {
        for figure in quoted(template, &text.text).into_iter().flatten() {
            mask(figure.from, figure.to);
        }
    }
    for own in OWN {
        for figure in quoted(own, &text.text).into_iter().flatten() {
            mask(figure.from, figure.to);
        }
    }
    let masked = String::from_utf8(masked).expect("whole figures were replaced");
    let mut found = Vec::new();
    for sentence in masked
        .split_inclusive([';', '\n', '|'])
        .flat_map(|part| part.split(". "))
    {
        let lower = sentence.to_lowercase();
        if ATTRIBUTED.iter().any(|word| lower.contains(word)) {
            let quantities = repository::quantities(sentence);
            if !quantities.is_empty() {
                found.push(format!(
                    "{}: {quantities:?} in `{}`",
                    text.file,
                    sentence.trim()
                ));
            }
        }
    }
    found
}

#[test]
fn every_figure_is_the_published_one() {
    let (figures, _) = published();
    let numbers = repository::all_numbers();
    let wrong = wrong_numbers(&numbers, &figures);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A claim that finds nothing claims something that is gone.
    for (file, pattern, _) in claims() {
        let found =
            |number: &Number| number.file == file && matches(&pattern, &number.path).is_some();
        assert!(numbers.iter().any(found), "{file}: nothing is `{pattern}`");
    }
    for (file, pattern, ..) in OTHERS {
        let found =
            |number: &Number| number.file == *file && matches(pattern, &number.path).is_some();
        assert!(numbers.iter().any(found), "{file}: nothing is `{pattern}`");
    }
}

#[test]
fn every_figure_in_a_sentence_is_the_published_one() {
    let (figures, _) = published();
    let texts = repository::texts();
    let wrong: Vec<_> = texts
        .iter()
        .flat_map(|text| wrong_quotes(text, &figures))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut gone = Vec::new();
    for (least, template) in QUOTES {
        let found: usize = texts
            .iter()
            .map(|text| quoted(template, &text.text).len())
            .sum();
        if found < *least {
            gone.push(format!("`{template}` stands {found} times, not {least}"));
        }
    }
    assert!(gone.is_empty(), "{}", gone.join("\n"));
    let unclaimed: Vec<_> = texts
        .iter()
        .filter(|text| !text.is_code)
        .flat_map(unclaimed_quantities)
        .collect();
    assert!(
        unclaimed.is_empty(),
        "add these to crates/rack/tests/published/quotes.rs:\n{}",
        unclaimed.join("\n")
    );
}

#[test]
fn figures_stand_where_they_are_said_to_stand() {
    let (figures, sections) = published();
    let claims = claims();
    let mut seen = BTreeSet::new();
    for (key, entry) in repository::toml("experiments/paper.toml")
        .as_table()
        .expect("a table")
    {
        let place = entry
            .get("place")
            .and_then(toml::Value::as_str)
            .expect("a place");
        let stands = PLACES
            .iter()
            .find(|(known, _)| *known == place)
            .map_or(place, |(_, stands)| *stands);
        let number = repository::numbers(&format!("{key}."), entry)
            .into_iter()
            .next()
            .expect("a figure")
            .of("paper.toml");
        let expression = expression_of(&number, &claims)
            .expect("it is claimed")
            .unwrap_or_default();
        let used = evaluate(&expression, &figures)
            .expect("it can be computed")
            .1;
        let found = sections.iter().any(|(path, published)| {
            let end = published.find(stands).map(|at| at + stands.len());
            // Not table 5.1 for table 5.10.
            let whole =
                end.is_some_and(|end| !published[end..].starts_with(|c: char| c.is_ascii_digit()));
            used.iter().any(|used| used.starts_with(path)) && whole
        });
        assert!(found, "{key}: `{expression}` is not from {place}");
        seen.insert(place.to_owned());
    }
    for (place, _) in PLACES {
        assert!(seen.contains(*place), "paper.toml has nothing from {place}");
    }
}

/// Every figure, changed by 2 % in memory, is reported by the same comparison that the tests above make.
#[test]
fn no_figure_can_change_by_two_per_cent() {
    let (figures, _) = published();
    let change = |value: f64| {
        if value == 0.0 {
            CHANGE - 1.0
        } else {
            value * CHANGE
        }
    };
    let mut held = BTreeMap::<&str, usize>::new();
    let numbers = repository::all_numbers();
    for number in &numbers {
        let mut changed = number.clone();
        changed.value = change(number.value);
        let wrong = wrong_numbers(&[changed], &figures);
        assert_eq!(wrong.len(), 1, "{number} can be changed");
        let kind = match number.file.as_str() {
            "paper.toml" => "figures of paper.toml",
            "costs" | "constants" => "constants in the code",
            file if file.ends_with(".toml") => "constants of platforms",
            _ => "conditions of experiments",
        };
        *held.entry(kind).or_default() += 1;
    }
    for text in repository::texts() {
        for (_, template) in QUOTES {
            for figure in quoted(template, &text.text).into_iter().flatten() {
                let mut changed = text.clone();
                let digits = format!("{:.6}", change(figure.value));
                let digits = digits.trim_end_matches('0').trim_end_matches('.');
                changed.text.replace_range(figure.from..figure.to, digits);
                assert!(
                    !wrong_quotes(&changed, &figures).is_empty(),
                    "{}: {} of `{template}` can be changed",
                    text.file,
                    figure.value
                );
                *held.entry("figures in sentences").or_default() += 1;
            }
        }
    }
    println!("held: {held:?}, {} in all", held.values().sum::<usize>());
}

/// Every figure of the second transcription that stands somewhere here, or is part of a sum, is reported if it is changed by
/// 2 %; the rest has no counterpart.
#[test]
fn no_transcribed_figure_can_change_by_two_per_cent() {
    let (figures, _) = published();
    // Pairs that must stay the same: what stands here, or the other side of a sum, and what is computed.
    let mut pairs: Vec<(String, String)> = sums();
    let claims = claims();
    for number in &repository::all_numbers() {
        let expression = expression_of(number, &claims).expect("it is claimed");
        pairs.push((
            format!("{:?}", number.value),
            expression.unwrap_or_default(),
        ));
    }
    for text in repository::texts() {
        for (_, template) in QUOTES {
            let found = quoted(template, &text.text).into_iter().flatten();
            pairs.extend(found.map(|figure| (format!("{:?}", figure.value), figure.expression)));
        }
    }
    let mut users = BTreeMap::<String, Vec<usize>>::new();
    for (index, (left, right)) in pairs.iter().enumerate() {
        for side in [left, right] {
            for used in evaluate(side, &figures).expect("it can be computed").1 {
                users.entry(used).or_default().push(index);
            }
        }
    }
    for (path, users) in &users {
        let mut changed = figures.clone();
        let figure = changed.get_mut(path).expect("it is published");
        *figure = if *figure == 0.0 {
            CHANGE - 1.0
        } else {
            *figure * CHANGE
        };
        let is_reported = users.iter().any(|index| {
            let (left, right) = &pairs[*index];
            let value = |side| evaluate(side, &changed).expect("it can be computed").0;
            !same(value(left), value(right))
        });
        assert!(is_reported, "{path} can be changed");
    }
    println!(
        "{} of {} transcribed figures are held",
        users.len(),
        figures.len()
    );
}

/// The sources add up, but for the misprints that `published.toml` notes.
#[test]
fn the_transcription_adds_up() {
    let (figures, _) = published();
    let sums = sums();
    for (left, right) in &sums {
        let value = |side| evaluate(side, &figures).expect("it can be computed").0;
        let (l, r) = (value(left), value(right));
        assert!(same(l, r), "{left} is {l}, {right} is {r}");
    }
    println!("{} sums", sums.len());
}

/// [`SUMS`], and those of whole tables.
fn sums() -> Vec<(String, String)> {
    let mut all: Vec<_> = SUMS
        .iter()
        .map(|(left, right)| ((*left).to_owned(), (*right).to_owned()))
        .collect();
    for gbps in [1, 10, 40, 100, 400] {
        // With preamble and gap.
        for (bytes, wire) in [(64, 84), (1518, 1538)] {
            let key = format!("table_1_5.gbps_{gbps}");
            let time = format!("round(8 * {wire} / {gbps}, 1)");
            all.push((format!("{key}.packet_{bytes}_ns"), time));
            // At 10G the last digit is cut off, not rounded.
            let less = if (gbps, bytes) == (10, 1518) {
                " - 0.5"
            } else {
                ""
            };
            let rate = format!("round(1e9 * {gbps} / (8 * {wire}){less})");
            all.push((format!("{key}.pps_{bytes}"), rate));
        }
    }
    let lengths = [16, 32, 64, 128, 256, 512];
    for (place, percent) in [("in_rack", "table_6_7"), ("between_racks", "table_6_8")] {
        for (path, direct) in [("sockets", "sockets_1g"), ("ip_numa", "ip_numa_1g")] {
            for switch in ["ax3630s", "fibnic"] {
                for length in lengths {
                    let time = format!("table_6_6.{place}_{path}_{switch}_ns.b{length}");
                    let base = format!("table_6_6.{place}_sockets_ax3630s_ns.b{length}");
                    all.push((
                        time.clone(),
                        format!(
                            "table_6_4.{direct}_ns.b{length} + table_6_5.{place}_{switch}.sum_ns"
                        ),
                    ));
                    all.push((
                        format!("{percent}.{path}_{switch}_percent.b{length}"),
                        format!("round(100 * {base} / {time})"),
                    ));
                }
            }
        }
    }
    for length in lengths {
        for (left, right) in [
            ("table_6_4.sockets_1g_ns", "table_6_3.sockets_1g.get_ns"),
            ("table_6_4.sockets_10g_ns", "table_6_3.sockets_10g.get_ns"),
            ("table_6_4.local_ns", "table_6_3.loopback.get_ns"),
            ("table_6_6.local_sockets_ns", "table_6_3.loopback.get_ns"),
            ("table_6_6.direct_sockets_ns", "table_6_4.sockets_1g_ns"),
            ("table_6_6.direct_ip_numa_ns", "table_6_4.ip_numa_1g_ns"),
        ] {
            all.push((format!("{left}.b{length}"), format!("{right}.b{length}")));
        }
        all.push((
            format!("table_6_4.ip_numa_1g_ns.b{length}"),
            format!("table_6_4.sockets_1g_ns.b{length} - section_6_6.saved_rtt_1g_ns"),
        ));
    }
    all
}

/// What the sources say in two places, or can be computed from one.
const SUMS: &[(&str, &str)] = &[
    (
        "section_3_2_1.linux_send_receive_ns",
        "section_3_2_1.linux_driver_ns + section_3_2_1.linux_application_ns + section_3_2_1.linux_protocol_stack_ns",
    ),
    (
        "section_1_1.linux_send_receive_ns",
        "section_3_2_1.linux_send_receive_ns",
    ),
    (
        "section_3_2_1.rdma_64_byte_ns",
        "section_3_2_2_6.rdma_64_byte_ns",
    ),
    (
        "section_3_2_2_6.dma_read_64_ns",
        "section_3_2_2_6.dma_read_4_ns + section_3_2_2_6.cycle_ns * section_3_2_2_6.extra_cycles_of_64_bytes",
    ),
    (
        "section_3_2_2_6.dma_write_64_ns",
        "section_3_2_2_6.dma_write_4_ns + section_3_2_2_6.cycle_ns * section_3_2_2_6.extra_cycles_of_64_bytes",
    ),
    ("section_3_2_2_6.cycle_ns", "1000 / section_3_2_2_6.bus_mhz"),
    ("section_3_2_2_6.dma_read_4_ns", "table_3_2.gen2x8_read_ns"),
    (
        "section_3_2_2_6.dma_write_4_ns",
        "table_3_4.gen2x8.write_4_ns",
    ),
    (
        "section_3_2_2_3.dma_write_taken_as_ns",
        "table_3_4.gen2x8.write_4_ns",
    ),
    (
        "section_3_2_2_3.cpu_read_64_gen2x8_ns",
        "table_3_4.gen2x8.read_64_ns",
    ),
    (
        "round(1e9 / table_3_3.gen2x8_writes_per_second)",
        "table_3_3.gen2x8_write_ns",
    ),
    (
        "1000 * section_1_3.rdma_target_us",
        "section_3_2_2_6.rdma_4_byte_ns",
    ),
    (
        "round(100 - 100 * table_1_6.local_loopback_us / table_1_6.remote_10g_nic_us, 2)",
        "section_1_3.local_reduction_percent",
    ),
    ("table_1_7.c3750e_24pd_ns", "table_5_2.c3750e_24pd.delay_ns"),
    ("table_1_7.ax3630s_24t_ns", "table_5_2.ax3630s_24t.delay_ns"),
    (
        "section_4_2_3.one_way_10g_us",
        "table_4_5.ip_numa_10g_us / 2",
    ),
    (
        "round(section_4_2_3.loops_factor, 2)",
        "round(table_4_5.sockets_10g_us / table_4_5.ip_numa_10g_us, 2)",
    ),
    (
        "section_4_2_3.user_logic_and_software_us",
        "section_4_2_3.one_way_10g_us - section_4_2_3.one_way_10g_estimate_us",
    ),
    (
        "section_4_2_3.one_way_1g_us",
        "round(table_4_5.sockets_1g_us / 2, 3)",
    ),
    (
        "1000 * section_4_2_3.memcpy_read_4_gen2x8_us",
        "table_3_4.gen2x8.read_4_ns",
    ),
    (
        "table_4_6.sockets.in_rack_us",
        "table_4_6.sockets.direct_us + section_4_3_5.switches_in_rack_ns / 1000",
    ),
    (
        "table_4_6.ip_numa.in_rack_us",
        "table_4_6.ip_numa.direct_us + section_4_3_5.switches_in_rack_ns / 1000",
    ),
    (
        "table_4_6.sockets.between_racks_us",
        "table_4_6.sockets.direct_us + section_4_3_5.switches_between_racks_ns / 1000 + section_4_3_5.cable_us",
    ),
    (
        "table_4_6.ip_numa.between_racks_us",
        "table_4_6.ip_numa.direct_us + section_4_3_5.switches_between_racks_ns / 1000 + section_4_3_5.cable_us",
    ),
    (
        "table_4_6.ip_numa.direct_us",
        "round(table_4_5.ip_numa_10g_us / 2, 2)",
    ),
    (
        "table_4_6.sockets.direct_us",
        "round(table_4_5.sockets_10g_us / 2, 2)",
    ),
    (
        "section_4_3_5.switches_between_racks_ns",
        "section_4_3_5.arista_7150_ns * section_4_3_5.switches_between_racks",
    ),
    (
        "section_5_1_1_6.delay_ns",
        "section_5_1_1_6.cycles_to_destination * section_5_1_1_6.cycle_ns + section_5_1_1_5.phy_ns",
    ),
    (
        "section_5_2_3.delay_ns",
        "section_5_2_3.stages * section_5_1_1_6.cycle_ns + section_5_2_3.phy_ns",
    ),
    (
        "section_5_2_3.stages",
        "section_5_2_3.stages_before_lookup + section_5_2_3.lookup_stages",
    ),
    (
        "section_5_4.difference_ns",
        "section_5_4.measured_ns - section_5_4.estimated_ns",
    ),
    ("section_5_4.estimated_ns", "section_5_2_3.delay_ns"),
    (
        "table_5_2.c3750e_24pd.difference_ns",
        "table_5_2.c3750e_24pd.delay_ns - table_5_2.c3750e_24pd.store_and_forward_ns",
    ),
    ("table_5_2.fibnic.pps", "table_1_5.gbps_1.pps_64"),
    ("table_5_3.fibnic.pps", "table_1_5.gbps_1.pps_1518"),
    (
        "table_5_3.ax3630s_24t.delay_ns",
        "section_6_6.ax3630s_1518_byte_ns",
    ),
    (
        "table_5_5.bytes_80_delay_ns - table_5_4.bytes_64_delay_ns + section_5_1_1_6.cycle_ns",
        "section_5_1_1_6.cycle_ns * section_5_2_4.additional_stages",
    ),
    (
        "section_6_6.saved_rtt_1g_ns",
        "section_6_6.sockets_rtt_1g_ns - section_6_6.ip_numa_rtt_1g_ns",
    ),
    (
        "section_6_6.sockets_rtt_1g_ns",
        "1000 * table_4_5.sockets_1g_us",
    ),
    (
        "section_6_6.ip_numa_rtt_1g_ns",
        "1000 * table_4_5.ip_numa_1g_us",
    ),
    (
        "section_6_6.ax3630s_round_trip_ns",
        "2 * table_5_2.ax3630s_24t.delay_ns",
    ),
    (
        "section_6_6.fibnic_round_trip_ns",
        "2 * table_5_2.fibnic.delay_ns",
    ),
    (
        "table_6_5.in_rack_ax3630s.sum_ns",
        "table_6_5.in_rack_ax3630s.cable_ns + table_6_5.in_rack_ax3630s.switches_ns",
    ),
    (
        "table_6_5.in_rack_fibnic.sum_ns",
        "table_6_5.in_rack_fibnic.cable_ns + table_6_5.in_rack_fibnic.switches_ns",
    ),
    (
        "table_6_5.between_racks_ax3630s.sum_ns",
        "table_6_5.between_racks_ax3630s.cable_ns + table_6_5.between_racks_ax3630s.switches_ns",
    ),
    (
        "table_6_5.between_racks_fibnic.sum_ns",
        "table_6_5.between_racks_fibnic.cable_ns + table_6_5.between_racks_fibnic.switches_ns",
    ),
    (
        "table_6_5.between_racks_ax3630s.switches_ns",
        "4 * table_6_5.in_rack_ax3630s.switches_ns",
    ),
    (
        "table_6_5.between_racks_fibnic.switches_ns",
        "4 * table_6_5.in_rack_fibnic.switches_ns",
    ),
    (
        "table_6_5.in_rack_fibnic.switches_ns",
        "section_6_6.fibnic_round_trip_ns",
    ),
    (
        "section_6_6_1.application_us",
        "section_6_6_1.get_16_1g_us - section_6_6_1.rtt_1g_us",
    ),
    (
        "1000 * section_6_6_1.get_16_1g_us",
        "table_6_3.sockets_1g.get_ns.b16",
    ),
    (
        "section_6_5.set_512_to_16_1g_factor",
        "round(table_6_3.sockets_1g.set_ns.b512 / table_6_3.sockets_1g.set_ns.b16, 2)",
    ),
    (
        "section_6_5.set_512_to_16_10g_factor",
        "round(table_6_3.sockets_10g.set_ns.b512 / table_6_3.sockets_10g.set_ns.b16, 2)",
    ),
    (
        "section_6_5.set_512_to_16_loopback_factor",
        "round(table_6_3.loopback.set_ns.b512 / table_6_3.loopback.set_ns.b16, 2)",
    ),
    (
        "examination.in_rack_sockets_ax3630s_per_second",
        "round(1e9 / table_6_6.in_rack_sockets_ax3630s_ns.b16)",
    ),
    (
        "examination.in_rack_ip_numa_fibnic_per_second",
        "round(1e9 / table_6_6.in_rack_ip_numa_fibnic_ns.b16)",
    ),
    (
        "uzura_table_2.sum_us",
        "uzura_table_2.send_fpga_us + uzura_table_2.send_pl4_us + uzura_table_2.mac_us + uzura_table_2.receive_pl4_us + uzura_table_2.receive_fpga_us",
    ),
    (
        "uzura_table_5.sum_us",
        "uzura_table_2.sum_us + uzura_table_5.start_us + uzura_table_5.dma_host_to_nic_us + uzura_table_5.dma_nic_to_host_us",
    ),
    (
        "amd_pg210.pcs_ns",
        "amd_pg210.pcs_tx_ns + amd_pg210.pcs_rx_ns",
    ),
];
