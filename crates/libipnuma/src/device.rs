// SPDX-License-Identifier: Apache-2.0
//! Devices.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::Device;
use host::config::{BackendKind, Config};

use crate::status::{Failure, object, result, run, text, timeout};

/// A way to other memory: a board, or the daemon. Opened by ipn_open().
pub struct ipn_device {
    pub(crate) device: Device,
    pub(crate) counts: Arc<Counts>,
}

/// What ipn_stats() tells.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) regions: AtomicU64,
    pub(crate) windows: AtomicU64,
    pub(crate) rings: AtomicU64,
    pub(crate) exported: AtomicU64,
    pub(crate) revoked: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// How a device is opened. Set everything to 0 and struct_size to sizeof(ipn_options).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ipn_options {
    /// sizeof(ipn_options).
    pub struct_size: usize,
    /// Back end: "soft", "pcie" or "rack"; NULL: as configured.
    pub backend: *const c_char,
    /// Configuration file; NULL: $IPNUMA_CONFIG, ~/.config/ipnuma/config.toml or /etc/ipnuma.toml.
    pub config: *const c_char,
    /// Socket of the daemon; NULL: as configured.
    pub daemon: *const c_char,
    /// How long waits spin before they sleep, nanoseconds; 0: as configured; negative: not at all.
    pub spin_ns: i64,
}

/// What a device is and can do. Set struct_size to sizeof(ipn_info) before the call.
#[repr(C)]
pub struct ipn_info {
    /// sizeof(ipn_info).
    pub struct_size: usize,
    /// Back end: "soft", "pcie" or "rack".
    pub backend: [c_char; 16],
    /// Bytes that one store takes at most without being split.
    pub max_store: usize,
    /// 1 if a line of 64 bytes arrives whole (ipn_put64()).
    pub line_atomic: u32,
    /// 1 if windows can be mapped (ipn_window_map()).
    pub mappable: u32,
    /// 1 if the network can be reached.
    pub link_up: u32,
    /// Other machines that are known.
    pub peers: u32,
}

/// What was done with a device. Set struct_size to sizeof(ipn_statistics) before the call.
#[repr(C)]
pub struct ipn_statistics {
    /// sizeof(ipn_statistics).
    pub struct_size: usize,
    /// Regions there are.
    pub regions: u64,
    /// Windows there are.
    pub windows: u64,
    /// Ends of rings there are.
    pub rings: u64,
    /// Tokens handed out.
    pub exported: u64,
    /// Tokens taken back by ipn_revoke().
    pub revoked: u64,
    /// Tokens that ipn_connect() and ipn_ring_connect() were refused.
    pub refused: u64,
}

/// Copies a versioned struct to a caller who may know fewer fields of it.
unsafe fn give<T>(place: *mut T, value: &T, size: usize, name: &str) -> Result<(), Failure> {
    if size < size_of::<usize>() {
        return Err(Failure::invalid(format!(
            "{name}: struct_size is {size}; set it to the size of the struct before the call"
        )));
    }
    let count = size.min(size_of::<T>());
    // SAFETY: the caller's struct has `size` bytes, ours at least `count`; both are plain data.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), place.cast(), count)
    };
    Ok(())
}

/// Opens a device.
///
/// # Description
/// With `options` NULL, as the configuration file and the environment say (IPNUMA_BACKEND, IPNUMA_DAEMON, IPNUMA_SPIN_US); else
/// what is set there counts. The soft back end needs a daemon (ipnuma daemon). After fork(2) the child opens a device of
/// its own and leaves the parent's alone.
///
/// # Units
/// spin_ns in nanoseconds.
///
/// # Return
/// 0, and the device in `*device`; close it with ipn_close(). On an error `*device` is NULL.
///
/// # Errors
/// -EINVAL: `device` is NULL, or options or configuration are wrong. -ECONNREFUSED: there is no daemon. -EACCES: the daemon
/// belongs to another user. -EPROTO: it is of another version. -ENODEV: there is no such board.
///
/// # Threads
/// Any thread. The device may be used by several threads at a time.
///
/// # Example
/// @code
/// ipn_device *device;
/// int status = ipn_open(NULL, &device);
/// if (status != 0) return fprintf(stderr, "%s\n", ipn_strerror(status)), 1;
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_open(
    options: *const ipn_options,
    device: *mut *mut ipn_device,
) -> c_int {
    run(|| {
        // SAFETY: see `result`.
        let place = unsafe { result(device, "device") }?;
        *place = std::ptr::null_mut();
        // SAFETY: options are NULL or as large as they say, which `configuration` looks at first.
        let config = unsafe { configuration(options) }?;
        let opened = ipn_device {
            device: Device::open(&config)?,
            counts: Arc::default(),
        };
        *place = Box::into_raw(Box::new(opened));
        Ok(())
    })
}

