// SPDX-License-Identifier: Apache-2.0
//! The steps of one model: Verilator, one compilation a file, the link.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::catalogue::Model;
use crate::digest;
use crate::filelist::FileList;
use crate::shim::shim;
use crate::{Error, root};

/// The shim among the C++ of a model.
const SHIM: &str = "shim.cpp";

/// Environment variable with the name of the C++ compiler.
const COMPILER: &str = "IPNUMA_CXX";

/// Flags of all files.
pub const FLAGS: &[&str] = &[
    "-std=gnu++20",
    "-march=native",
    "-fPIC",
    "-fvisibility=hidden",
    "-faligned-new",
    "-w",
    "-DVM_COVERAGE=0",
    "-DVM_SC=0",
    "-DVM_TIMING=0",
    "-DVM_TRACE=1",
    "-DVM_TRACE_FST=1",
    "-DVM_TRACE_VCD=0",
    "-DVM_TRACE_SAIF=0",
    "-DVL_USER_STOP",
    "-DVL_USER_FINISH",
    "-DVL_USER_FATAL",
    "-DVL_PRINTF=ipnuma_model_printf",
];

/// Flags of the link. FST compression, and what clang leaves to a library.
pub const LINK_FLAGS: &[&str] = &[
    "-shared",
    "-Wl,-Bsymbolic",
    "-Wl,--gc-sections",
    "-lz",
    "-llz4",
    "-latomic",
    "-lpthread",
];

/// The C++ compiler of the models.
pub struct Compiler {
    pub name: String,
    pub version: String,
    ccache: bool,
}

impl Compiler {
    /// The one that the environment names, clang++ (models compiled by it run faster), or g++.
    pub fn get() -> &'static Self {
        static FOUND: OnceLock<Compiler> = OnceLock::new();
        FOUND.get_or_init(|| {
            let name = env::var(COMPILER).unwrap_or_else(|_| {
                let clang = version("clang++").is_some();
                if clang { "clang++" } else { "g++" }.into()
            });
            Compiler {
                version: version(&name).unwrap_or_default(),
                ccache: version("ccache").is_some(),
                name,
            }
        })
    }

    /// A command in the environment of the project's tools.
    fn command(&self, root: &Path) -> Command {
        let mut command = in_environment(root);
        if self.ccache {
            command.arg("ccache");
        }
        command.arg(&self.name);
        command
    }
}

/// Where tools are that `PATH` does not lead to.
const STANDARD: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// The folders of `PATH`, and behind them the standard ones: a model's name has the version of its compiler, and must be the
/// same for a program that is run without `PATH`.
fn search_path(path: Option<&OsStr>) -> OsString {
    let given = path.filter(|path| !path.is_empty());
    let given: Vec<_> = given.into_iter().flat_map(env::split_paths).collect();
    let standard = STANDARD.iter().map(PathBuf::from);
    let missing = standard.filter(|folder| !given.contains(folder));
    let all: Vec<_> = given.iter().cloned().chain(missing).collect();
    // They were divided at the colons, so that none is in one.
    env::join_paths(all).unwrap_or_default()
}

/// A command that is found whatever `PATH` is.
fn found(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path(env::var_os("PATH").as_deref()));
    command
}

fn version(program: &str) -> Option<String> {
    let output = found(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| wherever(&text))
}

/// What a compiler says of itself, with the same name for a folder that has two: `/bin` is `/usr/bin`.
fn wherever(version: &str) -> String {
    const FOLDER: &str = "InstalledDir: ";
    let line = |line: &str| match line.trim_end().strip_prefix(FOLDER) {
        Some(folder) => match fs::canonicalize(folder) {
            Ok(folder) => format!("{FOLDER}{}\n", folder.display()),
            Err(_) => line.to_owned(),
        },
        None => line.to_owned(),
    };
    version.split_inclusive('\n').map(line).collect()
}

/// Whether a model can be built here; asked before anything is written.
pub fn possible(root: &Path, model: &Model, compiler: &Compiler) -> Result<(), Error> {
    let (missing, remedy) = if verilator(root).is_err() || !python(root).is_file() {
        (
            format!("Verilator in {}", root.join(".venv").display()),
            "run tools/setup there",
        )
    } else if compiler.version.is_empty() {
        (
            format!("the C++ compiler {}", compiler.name),
            "install clang++ or g++",
        )
    } else {
        return Ok(());
    };
    Err(Error::Impossible {
        model: model.name.into(),
        missing,
        remedy,
    })
}

