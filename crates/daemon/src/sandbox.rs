// SPDX-License-Identifier: Apache-2.0
//! What a daemon gives up at its start: privileges, files that it has no use of, and calls that only somebody who has taken it
//! over would make. Kernels that lack one of these are used without.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{SeccompAction, SeccompFilter};

use crate::remote::Transport;
use crate::{Error, Options};

/// The newest rights over files that are asked for; a kernel that knows fewer gets those.
const RIGHTS: ABI = ABI::V3;

/// Calls that no daemon makes: programs, other processes, mounts, namespaces, users, the kernel.
const FORBIDDEN: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
];
/// Only AF_XDP needs it.
const BPF: i64 = libc::SYS_bpf;

/// Gives up what this daemon has no use of, for this thread and all that it starts: to be called before there are others. What
/// protects it then.
///
/// # Errors
/// If its socket's directory can't be made, or the kernel has the means and refuses.
pub fn enter(options: &Options) -> Result<Vec<&'static str>, Error> {
    let mut active = Vec::new();
    let nic = options.management.map(|_| &options.remote.nic);
    if matches!(nic, None | Some(Transport::Udp)) {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        };
        // Devices of NICs want them; without any they were none.
        if rustix::thread::set_capabilities(None, sets).is_ok() {
            active.push("no capabilities");
        }
    }
    let failed = |what| {
        move |errno| Error::System {
            what,
            source: errno,
        }
    };
    rustix::thread::set_no_new_privs(true).map_err(failed("give up privileges"))?;
    if files(options)? {
        active.push("Landlock");
    }
    if calls(matches!(nic, Some(Transport::Xdp(..)))) {
        active.push("seccomp");
    }
    Ok(active)
}

/// Only these files can be opened from now on. `false`: the kernel has no Landlock.
fn files(options: &Options) -> Result<bool, Error> {
    let directory = options.socket.parent().unwrap_or(Path::new("."));
    crate::place::close_directory(directory)?;
    let read = AccessFs::from_read(RIGHTS) & !AccessFs::Execute;
    let own = read | AccessFs::WriteFile | AccessFs::MakeSock | AccessFs::MakeReg;
    let own = own | AccessFs::RemoveFile | AccessFs::Truncate;
    let device: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::WriteFile;
    let beside = |path: PathBuf| path.parent().map(Path::to_owned);
    let keys = [options.remote.key_file(), options.remote.known_peers_file()];
    let mut devices = vec![PathBuf::from("/dev/null"), "/dev/net/tun".into()];
    if let Transport::Rack(path, _) = &options.remote.nic {
        devices.push(path.into());
    }
    let enforced = || -> Result<bool, RulesetError> {
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RIGHTS))?
            .create()?
            .add_rules(path_beneath_rules([directory], own))?
            .add_rules(path_beneath_rules(directory.parent(), AccessFs::RemoveDir))?
            .add_rules(path_beneath_rules(["/proc", "/sys"], read))?
            .add_rules(path_beneath_rules(
                keys.into_iter().filter_map(beside),
                read,
            ))?
            .add_rules(path_beneath_rules(devices, device))?
            .restrict_self()?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    };
    enforced()
        .map_err(|error| Error::Resource(format!("the daemon could not restrict itself: {error}")))
}

/// These calls fail from now on. `false`: the kernel has no seccomp.
fn calls(xdp: bool) -> bool {
    let forbidden = FORBIDDEN.iter().copied().chain((!xdp).then_some(BPF));
    let rules: BTreeMap<i64, Vec<_>> = forbidden.map(|call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let Ok(machine) = std::env::consts::ARCH.try_into() else {
        return false;
    };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, machine);
    let program: Result<seccompiler::BpfProgram, _> = filter.and_then(TryInto::try_into);
    program.is_ok_and(|program| seccompiler::apply_filter(&program).is_ok())
}