/// Bytes that the first ipn_options had.
const FIRST_OPTIONS: usize = 5 * size_of::<usize>();
/// More than any struct of ours will ever have.
const MOST: usize = 4096;

/// A copy of a struct that begins with its size and has grown since its first version, which had `first` bytes: what the
/// caller does not know of it is 0, and what this library does not know must be.
///
/// # Safety
/// It must have as many bytes as it says, and fields that may be 0.
unsafe fn versioned<T: Copy>(from: *const T, first: usize, name: &str) -> Result<T, Failure> {
    // SAFETY: it begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    if !(first..=MOST).contains(&size) {
        return Err(Failure::invalid(format!(
            "{name}: struct_size is {size}; set it to the sizeof of the struct, which is {} in this library's header",
            size_of::<T>()
        )));
    }
    let known = size.min(size_of::<T>());
    let bytes = from.cast::<u8>();
    // SAFETY: it has `size` bytes, by this function's contract.
    let beyond = unsafe { std::slice::from_raw_parts(bytes.add(known), size - known) };
    if beyond.iter().any(|&byte| byte != 0) {
        return Err(Failure::invalid(format!(
            "{name}: struct_size is {size}, and this library knows {known} bytes; the others must be 0, or the library newer"
        )));
    }
    let mut own = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: both have room for that many bytes; the rest is 0, which every field may be.
    Ok(unsafe {
        std::ptr::copy_nonoverlapping(bytes, own.as_mut_ptr().cast(), known);
        own.assume_init()
    })
}

unsafe fn configuration(options: *const ipn_options) -> Result<Config, Failure> {
    if options.is_null() {
        return Ok(Config::load()?);
    }
    // SAFETY: it is as large as it says, by the contract of the interface, and all of its fields may be 0.
    let options = unsafe { versioned(options, FIRST_OPTIONS, "options") }?;
    // SAFETY: strings are NULL or end with a zero, by the contract of the interface.
    let (backend, file, daemon) = unsafe {
        (
            text(options.backend, "backend")?,
            text(options.config, "config")?,
            text(options.daemon, "daemon")?,
        )
    };
    let mut config = match file {
        Some(file) => {
            let environment =
                |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            Config::read(Path::new(file))?.with_environment(environment)?
        }
        None => Config::load()?,
    };
    match backend {
        None => {}
        Some("soft") => config.backend = BackendKind::Soft,
        Some("pcie") => config.backend = BackendKind::Pcie,
        Some("rack") => config.backend = BackendKind::Rack,
        Some(other) => {
            return Err(Failure::invalid(format!(
                "backend {other:?}: there are soft, pcie and rack"
            )));
        }
    }
    if let Some(daemon) = daemon {
        config.daemon = daemon.into();
    }
    match options.spin_ns {
        0 => {}
        spin => config.spin = timeout(spin).unwrap_or(Duration::ZERO),
    }
    Ok(config)
}

/// Closes a device.
///
/// # Description
/// Its regions, windows and rings stay usable until they are closed themselves; new ones can't be made.
///
/// # Return
/// 0. NULL is closed already.
///
/// # Errors
/// None.
///
/// # Threads
/// No other thread may use the handle meanwhile or afterwards.
///
/// # Example
/// @code
/// ipn_close(device);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_close(device: *mut ipn_device) -> c_int {
    run(|| {
        if !device.is_null() {
            // SAFETY: made by `ipn_open`, and not used any more.
            drop(unsafe { Box::from_raw(device) });
        }
        Ok(())
    })
}

