// SPDX-License-Identifier: Apache-2.0
//! The only file with `unsafe`: calls into the C shim of a Verilated model.
//!
//! `Port` and `Table` mirror `IpnumaPort` and `IpnumaModel` in `shim/shim.hpp`. What every safety
//! comment below relies on: a table comes from a generated function and points to constants; its
//! pointers are valid for the life of the process; an instance comes from the table's `create` and
//! is used by one thread at a time, since [`Handle`] owns it and is not `Sync`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;

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

/// Function table of a model.
#[repr(C)]
pub struct Table {
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

include!(concat!(env!("OUT_DIR"), "/externs.rs"));

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
    /// # Safety
    /// `table` was returned by a generated `ipnuma_model_*` function.
    unsafe fn new(table: *const Table) -> Self {
        // SAFETY: the caller's promise; see the module's documentation.
        let table = unsafe { &*table };
        // SAFETY: `ports` points to `port_count` constants.
        let ports = unsafe { std::slice::from_raw_parts(table.ports, table.port_count as usize) };
        // SAFETY: takes nothing.
        let instance = unsafe { (table.create)() };
        let instance = NonNull::new(instance).expect("there is memory for a model");
        Self {
            table,
            ports,
            instance,
            not_sync: PhantomData,
        }
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

    /// Reads 64 bits of a port by its place; ports of 64 bits at most have lane 0 only.
    #[inline]
    pub(crate) fn get(&self, port: usize, lane: usize) -> u64 {
        let port = &self.ports[port];
        // SAFETY: the instance belongs to the table that the port belongs to, which has the lane.
        unsafe { (port.get)(self.instance.as_ptr(), port.lane(lane)) }
    }

    /// Sets 64 bits of an input by its place; an output is left alone.
    #[inline]
    pub(crate) fn set(&mut self, port: usize, lane: usize, value: u64) {
        let port = &self.ports[port];
        if let Some(set) = port.set {
            // SAFETY: as in `get`, and `&mut self` excludes other uses.
            unsafe { set(self.instance.as_ptr(), port.lane(lane), value) }
        }
    }

    /// Evaluates the model with its present inputs.
    #[inline]
    pub(crate) fn eval(&mut self) -> Result<(), Error> {
        // SAFETY: as in `set`; the shim lets no exception out.
        if unsafe { (self.table.eval)(self.instance.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(self.failure())
        }
    }

    /// Whether [`Handle::eval_inputs`] and [`Handle::eval_edge`] are there.
    #[inline]
    pub(crate) fn has_steps(&self) -> bool {
        self.table.inputs.is_some() && self.table.edge.is_some()
    }

    /// Lets inputs take effect that are no clocks. For a model that has steps and was evaluated once.
    #[inline]
    pub(crate) fn eval_inputs(&mut self) -> Result<(), Error> {
        self.half(self.table.inputs)
    }

    /// Lets the clocks that are high have an edge. No input may have changed since [`Handle::eval_inputs`].
    #[inline]
    pub(crate) fn eval_edge(&mut self) -> Result<(), Error> {
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

    /// Whether anything is on its way between clocks; true if that is not known.
    #[inline]
    pub(crate) fn crossing(&self) -> bool {
        // SAFETY: as in `get`.
        self.table
            .crossing
            .is_none_or(|crossing| unsafe { crossing(self.instance.as_ptr()) } != 0)
    }

    #[inline]
    pub(crate) fn set_time(&mut self, ps: u64) {
        // SAFETY: as in `set`.
        unsafe { (self.table.set_time)(self.instance.as_ptr(), ps) }
    }

    pub(crate) fn trace_open(&mut self, path: &Path) -> Result<(), Error> {
        const LEVELS: c_int = 99;
        let refused = |reason: String| Error::Trace {
            path: path.to_owned(),
            reason,
        };
        // The simulator does not notice that a file cannot be written.
        std::fs::File::create(path).map_err(|error| refused(error.kind().to_string()))?;
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| refused("its name holds a zero byte".into()))?;
        // SAFETY: as in `set`; the path is a C string that outlives the call.
        match unsafe { (self.table.trace_open)(self.instance.as_ptr(), name.as_ptr(), LEVELS) } {
            0 => Ok(()),
            _ => Err(refused("the simulator refused it".into())),
        }
    }

    #[inline]
    pub(crate) fn trace_dump(&mut self, ps: u64) {
        // SAFETY: as in `set`.
        unsafe { (self.table.trace_dump)(self.instance.as_ptr(), ps) }
    }

    pub(crate) fn trace_close(&mut self) {
        // SAFETY: as in `set`.
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
