// SPDX-License-Identifier: Apache-2.0
//! What the policy says of a program, and what is known of it.

use std::path::Path;

use ::host::policy::{Action, Line, Policy, Role, known};
use serde::Serialize;

use super::{Check, Verdict};
use crate::host::Error;

/// A file that the user has named.
pub fn read(path: &Path) -> Result<Policy, Error> {
    Policy::read(path).map_err(|error| Error::Usage(error.to_string()))
}

/// A rule, for JSON.
#[derive(Serialize)]
struct Row {
    line: usize,
    action: String,
    program: Option<String>,
    role: Option<String>,
    network: Option<String>,
    first_port: Option<u16>,
    last_port: Option<u16>,
}

/// A line that cannot be meant so.
#[derive(Serialize)]
struct Doubt {
    line: usize,
    says: String,
    remedy: String,
}

/// A file, for JSON.
#[derive(Serialize)]
pub struct Report {
    policy: String,
    rules: Vec<Row>,
    otherwise: String,
    warnings: Vec<Doubt>,
}

fn row(line: &Line) -> Row {
    let rule = &line.rule;
    Row {
        line: line.number,
        action: rule.action.to_string(),
        program: rule.program.as_ref().map(ToString::to_string),
        role: rule.role.map(|role| role.to_string()),
        network: rule.network.map(|network| network.to_string()),
        first_port: rule.ports.map(|ports| ports.first),
        last_port: rule.ports.map(|ports| ports.last),
    }
}

/// How a file is understood, for JSON.
pub fn report(policy: &Policy) -> Report {
    Report {
        policy: policy.place.clone(),
        rules: policy.lines.iter().map(row).collect(),
        otherwise: Action::Ipnuma.to_string(),
        warnings: doubts(policy),
    }
}

/// Lines that can decide nothing, and names that are links here: programs go by their true names.
fn doubts(policy: &Policy) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = policy
        .shadowed()
        .map(|(line, by)| Doubt {
            line: line.number,
            says: format!("line {} `{}` takes all that it fits", by.number, by.rule),
            remedy: format!("put it before line {}, or remove it", by.number),
        })
        .collect();
    doubts.extend(policy.lines.iter().filter_map(|line| {
        let name = line.rule.program.as_ref()?.name()?;
        let path = super::executable::find(name.as_ref()).ok()?;
        let own = path.canonicalize().ok()?;
        let own = own.file_name()?.to_str().filter(|own| *own != name)?;
        Some(Doubt {
            line: line.number,
            says: format!("{name} is a link here, and programs go by their true names"),
            remedy: format!("write program {own}"),
        })
    }));
    doubts.sort_by_key(|doubt| doubt.line);
    doubts
}

/// The same for people: each rule in the order of the grammar.
pub fn table(policy: &Policy) -> String {
    let lines = policy.lines.iter();
    let lines = lines.map(|line| format!("line {}: {}\n", line.number, line.rule));
    let doubts = doubts(policy).into_iter();
    let doubts = doubts
        .map(|Doubt { line, says, remedy }| format!("warning: line {line}: {says}; {remedy}\n"));
    lines.collect::<String>() + "otherwise: ipnuma\n" + &doubts.collect::<String>()
}

/// What the policy says of a program, by its executable's file name.
pub fn check(given: Option<Policy>, program: &str, checks: &mut Vec<Check>) {
    let policy = match given.map_or_else(Policy::load, Ok) {
        Ok(policy) => policy.of_program(program),
        Err(error) => {
            checks.push(Check::failed("policy", &error.to_string()));
            return;
        }
    };
    let nothing = Role::ALL.iter().all(|role| policy.leaves_all(*role));
    let parts = Role::ALL.map(|role| (role.to_string(), policy.part(role)));
    let both = Role::ALL.map(|role| role.to_string()).join(" and ");
    let parts = match &parts {
        [(_, one), (_, other)] if one == other => vec![(both, one.clone())],
        _ => parts.to_vec(),
    };
    for (role, lines) in parts {
        let says = says(&policy, &role, &lines);
        let kernels = lines.iter().any(|line| line.rule.action == Action::Kernel);
        let verdict = match () {
            () if nothing => Verdict::Stops,
            () if kernels => Verdict::Warning,
            () => {
                checks.push(Check::ok("policy", says));
                continue;
            }
        };
        let remedy = format!("for more, put `ipnuma program {program}` before it in a policy file");
        checks.push(Check::wrong("policy", verdict, says, &remedy));
    }
}

/// The lines for one part of a program.
fn says(policy: &Policy, role: &str, lines: &[&Line]) -> String {
    let place = &policy.place;
    let Some(last) = lines.last() else {
        return format!("{role}: no line of {place} is about it");
    };
    let named = lines.iter();
    let named = named.map(|line| format!("line {} `{}`", line.number, line.rule));
    let otherwise = match last.rule.is_for_all() {
        true => "",
        false => ", otherwise ipnuma",
    };
    format!(
        "{role}: {place}, {}{otherwise}",
        named.collect::<Vec<_>>().join(", ")
    )
}

/// What the shipped list knows of a program.
pub fn habits(program: &str, checks: &mut Vec<Check>) {
    let before = checks.len();
    checks.extend(known(program).map(|known| {
        Check::wrong(
            "habits",
            Verdict::Warning,
            format!("{}: {}", known.uses, known.about),
            "see \"When the kernel serves\" in docs/sockets.md",
        )
    }));
    if checks.len() == before {
        checks.push(Check::ok(
            "habits",
            "no use of seccomp or io_uring is known of it".to_owned(),
        ));
    }
}