fn python(root: &Path) -> PathBuf {
    root.join(".venv/bin/python")
}

/// Runs its arguments with what `tools/env.sh` sets, in the root of the repository.
fn in_environment(root: &Path) -> Command {
    let mut command = found("bash");
    command
        .current_dir(root)
        .args(["-c", ". \"$0\" && exec \"$@\""])
        .arg(root.join("tools/env.sh"));
    command
}

/// Where a model is built.
#[derive(Clone)]
pub struct Place {
    model: &'static Model,
    folder: PathBuf,
    /// Objects of Verilator's runtime, which all models share.
    runtime: PathBuf,
}

impl Place {
    pub fn of(root: &Path, model: &'static Model) -> Result<Self, Error> {
        let list = FileList::merge(root, model.files)?.contained(root, model.top)?;
        let tools = digest::tools(root, Compiler::get())?;
        let hash = digest::model(root, model, &list, &tools)?;
        let all = crate::cache(root).join("models");
        Ok(Self {
            model,
            folder: all.join(format!("{}-{hash}", model.name)),
            runtime: all.join(format!("runtime-{tools}")),
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn library(&self) -> PathBuf {
        self.folder.join(format!("{}.so", self.model.name))
    }

    fn sources(&self) -> PathBuf {
        self.folder.join("cpp")
    }

    fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Waits until no other process builds this model; the lock ends with the file.
    pub fn lock(&self) -> Result<File, Error> {
        make_folder(&self.folder)?;
        lock(&self.folder.join("lock"))
    }
}

fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|error| Error::unreadable(path, error))
}

fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(|error| Error::unreadable(path, error))?;
    file.lock()
        .map_err(|error| Error::unreadable(path, error))?;
    Ok(file)
}

/// A file to be compiled.
#[derive(Clone)]
pub struct Unit {
    source: PathBuf,
    object: PathBuf,
    level: &'static str,
    /// Bytes of source, for the order.
    pub size: u64,
}

/// What Verilator makes of a model.
pub struct Verilated {
    pub units: Vec<Unit>,
    /// Names of the parts of Verilator's runtime that it needs.
    pub runtime: BTreeSet<String>,
    /// Why it is evaluated the long way, where it is.
    pub slow: Option<String>,
}

/// Verilates a model.
pub fn verilate(place: &Place) -> Result<Verilated, Error> {
    let (root, model, folder) = (root(), place.model, place.sources());
    if !python(&root).is_file() {
        return Err(Error::NoVerilator(root));
    }
    // What a build that was killed has left may be half of a file.
    let _ = fs::remove_dir_all(&folder);
    make_folder(&folder)?;
    make_folder(&place.objects())?;
    let list = FileList::merge(&root, model.files)?.contained(&root, model.top)?;
    let mut command = in_environment(&root);
    command
        .arg("verilator")
        .args(arguments(model))
        .arg("--Mdir")
        .arg(&folder)
        .args(
            list.include
                .iter()
                .map(|folder| format!("+incdir+{folder}")),
        )
        .args(&list.sources);
    run(command, model.name, "verilator")?;
    let (shim, slow) = shim(model, &folder)?;
    let path = folder.join(SHIM);
    fs::write(&path, shim).map_err(|error| Error::unreadable(&path, error))?;
    let (units, runtime) = units(place, SHIM)?;
    Ok(Verilated {
        units,
        runtime,
        slow,
    })
}

/// What Verilator is told beside the sources.
pub fn arguments(model: &Model) -> Vec<String> {
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
    let parameters = model.parameters.iter();
    arguments.extend(parameters.map(|(name, value)| format!("-G{name}={value}")));
    arguments
}