/// Says what a device is and can do.
///
/// # Description
/// Fills `*info` as far as its struct_size says. link_up and peers are those of this moment.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or struct_size is not set.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_info info = {.struct_size = sizeof info};
/// if (ipn_query(device, &info) == 0) printf("%s\n", info.backend);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_query(device: *const ipn_device, info: *mut ipn_info) -> c_int {
    run(|| {
        // SAFETY: see `object`; of `info` only the size is looked at.
        let (device, size) = unsafe {
            (
                object(device, "device")?,
                result(info.cast::<usize>(), "info")?,
            )
        };
        let known = device.device.info();
        let mut backend = [0; 16];
        for (to, from) in backend[..15].iter_mut().zip(known.backend.bytes()) {
            *to = from as c_char;
        }
        let filled = ipn_info {
            struct_size: *size,
            backend,
            max_store: known.max_store,
            line_atomic: known.line_atomic.into(),
            mappable: known.mappable.into(),
            link_up: known.link_up.into(),
            peers: known.peers.len() as u32,
        };
        // SAFETY: `info` has as many bytes as it says.
        unsafe { give(info, &filled, *size, "info") }
    })
}

/// Says what was done with a device.
///
/// # Description
/// Fills `*statistics` as far as its struct_size says. The counts are of this handle, not of the machine.
///
/// # Return
/// 0.
///
/// # Errors
/// -EINVAL: a pointer is NULL, or struct_size is not set.
///
/// # Threads
/// Any thread.
///
/// # Example
/// @code
/// ipn_statistics now = {.struct_size = sizeof now};
/// if (ipn_stats(device, &now) == 0) printf("%llu windows\n", (unsigned long long)now.windows);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_stats(
    device: *const ipn_device,
    statistics: *mut ipn_statistics,
) -> c_int {
    run(|| {
        // SAFETY: see `object`; of `statistics` only the size is looked at.
        let (device, size) = unsafe {
            (
                object(device, "device")?,
                result(statistics.cast::<usize>(), "statistics")?,
            )
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &device.counts;
        let filled = ipn_statistics {
            struct_size: *size,
            regions: count(&counts.regions),
            windows: count(&counts.windows),
            rings: count(&counts.rings),
            exported: count(&counts.exported),
            revoked: count(&counts.revoked),
            refused: count(&counts.refused),
        };
        // SAFETY: `statistics` has as many bytes as it says.
        unsafe { give(statistics, &filled, *size, "statistics") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options as a later version may have them.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Grown {
        known: ipn_options,
        new: u64,
    }

    fn options(struct_size: usize, spin_ns: i64) -> ipn_options {
        ipn_options {
            struct_size,
            backend: std::ptr::null(),
            config: std::ptr::null(),
            daemon: std::ptr::null(),
            spin_ns,
        }
    }

    #[test]
    fn programs_with_older_and_newer_headers_are_served() {
        // Behind an old program's options lies something else.
        let old = Grown {
            known: options(FIRST_OPTIONS, 7),
            new: 99,
        };
        // SAFETY: it has as many bytes as it says, and more.
        let taken = unsafe { versioned(&raw const old, FIRST_OPTIONS, "options") };
        let taken = taken.ok().expect("an old program's options");
        assert_eq!((taken.known.spin_ns, taken.new), (7, 0));
        let mut newer = Grown {
            known: options(size_of::<Grown>(), 7),
            new: 0,
        };
        let take = |newer: &Grown| {
            let from = (&raw const *newer).cast::<ipn_options>();
            // SAFETY: it has as many bytes as it says.
            let taken = unsafe { versioned(from, FIRST_OPTIONS, "options") };
            taken.map(|options| options.spin_ns).ok()
        };
        assert_eq!(take(&newer), Some(7));
        newer.new = 1;
        assert_eq!(take(&newer), None, "what is not known can't be done");
        for size in [0, FIRST_OPTIONS - 1, MOST + 1, usize::MAX] {
            newer.known.struct_size = size;
            assert_eq!(take(&newer), None, "{size}");
        }
    }
}
