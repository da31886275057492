// SPDX-License-Identifier: Apache-2.0
//! A PCI function as sysfs shows it: its BARs, whether it may master the bus, and its IOMMU group.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::PcieError;
use super::bar::MappedBar;

/// Where the kernel lists PCI functions.
pub const DEVICES: &str = "/sys/bus/pci/devices";

const IORESOURCE_MEM: u64 = 0x200;
const IORESOURCE_PREFETCH: u64 = 0x2000;
/// Offset of the command register in configuration space.
const COMMAND: u64 = 4;
/// Memory space enable and bus master enable.
const MEMORY_AND_MASTER: u16 = 0b110;

/// One line of `resource`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// First bus address.
    pub start: u64,
    /// Bytes; 0 if the BAR is not there.
    pub bytes: u64,
    /// Memory, not I/O ports.
    pub memory: bool,
    /// Prefetchable: only then can it be mapped write-combined.
    pub prefetchable: bool,
}

impl Resource {
    /// Parses a line: first and last address and flags, in hexadecimal.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut fields = line
            .split_ascii_whitespace()
            .map(|field| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok());
        let (start, end, flags) = (fields.next()??, fields.next()??, fields.next()??);
        if fields.next().is_some() || end < start {
            return None;
        }
        let there = (start, end, flags) != (0, 0, 0);
        Some(Self {
            start,
            bytes: if there {
                (end - start).checked_add(1)?
            } else {
                0
            },
            memory: flags & IORESOURCE_MEM != 0,
            prefetchable: flags & IORESOURCE_PREFETCH != 0,
        })
    }
}

/// A PCI function.
#[derive(Clone, Debug)]
pub struct Function {
    path: PathBuf,
}

