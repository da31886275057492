// SPDX-License-Identifier: Apache-2.0
//! Memory for the board through VFIO's type 1 IOMMU: the board sees only what was mapped, at addresses of our choice.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use super::PcieError;
use super::memory::{HUGE, Mapper};
use super::sysfs::Function;

/// VFIO's requests: type `;`, numbers from 100 on, no size in them.
const fn request(number: u32) -> Opcode {
    ((b';' as u32) << 8 | (100 + number)) as Opcode
}

const GET_API_VERSION: Opcode = request(0);
const CHECK_EXTENSION: Opcode = request(1);
const SET_IOMMU: Opcode = request(2);
const GROUP_GET_STATUS: Opcode = request(3);
const GROUP_SET_CONTAINER: Opcode = request(4);
const GROUP_GET_DEVICE_FD: Opcode = request(6);
const IOMMU_MAP_DMA: Opcode = request(13);
const IOMMU_UNMAP_DMA: Opcode = request(14);

const TYPE1V2_IOMMU: usize = 3;
const GROUP_VIABLE: u32 = 1;
const READ_WRITE: u32 = 3;
/// First address that the board is given: above what x86 keeps for interrupts.
const FIRST_ADDRESS: u64 = 1 << 32;

#[repr(C)]
#[derive(Default)]
struct GroupStatus {
    argsz: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapDma {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

#[repr(C)]
#[derive(Default)]
struct UnmapDma {
    argsz: u32,
    flags: u32,
    iova: u64,
    size: u64,
}

/// A request whose argument is a value or a pointer, and whose answer is a number.
struct Call {
    opcode: Opcode,
    argument: *mut core::ffi::c_void,
}

// SAFETY: the opcode and its argument are paired by the callers below as linux/vfio.h has them; the answer is a plain
// number.
unsafe impl Ioctl for Call {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        self.argument
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut core::ffi::c_void,
    ) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

/// Calls with a number as the argument.
fn call(
    file: impl AsFd,
    what: &'static str,
    opcode: Opcode,
    value: usize,
) -> Result<i32, PcieError> {
    let argument = core::ptr::without_provenance_mut(value);
    // SAFETY: these requests take a number, not a pointer.
    unsafe { ioctl::ioctl(file, Call { opcode, argument }) }.map_err(|error| PcieError::Vfio {
        what,
        source: error.into(),
    })
}

/// Calls with a structure as the argument.
fn call_with<T>(
    file: impl AsFd,
    what: &'static str,
    opcode: Opcode,
    value: &mut T,
) -> Result<i32, PcieError> {
    let argument = core::ptr::from_mut(value).cast();
    // SAFETY: these requests take a pointer to the structure that linux/vfio.h names, which lives through the call.
    unsafe { ioctl::ioctl(file, Call { opcode, argument }) }.map_err(|error| PcieError::Vfio {
        what,
        source: error.into(),
    })
}

/// A board behind its IOMMU.
pub struct Vfio {
    container: File,
    // The group and the device hold the container's IOMMU: closing them would let the board's mappings go.
    _group: File,
    _device: OwnedFd,
    next: Mutex<u64>,
}

impl Vfio {
    /// Takes the function's group, which must be bound to `vfio-pci`, and gives it an IOMMU of its own.
    ///
    /// # Errors
    /// If the machine has no IOMMU or VFIO, or the group is not ours to take.
    pub fn open(function: &Function, address: &str) -> Result<Self, PcieError> {
        let group = function
            .iommu_group()
            .ok_or_else(|| PcieError::NoIommu(address.to_owned()))?;
        if function.driver().as_deref() != Some("vfio-pci") {
            return Err(PcieError::NotBound {
                address: address.to_owned(),
                driver: function.driver(),
            });
        }
        let open = |path: PathBuf| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(|source| PcieError::File { path, source })
        };
        let container = open("/dev/vfio/vfio".into())?;
        let version = call(&container, "its version", GET_API_VERSION, 0)?;
        let type1 = call(
            &container,
            "whether it has a type 1 IOMMU",
            CHECK_EXTENSION,
            TYPE1V2_IOMMU,
        )?;
        if version != 0 || type1 != 1 {
            return Err(PcieError::NoIommu(address.to_owned()));
        }
        let group = open(format!("/dev/vfio/{group}").into())?;
        let mut status = GroupStatus {
            argsz: 8,
            ..GroupStatus::default()
        };
        call_with(
            &group,
            "the state of the group",
            GROUP_GET_STATUS,
            &mut status,
        )?;
        if status.flags & GROUP_VIABLE == 0 {
            return Err(PcieError::NotViable(address.to_owned()));
        }
        let mut container_fd = container.as_raw_fd();
        call_with(
            &group,
            "to put the group into a container",
            GROUP_SET_CONTAINER,
            &mut container_fd,
        )?;
        call(
            &container,
            "to switch the IOMMU on",
            SET_IOMMU,
            TYPE1V2_IOMMU,
        )?;
        let mut name = [0; 16];
        name[..address.len().min(15)].copy_from_slice(&address.as_bytes()[..address.len().min(15)]);
        let device = call_with(&group, "the device", GROUP_GET_DEVICE_FD, &mut name)?;
        // SAFETY: the kernel has just made this descriptor for us.
        let device = unsafe { OwnedFd::from_raw_fd(device) };
        Ok(Self {
            container,
            _group: group,
            _device: device,
            next: Mutex::new(FIRST_ADDRESS),
        })
    }
}

impl Mapper for Vfio {
    fn map(&self, base: *mut u8, len: usize) -> Result<u64, PcieError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let iova = *next;
        let mut map = MapDma {
            argsz: size_of::<MapDma>() as u32,
            flags: READ_WRITE,
            vaddr: base.addr() as u64,
            iova,
            size: len as u64,
        };
        call_with(
            &self.container,
            "to map memory for the board",
            IOMMU_MAP_DMA,
            &mut map,
        )?;
        // Addresses are not used again: a late write of the board finds nothing, not someone else's memory.
        *next = iova + (len as u64).next_multiple_of(HUGE as u64);
        Ok(iova)
    }

    fn unmap(&self, address: u64, len: usize) {
        let mut unmap = UnmapDma {
            argsz: size_of::<UnmapDma>() as u32,
            flags: 0,
            iova: address,
            size: len as u64,
        };
        // Nothing can be done if it fails; the IOMMU keeps the pages until the process ends.
        let _ = call_with(
            &self.container,
            "to unmap memory",
            IOMMU_UNMAP_DMA,
            &mut unmap,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_structures_are_those_of_the_kernel() {
        assert_eq!(IOMMU_MAP_DMA, 0x3B71);
        assert_eq!(GET_API_VERSION, 0x3B64);
        assert_eq!(size_of::<GroupStatus>(), 8);
        assert_eq!(size_of::<MapDma>(), 32);
        assert_eq!(size_of::<UnmapDma>(), 24);
    }

    #[test]
    fn a_function_without_iommu_or_with_another_driver_is_refused() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join("0000:01:00.0");
        std::fs::create_dir(&path).expect("a directory");
        let function = Function::open(root.path(), "0000:01:00.0").expect("it is there");
        let error = Vfio::open(&function, "0000:01:00.0")
            .err()
            .expect("no group");
        assert!(error.to_string().contains("iommu"), "{error}");
        std::os::unix::fs::symlink("../../kernel/iommu_groups/3", path.join("iommu_group"))
            .expect("a link");
        let error = Vfio::open(&function, "0000:01:00.0")
            .err()
            .expect("no driver");
        assert!(error.to_string().contains("vfio-pci"), "{error}");
    }
}
