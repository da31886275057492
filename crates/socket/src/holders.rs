// SPDX-License-Identifier: Apache-2.0
//! Which processes have a socket, as far as this one may look.

use std::os::fd::RawFd;

/// The descriptors by which processes have the socket that the kernel numbers so, one of each process. `likely` is looked at first.
pub(crate) fn of(inode: u32, likely: Option<u32>) -> impl Iterator<Item = (u32, RawFd)> {
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let others = pids.filter(move |pid: &u32| Some(*pid) != likely);
    let name = format!("socket:[{inode}]");
    let found = move |pid| Some((pid, number(pid, &name)?));
    likely.into_iter().chain(others).filter_map(found)
}

/// Under which number a process has what is linked to `name`.
fn number(pid: u32, name: &str) -> Option<RawFd> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let entry = descriptors.filter_map(Result::ok).find(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == name)
    })?;
    entry.file_name().to_str()?.parse().ok()
}