/// Sorts the C++ files of a model by what Verilator says about them, and joins them to units: most of what the compiler does
/// for a small file is reading headers.
fn units(place: &Place, shim: &str) -> Result<(Vec<Unit>, BTreeSet<String>), Error> {
    let folder = place.sources();
    let path = folder.join(format!("V{}_classes.mk", place.model.name));
    let list = fs::read_to_string(&path).map_err(|error| Error::unreadable(&path, error))?;
    let (mut fast, mut slow) = (vec![shim.to_owned()], Vec::new());
    let mut runtime = BTreeSet::from(["runtime".to_owned()]);
    let mut variable = "";
    for line in list.lines() {
        if let Some((name, _)) = line.split_once("+=") {
            variable = name.trim();
        } else if line.starts_with(char::is_whitespace) {
            let class = line.trim().trim_end_matches('\\').trim();
            let file = format!("{class}.cpp");
            match variable {
                _ if class.is_empty() => {}
                "VM_CLASSES_FAST" => fast.push(file),
                // What runs once, and what writes waves of chosen windows.
                "VM_CLASSES_SLOW" | "VM_SUPPORT_FAST" | "VM_SUPPORT_SLOW" => slow.push(file),
                "VM_GLOBAL_FAST" | "VM_GLOBAL_SLOW" => {
                    runtime.insert(class.to_owned());
                }
                other => {
                    return Err(Error::Tool {
                        model: place.model.name.into(),
                        what: "reading Verilator's list of classes".into(),
                        output: format!("{}: unknown variable {other}", path.display()),
                    });
                }
            }
        }
    }
    let mut units = Vec::new();
    for (name, level, files) in [("fast", "-O3", fast), ("slow", "-O0", slow)] {
        join(place, name, level, &files, &mut units)?;
    }
    Ok((units, runtime))
}

/// Joins files, in their order, to units that are large enough.
fn join(
    place: &Place,
    name: &str,
    level: &'static str,
    files: &[String],
    units: &mut Vec<Unit>,
) -> Result<(), Error> {
    /// Of C++: two cores get about as much each, and headers do not count.
    const UNIT_BYTES: u64 = 1 << 20;
    let folder = place.sources();
    let (mut text, mut size) = (String::new(), 0);
    for (at, file) in files.iter().enumerate() {
        text += &format!("#include \"{file}\"\n");
        size += fs::metadata(folder.join(file)).map_or(0, |data| data.len());
        if size < UNIT_BYTES && at + 1 < files.len() {
            continue;
        }
        let unit = format!("{name}{}", units.len());
        let source = folder.join(&unit).with_extension("cpp");
        fs::write(&source, &text).map_err(|error| Error::unreadable(&source, error))?;
        units.push(Unit {
            object: place.objects().join(unit).with_extension("o"),
            source,
            level,
            size,
        });
        (text, size) = (String::new(), 0);
    }
    Ok(())
}

/// Compiles a file of a model.
pub fn compile(place: &Place, unit: &Unit) -> Result<(), Error> {
    let mut command = compiler(&root())?;
    // With relative names ccache finds what was the same in another version of the model.
    command
        .current_dir(place.sources())
        .arg(unit.level)
        .args(["-I", "."]);
    let source = Path::new(unit.source.file_name().unwrap_or_default());
    compile_to(command, place.model.name, source, &unit.object)
}

/// The compiler with the flags of all files.
fn compiler(root: &Path) -> Result<Command, Error> {
    let verilator = verilator(root)?;
    let own = root.join("crates/verilate/shim");
    let compiler = Compiler::get();
    let mut command = compiler.command(root);
    command.args(FLAGS);
    if compiler.name.contains("clang") {
        command.arg("-fbracket-depth=4096");
    }
    for folder in [own, verilator.clone(), verilator.join("vltstd")] {
        command.arg("-I").arg(folder);
    }
    command.args(["-include", "print.h"]);
    Ok(command)
}

/// The folder of Verilator's headers.
fn verilator(root: &Path) -> Result<PathBuf, Error> {
    let libraries = fs::read_dir(root.join(".venv/lib")).into_iter().flatten();
    libraries
        .flatten()
        .map(|entry| entry.path().join("site-packages/verilator/include"))
        .find(|path| path.join("verilated.cpp").is_file())
        .ok_or_else(|| Error::NoVerilator(root.to_owned()))
}

/// Compiles to a file aside, so that an object that is there is whole.
fn compile_to(
    mut command: Command,
    model: &str,
    source: &Path,
    object: &Path,
) -> Result<(), Error> {
    let aside = object.with_extension("part");
    command.arg("-c").arg(source).arg("-o").arg(&aside);
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    run(command, model, &format!("compiling {name}"))?;
    fs::rename(&aside, object).map_err(|error| Error::unreadable(object, error))
}

