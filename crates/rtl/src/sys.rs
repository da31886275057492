// SPDX-License-Identifier: Apache-2.0
//! The only file with `unsafe`: loads the library of a Verilated model, and calls its C shim.
//!
//! `Port` and `Table` mirror `IpnumaPort` and `IpnumaModel` in `crates/verilate/shim/shim.hpp`. What every safety comment
//! below relies on: a table comes from the only function of a library that this project built, whose first word says that
//! it is this table, and points to constants; libraries stay loaded for the life of the process; an instance comes from the
//! table's `create` and is used by one thread at a time, since [`Handle`] owns it and is not `Sync`.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use crate::Error;

#[repr(C)]
struct Port {
    name: *const c_char,
    width: u32,
    is_output: u32,
    get: unsafe extern "C" fn(*const c_void, u32) -> u64,
    set: Option<unsafe extern "C" fn(*mut c_void, u32, u64)>,
}

impl Port {
    /// The lane, which exists.
    #[inline]
    fn lane(&self, lane: usize) -> u32 {
        let lanes = self.width.div_ceil(64) as usize;
        assert!(lane < lanes, "lane {lane} of a port with {lanes}");
        lane as u32
    }
}

/// `ipnuma::kInterface` of the shim.
const INTERFACE: u64 = 1;

/// Function table of a model.
#[repr(C)]
struct Table {
    interface: u64,
    name: *const c_char,
    ports: *const Port,
    port_count: u32,
    create: unsafe extern "C" fn() -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    eval: unsafe extern "C" fn(*mut c_void) -> c_int,
    set_time: unsafe extern "C" fn(*mut c_void, u64),
    trace_open: unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> c_int,
    trace_dump: unsafe extern "C" fn(*mut c_void, u64),
    trace_close: unsafe extern "C" fn(*mut c_void),
    failure: unsafe extern "C" fn(*const c_void) -> *const c_char,
    inputs: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    edge: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    crossing: Option<unsafe extern "C" fn(*const c_void) -> c_int>,
}

// SAFETY: a table and all that it points to are constants.
unsafe impl Sync for Table {}

/// Loads the library of a model, built if need be, and returns its table.
fn load(name: &str) -> Result<&'static Table, Error> {
    static LOADED: Mutex<BTreeMap<String, &'static Table>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = loaded.get(name) {
        return Ok(table);
    }
    let path = verilate::library(name).map_err(|error| Error::NotBuilt {
        model: name.to_owned(),
        reason: error.to_string(),
    })?;
    let unusable = |reason: String| Error::NotBuilt {
        model: name.to_owned(),
        reason: format!("cannot load {}: {reason}", path.display()),
    };
    // SAFETY: a library that crates/verilate built, or that the user named; its initialisers set constants.
    let library = unsafe { Library::new(&path) }.map_err(|error| unusable(linker(&error)))?;
    // Never unloaded: tables are for ever.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: the shim declares this function with this type.
    let table = unsafe {
        let function = library
            .get::<unsafe extern "C" fn() -> *const Table>(b"ipnuma_model\0")
            .map_err(|error| unusable(linker(&error)))?;
        &*function()
    };
    if table.interface != INTERFACE {
        return Err(unusable(format!(
            "it has interface {}, this program wants {INTERFACE}; build both from one source",
            table.interface
        )));
    }
    loaded.insert(name.to_owned(), table);
    Ok(table)
}

/// What the dynamic linker says: the error itself names the linker's function only.
fn linker(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// Place of a port among those of its model; [`Handle::port`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId(u32);

/// Describes a port of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Name in the RTL.
    pub name: &'static str,
    /// Width in bits.
    pub width: u32,
    /// Whether the model drives it.
    pub output: bool,
}

/// One instance of a model.
pub struct Handle {
    table: &'static Table,
    ports: &'static [Port],
    instance: NonNull<c_void>,
    not_sync: PhantomData<*mut ()>,
}

