// SPDX-License-Identifier: Apache-2.0
//! Reads from a model's C++ how to evaluate it in two steps that each do half of what `eval()` does, and
//! which of its registers cross from one clock to another.
//!
//! `eval()` looks at everything that hangs on inputs, whether they changed or not, and finds an edge only after an
//! evaluation with the clock low. A rack evaluates each edge twice, and inputs change at one edge in ten. So `inputs` does
//! the first half and `edge` the second. Both are made of functions that Verilator wrote; what they rely on is checked
//! here, and a model that has it otherwise is evaluated the long way.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The registers that a synchroniser reads, by the name of its instance: all crossings are in `rtl/lib` and
/// `rtl/ipnuma/slot_ring.sv`, but for the link's state, which is an input.
const CROSSINGS: &[(&str, &str)] = &[
    ("u_sync", "toggle_q"),
    ("u_sync_req", "req_q"),
    ("u_sync_ack", "ack_q"),
    ("u_sync_token", "token_gray_q"),
    ("u_sync_freed", "freed_gray_q"),
    ("u_sync_wptr", "wgray_q"),
    ("u_sync_rptr", "rgray_q"),
    ("u_sync_want", "want_q"),
    ("u_sync_answer", "answer_q"),
    ("u_sync_ask", "ask_q"),
    ("u_sync_give_up", "give_up_q"),
    ("u_link", "link_up_i"),
];

/// What a class `Steps` in the shim has, or why there is none.
pub fn steps(name: &str, dir: &Path, inputs: &[&str]) -> Result<String, String> {
    let root = format!("V{name}___024root");
    let read = |file: &Path| {
        fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let header = read(&dir.join(format!("{root}.h")))?;
    let mut code = String::new();
    let files = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for file in files.flatten().map(|file| file.path()) {
        let base = file.file_name().unwrap_or_default().to_string_lossy();
        if base.starts_with(&root) && base.ends_with(".cpp") {
            code += &read(&file)?;
        }
    }
    let has = |signature: &str| code.contains(&format!("{signature}({root}* vlSelf) {{"));
    for phase in ["ico", "act", "nba"] {
        let function = format!("bool {root}___eval_phase__{phase}");
        if !has(&function) {
            return Err(format!("it has no {function}"));
        }
    }
    let sample = format!("void {root}___sample");
    let before: Vec<_> = members(&header)
        .map(|member| member.name)
        .filter(|member| member.starts_with("__Vtrigprevexpr"))
        .collect();
    rising_only(&code, &root, &before, inputs)?;

    let mut text = String::new();
    for phase in ["ico", "act", "nba"] {
        let _ = writeln!(text, "bool {root}___eval_phase__{phase}({root}*);");
    }
    if has(&sample) {
        let _ = writeln!(text, "{sample}({root}*);");
    }
    let _ = write!(
        text,
        "struct Steps {{\n\
         static void inputs(V{name}* top) {{\n  auto* const root = top->rootp;\n  \
         root->__VicoFirstIteration = 1U;\n  {root}___eval_phase__ico(root);\n  \
         root->__VicoFirstIteration = 0U;\n}}\n\
         static void edge(V{name}* top) {{\n  auto* const root = top->rootp;\n"
    );
    for member in before {
        let _ = writeln!(text, "  root->{member} = 0U;");
    }
    if has(&sample) {
        let _ = writeln!(text, "  {root}___sample(root);");
    }
    let _ = write!(
        text,
        "  do {{\n    while ({root}___eval_phase__act(root)) {{}}\n  }} while ({root}___eval_phase__nba(root));\n}}\n"
    );
    if let Some(crossing) = crossing(&header, inputs)? {
        let _ = write!(
            text,
            "static int crossing(const V{name}* top) {{\n  const auto* const root = top->rootp;\n  \
             return {crossing};\n}}\n"
        );
    }
    text += "};\n";
    Ok(text)
}

/// A scalar of the root class.
struct Member<'a> {
    name: &'a str,
    width: u32,
}