impl Function {
    /// The function with this address (`0000:01:00.0`) below `devices`, which is [`DEVICES`] but for tests.
    ///
    /// # Errors
    /// If the address is none, or there is no such function.
    pub fn open(devices: &Path, address: &str) -> Result<Self, PcieError> {
        let well_formed = address.len() == 12
            && address.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b':',
                10 => byte == b'.',
                _ => byte.is_ascii_hexdigit(),
            });
        if !well_formed {
            return Err(PcieError::BadAddress(address.to_owned()));
        }
        let path = devices.join(address);
        if !path.is_dir() {
            return Err(PcieError::NoDevice {
                address: address.to_owned(),
                devices: devices.to_owned(),
            });
        }
        Ok(Self { path })
    }

    fn failed<'a>(&'a self, file: &'a str) -> impl FnOnce(io::Error) -> PcieError + 'a {
        move |source| PcieError::File {
            path: self.path.join(file),
            source,
        }
    }

    /// The BARs, six at most.
    ///
    /// # Errors
    /// If `resource` can't be read or is not as the kernel writes it.
    pub fn resources(&self) -> Result<Vec<Resource>, PcieError> {
        let text =
            fs::read_to_string(self.path.join("resource")).map_err(self.failed("resource"))?;
        text.lines()
            .take(6)
            .map(|line| {
                Resource::parse(line).ok_or_else(|| PcieError::BadResource {
                    path: self.path.join("resource"),
                    line: line.to_owned(),
                })
            })
            .collect()
    }

    /// Maps a BAR: write-combined if wanted and possible (the file `resourceN_wc` exists if the BAR is prefetchable),
    /// else as `resourceN`, uncached.
    ///
    /// # Errors
    /// If there is no such BAR of at least `least` bytes, or it can't be mapped.
    pub fn map_bar(&self, bar: usize, least: u64, combined: bool) -> Result<MappedBar, PcieError> {
        let resource = self.resources()?.get(bar).copied().unwrap_or_default();
        if !resource.memory || resource.bytes < least {
            return Err(PcieError::NoBar {
                path: self.path.clone(),
                bar,
                bytes: resource.bytes,
                least,
            });
        }
        let bytes = usize::try_from(resource.bytes).map_err(|_| PcieError::NoBar {
            path: self.path.clone(),
            bar,
            bytes: resource.bytes,
            least,
        })?;
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(self.path.join(name))
        };
        let combined_name = format!("resource{bar}_wc");
        if combined
            && resource.prefetchable
            && let Ok(file) = open(&combined_name)
            && let Ok(mapped) = MappedBar::map(&file, 0, bytes, true)
        {
            return Ok(mapped);
        }
        let name = format!("resource{bar}");
        let file = open(&name).map_err(self.failed(&name))?;
        MappedBar::map(&file, 0, bytes, false).map_err(self.failed(&name))
    }

    /// Lets the function answer to its BARs and write to memory.
    ///
    /// # Errors
    /// If its configuration space can't be read and written.
    pub fn enable(&self) -> Result<(), PcieError> {
        let failed = || self.failed("config");
        let file: File = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join("config"))
            .map_err(failed())?;
        let mut command = [0; 2];
        file.read_exact_at(&mut command, COMMAND)
            .map_err(failed())?;
        let wanted = u16::from_le_bytes(command) | MEMORY_AND_MASTER;
        if wanted.to_le_bytes() != command {
            file.write_all_at(&wanted.to_le_bytes(), COMMAND)
                .map_err(failed())?;
        }
        Ok(())
    }

    /// Number of its IOMMU group, if the machine has an IOMMU and uses it.
    #[must_use]
    pub fn iommu_group(&self) -> Option<u32> {
        let target = fs::read_link(self.path.join("iommu_group")).ok()?;
        target.file_name()?.to_str()?.parse().ok()
    }

    /// Name of the driver that has it.
    #[must_use]
    pub fn driver(&self) -> Option<String> {
        let target = fs::read_link(self.path.join("driver")).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::pcie::bar::{Bar, Combining};
    use std::os::unix::fs::symlink;

    const ADDRESS: &str = "0000:01:00.0";

    /// A directory that looks as sysfs does for a board with BAR 0 (8 MB) and a small BAR 2.
    fn fake(prefetchable: bool) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join(ADDRESS);
        fs::create_dir(&path).expect("a directory");
        let flags = if prefetchable {
            "0x000000000014220c"
        } else {
            "0x0000000000140204"
        };
        let zero = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
        let text = format!(
            "0x00000000f0000000 0x00000000f07fffff 0x0000000000040200\n{zero}\
             0x0000004000000000 0x0000004000003fff {flags}\n{zero}{zero}{zero}{zero}"
        );
        fs::write(path.join("resource"), text).expect("a file");
        for (name, bytes) in [("resource0", 8 << 20), ("resource2", 0x4000)] {
            let file = File::create(path.join(name)).expect("a file");
            file.set_len(bytes).expect("a sparse file");
        }
        if prefetchable {
            fs::hard_link(path.join("resource2"), path.join("resource2_wc")).expect("a link");
        }
        let mut config = [0; 64];
        config[4] = 0b1;
        fs::write(path.join("config"), config).expect("a file");
        symlink(
            "../../../../kernel/iommu_groups/17",
            path.join("iommu_group"),
        )
        .expect("a link");
        symlink("../../../../bus/pci/drivers/vfio-pci", path.join("driver")).expect("a link");
        root
    }

    #[test]
    fn resources_are_read_as_the_kernel_writes_them() {
        let root = fake(true);
        let function = Function::open(root.path(), ADDRESS).expect("it is there");
        let resources = function.resources().expect("well-formed");
        assert_eq!(resources.len(), 6);
        assert_eq!(
            resources[0],
            Resource {
                start: 0xF000_0000,
                bytes: 8 << 20,
                memory: true,
                prefetchable: false
            }
        );
        assert_eq!(
            (resources[2].bytes, resources[2].prefetchable),
            (0x4000, true)
        );
        assert_eq!(resources[1].bytes, 0);
        assert_eq!(function.iommu_group(), Some(17));
        assert_eq!(function.driver().as_deref(), Some("vfio-pci"));
    }

    #[test]
    fn a_prefetchable_bar_is_write_combined_another_is_not() {
        for prefetchable in [true, false] {
            let root = fake(prefetchable);
            let function = Function::open(root.path(), ADDRESS).expect("it is there");
            let bar = function.map_bar(2, 0x4000, true).expect("it can be mapped");
            assert_eq!(bar.len(), 0x4000);
            assert_eq!(bar.combining() == Combining::WriteCombined, prefetchable);
            bar.store(0x3FF8, &[7; 8]);
            let seen = fs::read(root.path().join(ADDRESS).join("resource2")).expect("a file");
            assert_eq!(seen[0x3FF8..], [7; 8]);
            assert_eq!(
                function.map_bar(0, 8 << 20, false).expect("mapped").len(),
                8 << 20
            );
        }
    }

    #[test]
    fn memory_and_bus_mastering_are_switched_on() {
        let root = fake(true);
        Function::open(root.path(), ADDRESS)
            .expect("it is there")
            .enable()
            .expect("writable");
        let config = fs::read(root.path().join(ADDRESS).join("config")).expect("a file");
        assert_eq!((config[4], config[5], config.len()), (0b111, 0, 64));
    }

    #[test]
    fn errors_name_the_thing_and_the_remedy() {
        let root = fake(true);
        let error = Function::open(root.path(), "1:0").expect_err("no address");
        assert!(error.to_string().contains("0000:01:00.0"), "{error}");
        let error = Function::open(root.path(), "../../../etc").expect_err("no address");
        assert!(matches!(error, PcieError::BadAddress(_)), "{error}");
        let error = Function::open(root.path(), "0000:02:00.0").expect_err("not there");
        assert!(error.to_string().contains("lspci"), "{error}");
        let function = Function::open(root.path(), ADDRESS).expect("it is there");
        let error = function
            .map_bar(1, 4096, false)
            .err()
            .expect("BAR 1 is not there");
        assert!(error.to_string().contains("BAR 1"), "{error}");
        assert!(function.map_bar(7, 4096, false).is_err());
        fs::write(root.path().join(ADDRESS).join("resource"), "nonsense\n").expect("a file");
        let error = function.resources().expect_err("not well-formed");
        assert!(error.to_string().contains("nonsense"), "{error}");
    }

    #[test]
    fn lines_that_are_no_resources_are_refused() {
        assert_eq!(Resource::parse("0x1 0x0 0x200"), None);
        assert_eq!(
            Resource::parse("0x0 0xffffffffffffffff 0x200"),
            None,
            "does not wrap"
        );
        assert_eq!(Resource::parse("1 2 3"), None);
        assert_eq!(Resource::parse("0x1 0x2"), None);
        assert_eq!(Resource::parse("0x1 0x2 0x200 0x0"), None);
        assert_eq!(Resource::parse("0x0 0x0 0x0"), Some(Resource::default()));
    }
}
