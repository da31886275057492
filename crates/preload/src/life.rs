// SPDX-License-Identifier: Apache-2.0
//! The process's own life: start, fork and end.

use socket::signals::handlers::quietly;
use socket::{fork, hand_over, process};

use std::ffi::{c_char, c_int};

use crate::elsewhere;
use crate::next::next;

unsafe extern "C" fn start() {
    // What unwinds through the program's frames is the end of a cancelled thread, never a mistake of ours.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
    process::start();
    socket::wait::start();
    socket::inherit::start();
    crate::stdio::start();
    crate::handlers::start();
    // SAFETY: the handlers stay loaded as long as the process lives.
    unsafe { pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn() = start;

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

unsafe extern "C" fn before() {
    fork::before();
}

unsafe extern "C" fn after_in_parent() {
    fork::after_in_parent();
}

unsafe extern "C" fn after_in_child() {
    fork::after_in_child();
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> libc::pid_t {
    let child = next!(fork() -> libc::pid_t);
    if child < 0 {
        quietly(fork::failed);
    }
    child
}

unsafe extern "C" fn end() {
    fork::leave();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: unsafe extern "C" fn() = end;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _exit(code: libc::c_int) -> ! {
    fork::leave();
    next!(_exit(code: libc::c_int) -> !)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Exit(code: libc::c_int) -> ! {
    fork::leave();
    next!(_Exit(code: libc::c_int) -> !)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setrlimit(
    resource: libc::c_uint,
    limit: *const libc::rlimit,
) -> libc::c_int {
    limited(
        resource,
        next!(setrlimit(resource: libc::c_uint, limit: *const libc::rlimit) -> libc::c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setrlimit64(
    resource: libc::c_uint,
    limit: *const libc::rlimit,
) -> libc::c_int {
    limited(
        resource,
        next!(setrlimit64(resource: libc::c_uint, limit: *const libc::rlimit) -> libc::c_int),
    )
}

/// After a change of limits.
fn limited(resource: libc::c_uint, result: libc::c_int) -> libc::c_int {
    if result == 0 && resource == libc::RLIMIT_NOFILE && !process::is_borrowed() {
        quietly(process::limit_changed);
    }
    result
}

/// Whether there are connections that a program could take along, or that may lie in messages for it.
fn knows() -> bool {
    let mut any = false;
    socket::table::each(|_, description| any |= description.object().stream().is_some());
    any || socket::queued::is_any()
}

/// The program is about to become another one, which finds its connections anew; if it does not, they stay.
fn exec(foreign: bool, call: impl FnOnce() -> c_int) -> c_int {
    let taken = quietly(|| {
        if knows() {
            hand_over::to_exec(foreign);
        }
        fork::leave_for_exec()
    });
    let result = call();
    quietly(|| {
        fork::stay(&taken);
        drop(taken);
    });
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: as execve(2).
    let foreign = quietly(|| knows() && unsafe { elsewhere::is_foreign(path, environment) });
    exec(
        foreign,
        || next!(execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execv(
    path: *const c_char,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: as execv(3).
    let foreign = quietly(|| knows() && unsafe { elsewhere::is_foreign(path, elsewhere::own()) });
    exec(
        foreign,
        || next!(execv(path: *const c_char, arguments: *const *const c_char) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvp(
    file: *const c_char,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: as execvp(3).
    let foreign =
        quietly(|| knows() && unsafe { elsewhere::is_foreign_file(file, elsewhere::own()) });
    exec(
        foreign,
        || next!(execvp(file: *const c_char, arguments: *const *const c_char) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: as execvpe(3).
    let foreign = quietly(|| knows() && unsafe { elsewhere::is_foreign_file(file, environment) });
    exec(
        foreign,
        || next!(execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int),
    )
}

type SpawnPlan = *const libc::c_void;

/// posix_spawn and its like: the child is another program from its first breath on.
fn spawn(foreign: bool, call: impl FnOnce() -> c_int) -> c_int {
    let taken = quietly(|| {
        if knows() {
            hand_over::to_spawn(foreign);
        }
        fork::before_spawn()
    });
    let result = call();
    quietly(|| {
        if result != 0 {
            fork::spawn_failed(&taken);
        }
        drop(taken);
    });
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: SpawnPlan,
    attributes: SpawnPlan,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: as posix_spawn(3).
    let foreign = quietly(|| knows() && unsafe { elsewhere::is_foreign(path, environment.cast()) });
    spawn(
        foreign,
        || next!(posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: SpawnPlan, attributes: SpawnPlan, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: SpawnPlan,
    attributes: SpawnPlan,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: as posix_spawnp(3).
    let foreign =
        quietly(|| knows() && unsafe { elsewhere::is_foreign_file(file, environment.cast()) });
    spawn(
        foreign,
        || next!(posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: SpawnPlan, attributes: SpawnPlan, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut libc::c_void,
    fd: c_int,
    new: c_int,
) -> c_int {
    quietly(|| hand_over::plan(fd));
    next!(posix_spawn_file_actions_adddup2(actions: *mut libc::c_void, fd: c_int, new: c_int) -> c_int)
}