fn members(header: &str) -> impl Iterator<Item = Member<'_>> {
    header.lines().filter_map(|line| {
        let line = line.trim();
        if let Some(arguments) = line.strip_prefix("VL_IN8(") {
            let mut fields = arguments.split([',', ')']);
            let (name, high) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
            return Some(Member {
                name,
                width: high + 1,
            });
        }
        let (kind, rest) = line.split_once("/*")?;
        let (range, name) = rest.split_once("*/ ")?;
        let (high, low) = range.split_once(':')?;
        let scalar = ["CData", "SData", "IData", "QData"].contains(&kind) && low == "0";
        let name = name.strip_suffix(';')?;
        scalar.then_some(Member {
            name,
            width: high.parse::<u32>().ok()? + 1,
        })
    })
}

/// That the model reacts to rising edges of inputs and to nothing else: then an edge is one where the clock is high, and
/// what it was before may be said to be low.
fn rising_only(code: &str, root: &str, before: &[&str], inputs: &[&str]) -> Result<(), String> {
    let triggers = format!("void {root}___eval_triggers_vec__act({root}* vlSelf) {{");
    let body = code
        .split_once(&triggers)
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map(|(body, _)| body.split_whitespace().collect::<Vec<_>>().join(" "))
        .ok_or_else(|| format!("it has no {triggers}"))?;
    for member in before {
        let whole = format!("vlSelfRef.{member}");
        let uses = body
            .match_indices(&whole)
            .filter(|(at, _)| {
                let next = body[at + whole.len()..].chars().next();
                !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
            })
            .count();
        let rising = format!("(~ (IData)({whole}))");
        let assignment = body
            .split_once(&format!("{whole} = "))
            .and_then(|(_, rest)| rest.split_once(';'))
            .map(|(from, _)| from)
            .ok_or_else(|| format!("nothing is put into {member}"))?;
        if uses != 2 || body.matches(&rising).count() != 1 {
            return Err(format!(
                "{member} is used for more than a rising edge, or for none"
            ));
        }
        for source in assignment.split("vlSelfRef.").skip(1) {
            let end = source.find(|c: char| !c.is_alphanumeric() && c != '_');
            let source = &source[..end.unwrap_or(source.len())];
            if !inputs.contains(&source) {
                return Err(format!("{source} is a clock and no input"));
            }
        }
    }
    Ok(())
}

/// C++ that is true while a synchroniser holds something else than what it reads. There is none for models with one clock.
fn crossing(header: &str, inputs: &[&str]) -> Result<Option<String>, String> {
    const STAGES: &str = "__DOT__stage_q";
    let width = |name: &str| {
        members(header)
            .find(|member| member.name == name)
            .map(|member| member.width)
    };
    if !["clk_pcie_i", "clk_net_i"]
        .iter()
        .all(|clock| inputs.contains(clock))
    {
        return Ok(None);
    }
    let mut terms = Vec::new();
    for stages in members(header).filter(|member| !member.name.starts_with("__V")) {
        let Some(instance) = stages.name.strip_suffix(STAGES) else {
            continue;
        };
        let (path, instance) = instance
            .rsplit_once("__DOT__")
            .ok_or_else(|| format!("{} is in no module", stages.name))?;
        let (_, source) = CROSSINGS
            .iter()
            .find(|(name, _)| *name == instance)
            .ok_or_else(|| {
                format!("crates/verilate/src/steps.rs does not know what {instance} reads")
            })?;
        let source = if inputs.contains(source) {
            (*source).to_owned()
        } else {
            format!("{path}__DOT__{source}")
        };
        let bits = width(&source).ok_or_else(|| format!("there is no {source}"))?;
        if stages.width % bits != 0 || stages.width / bits < 2 {
            return Err(format!(
                "{} has no whole number of stages of {bits} bits",
                stages.name
            ));
        }
        let all: u64 = (0..stages.width / bits)
            .map(|stage| 1_u64 << (stage * bits))
            .sum();
        terms.push(format!(
            "root->{} != std::uint64_t{{root->{source}}} * {all}U",
            stages.name
        ));
    }
    Ok((!terms.is_empty()).then(|| terms.join(" ||\n    ")))
}