// SAFETY: an instance has its own VerilatedContext and no ties to the thread that made it; every
// evaluation sets the thread's context first.
unsafe impl Send for Handle {}

impl Handle {
    /// Creates an instance of a model in its initial state; nothing is evaluated yet. Builds the model if nobody has.
    pub fn new(model: &str) -> Result<Self, Error> {
        let table = load(model)?;
        // SAFETY: `ports` points to `port_count` constants.
        let ports = unsafe { std::slice::from_raw_parts(table.ports, table.port_count as usize) };
        // SAFETY: takes nothing.
        let instance = unsafe { (table.create)() };
        let instance = NonNull::new(instance).expect("there is memory for a model");
        Ok(Self {
            table,
            ports,
            instance,
            not_sync: PhantomData,
        })
    }

    /// Finds a port by its name in the RTL.
    pub fn port(&self, name: &str) -> Result<PortId, Error> {
        // SAFETY: a constant C string.
        let mut names = self.ports.iter().map(|port| unsafe { text(port.name) });
        let place = names.position(|port| port == name);
        place
            .map(|place| PortId(place as u32))
            .ok_or_else(|| Error::NoPort {
                model: self.name(),
                port: name.to_owned(),
            })
    }

    /// Name of the model.
    pub fn name(&self) -> &'static str {
        // SAFETY: a constant C string.
        unsafe { text(self.table.name) }
    }

    /// Ports in the order of the RTL.
    pub fn ports(&self) -> impl Iterator<Item = PortInfo> + use<> {
        self.ports.iter().map(|port| PortInfo {
            // SAFETY: a constant C string.
            name: unsafe { text(port.name) },
            width: port.width,
            output: port.is_output != 0,
        })
    }

    /// Reads 64 bits of a port, from bit `64 * lane` on, as of the last evaluation or setting; ports of 64 bits at most
    /// have lane 0 only.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline]
    pub fn lane(&self, port: PortId, lane: usize) -> u64 {
        let port = &self.ports[port.0 as usize];
        // SAFETY: the instance belongs to the table that the port belongs to, which has the lane.
        unsafe { (port.get)(self.instance.as_ptr(), port.lane(lane)) }
    }

    /// Sets 64 bits of an input, from bit `64 * lane` on; bits above its width are ignored, an output is left alone.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline]
    pub fn set_lane(&mut self, port: PortId, lane: usize, value: u64) {
        let port = &self.ports[port.0 as usize];
        if let Some(set) = port.set {
            // SAFETY: as in `lane`, and `&mut self` excludes other uses.
            unsafe { set(self.instance.as_ptr(), port.lane(lane), value) }
        }
    }

    /// Reads a port of 64 bits at most.
    #[inline]
    pub fn get(&self, port: PortId) -> u64 {
        self.lane(port, 0)
    }

    /// Reads a wider port, from the least significant lane up.
    ///
    /// # Panics
    /// If it has fewer lanes.
    #[inline]
    pub fn wide<const LANES: usize>(&self, port: PortId) -> [u64; LANES] {
        std::array::from_fn(|lane| self.lane(port, lane))
    }

    /// Sets a wider input, from the least significant lane up.
    ///
    /// # Panics
    /// If it has fewer lanes.
    #[inline]
    pub fn set_wide<const LANES: usize>(&mut self, port: PortId, value: [u64; LANES]) {
        for (lane, bits) in value.into_iter().enumerate() {
            self.set_lane(port, lane, bits);
        }
    }

    /// Whether a port of one bit is set.
    #[inline]
    pub fn bit(&self, port: PortId) -> bool {
        self.lane(port, 0) != 0
    }

    /// Sets an input of 64 bits at most.
    #[inline]
    pub fn set(&mut self, port: PortId, value: impl Into<u64>) {
        self.set_lane(port, 0, value.into());
    }

    /// Evaluates the model with its present inputs: outputs settle, clock edges take effect.
    #[inline]
    pub fn eval(&mut self) -> Result<(), Error> {
        // SAFETY: as in `set_lane`; the shim lets no exception out.
        if unsafe { (self.table.eval)(self.instance.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(self.failure())
        }
    }

    /// Whether [`Handle::eval_inputs`] and [`Handle::eval_edge`] can take the place of [`Handle::eval`], from the second evaluation
    /// on and while no waves are written.
    #[inline]
    pub fn has_steps(&self) -> bool {
        self.table.inputs.is_some() && self.table.edge.is_some()
    }

    /// Lets inputs take effect that are no clocks. For a model that has steps and was evaluated once.
    #[inline]
    pub fn eval_inputs(&mut self) -> Result<(), Error> {
        self.half(self.table.inputs)
    }

    /// Lets the clocks that are high have an edge. No input may have changed since [`Handle::eval_inputs`].
    #[inline]
    pub fn eval_edge(&mut self) -> Result<(), Error> {
        self.half(self.table.edge)
    }

    #[inline]
    fn half(
        &mut self,
        step: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    ) -> Result<(), Error> {
        let step = step.expect("the caller has asked whether the model has steps");
        // SAFETY: as in `eval`; the function belongs to this table.
        if unsafe { step(self.instance.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(self.failure())
        }
    }

    /// Whether something is on its way from one clock to another, or nobody knows.
    #[inline]
    pub fn crossing(&self) -> bool {
        // SAFETY: as in `lane`.
        self.table
            .crossing
            .is_none_or(|crossing| unsafe { crossing(self.instance.as_ptr()) } != 0)
    }

    /// Sets the time that the RTL's messages carry, in picoseconds.
    #[inline]
    pub fn set_time(&mut self, ps: u64) {
        // SAFETY: as in `set_lane`.
        unsafe { (self.table.set_time)(self.instance.as_ptr(), ps) }
    }

    /// Begins to write waves in FST format; a trace that was open is closed.
    pub fn trace(&mut self, path: &Path) -> Result<(), Error> {
        const LEVELS: c_int = 99;
        let refused = |reason: String| Error::Trace {
            path: path.to_owned(),
            reason,
        };
        // The simulator does not notice that a file cannot be written.
        std::fs::File::create(path).map_err(|error| refused(error.kind().to_string()))?;
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| refused("its name holds a zero byte".into()))?;
        // SAFETY: as in `set_lane`; the path is a C string that outlives the call.
        match unsafe { (self.table.trace_open)(self.instance.as_ptr(), name.as_ptr(), LEVELS) } {
            0 => Ok(()),
            _ => Err(refused("the simulator refused it".into())),
        }
    }

    /// Writes the present values at a time in picoseconds, later than the one before; does nothing when no trace is open.
    #[inline]
    pub fn dump(&mut self, ps: u64) {
        // SAFETY: as in `set_lane`.
        unsafe { (self.table.trace_dump)(self.instance.as_ptr(), ps) }
    }

    /// Ends the trace and completes its file.
    pub fn trace_close(&mut self) {
        // SAFETY: as in `set_lane`.
        unsafe { (self.table.trace_close)(self.instance.as_ptr()) }
    }

    #[cold]
    fn failure(&self) -> Error {
        // SAFETY: the string lives in the instance, and is copied before anything changes it.
        let message = unsafe { CStr::from_ptr((self.table.failure)(self.instance.as_ptr())) };
        Error::Rtl {
            model: self.name(),
            message: message.to_string_lossy().into_owned(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the instance came from `create`, and this is its last use.
        unsafe { (self.table.destroy)(self.instance.as_ptr()) }
    }
}

/// # Safety
/// `pointer` is a constant C string that lives as long as the process.
unsafe fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }
        .to_str()
        .unwrap_or("(not UTF-8)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_linker_says_of_a_file_is_reported() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("empty.so");
        std::fs::write(&path, "").expect("a file");
        // SAFETY: an empty file has no initialisers.
        let error = unsafe { Library::new(&path) }.expect_err("it is no library");
        let words = linker(&error);
        assert!(words.contains("empty.so"), "{words}");
    }
}