/// Links a model, and removes what it was made of.
pub fn link(place: &Place, units: &[Unit], runtime: &BTreeSet<String>) -> Result<(), Error> {
    let root = root();
    let mut command = Compiler::get().command(&root);
    command.args(units.iter().map(|unit| &unit.object));
    for class in runtime {
        command.arg(runtime_object(&root, place, class)?);
    }
    let library = place.library();
    let aside = library.with_extension("part");
    // Libraries come behind what needs them.
    command.args(LINK_FLAGS).arg("-o").arg(&aside);
    run(command, place.model.name, "linking")?;
    fs::rename(&aside, &library).map_err(|error| Error::unreadable(&library, error))?;
    let _ = fs::remove_dir_all(place.sources());
    let _ = fs::remove_dir_all(place.objects());
    Ok(())
}

/// A part of Verilator's runtime, compiled once for all models.
fn runtime_object(root: &Path, place: &Place, class: &str) -> Result<PathBuf, Error> {
    make_folder(&place.runtime)?;
    let object = place.runtime.join(class).with_extension("o");
    let _lock = lock(&object.with_extension("lock"))?;
    if !object.is_file() {
        let source = if class == "runtime" {
            root.join("crates/verilate/shim/runtime.cpp")
        } else {
            verilator(root)?.join(class).with_extension("cpp")
        };
        let mut command = compiler(root)?;
        command.arg("-O3");
        compile_to(command, place.model.name, &source, &object)?;
    }
    Ok(object)
}

fn run(mut command: Command, model: &str, what: &str) -> Result<(), Error> {
    let failed = |output: String| Error::Tool {
        model: model.into(),
        what: what.into(),
        output,
    };
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_without_a_path() {
        let standard = "/usr/local/bin:/usr/bin:/bin";
        for (path, all) in [
            (None, standard),
            (Some(""), standard),
            (Some("/bin"), "/bin:/usr/local/bin:/usr/bin"),
            (Some("/x:/usr/bin"), "/x:/usr/bin:/usr/local/bin:/bin"),
        ] {
            assert_eq!(search_path(path.map(OsStr::new)), all);
        }
    }

    #[test]
    fn a_compiler_is_the_same_by_another_name_of_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("it is there");
        let other = real.join("other");
        std::os::unix::fs::symlink(&real, &other).expect("a link");
        let version = |folder: &Path| {
            let folder = folder.display();
            wherever(&format!(
                "clang version 1\nInstalledDir: {folder}\nThread model: posix\n"
            ))
        };
        assert_eq!(version(&other), version(&real));
        assert!(version(&real).contains(&format!("InstalledDir: {}\n", real.display())));
    }

    #[test]
    fn what_cannot_be_built_is_said_before_anything_is_written() {
        let root = tempfile::tempdir().expect("a folder");
        let model = &crate::MODELS[0];
        let compiler = |version: &str| Compiler {
            name: "clang++".into(),
            version: version.into(),
            ccache: false,
        };
        let say = |version: &str| {
            let outcome = possible(root.path(), model, &compiler(version));
            outcome.expect_err("a tool is missing").to_string()
        };
        let place = root.path().join(".venv");
        assert_eq!(
            say("1"),
            format!(
                "there is no model ipnuma_nic_10g, and it cannot be built: Verilator in {} is not found; run tools/setup there",
                place.display()
            )
        );
        assert_eq!(fs::read_dir(root.path()).expect("it is there").count(), 0);
        let headers = place.join("lib/python3/site-packages/verilator/include");
        fs::create_dir_all(&headers).expect("a folder");
        fs::create_dir_all(place.join("bin")).expect("a folder");
        for file in [headers.join("verilated.cpp"), place.join("bin/python")] {
            fs::write(file, "").expect("it can be written");
        }
        assert_eq!(
            say(""),
            "there is no model ipnuma_nic_10g, and it cannot be built: the C++ compiler clang++ is not found; \
             install clang++ or g++"
        );
        possible(root.path(), model, &compiler("1")).expect("all are there");
    }
}
