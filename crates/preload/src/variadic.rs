// SPDX-License-Identifier: Apache-2.0
//! The C library's functions with any number of arguments, which Rust can only define with a body of its own. On x86-64 alone;
//! elsewhere they are the C library's.
#![cfg(target_arch = "x86_64")]

use std::ffi::{c_char, c_int};

use crate::life::{execv, execve, execvp};

/// The body of a function with any number of arguments behind `$named` ones: makes the list of them that `$function` takes.
macro_rules! variadic {
    ($named:literal, $register:literal, $function:path) => {
        std::arch::naked_asm!(
            // The registers as the calling convention orders them, behind them the list.
            "sub rsp, 216",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            "2:",
            "mov dword ptr [rsp], 8 * {named}",
            "mov dword ptr [rsp + 4], 48",
            "lea rax, [rsp + 224]",
            "mov [rsp + 8], rax",
            "lea rax, [rsp + 32]",
            "mov [rsp + 16], rax",
            concat!("mov ", $register, ", rsp"),
            "call {function}",
            "add rsp, 216",
            "ret",
            named = const $named,
            function = sym $function,
        )
    };
}

pub(crate) use variadic;

/// A list of arguments as the calling convention lays it out.
#[repr(C)]
pub struct List {
    general: u32,
    floating: u32,
    rest: *const *const c_char,
    registers: *const u8,
}

/// Bytes of the registers that carry arguments.
const REGISTERS: u32 = 48;

impl List {
    unsafe fn next(&mut self) -> *const c_char {
        // SAFETY: the caller knows that there is one more, which is a pointer.
        unsafe {
            if self.general < REGISTERS {
                let at = self.registers.add(self.general as usize);
                self.general += 8;
                return at.cast::<*const c_char>().read();
            }
            let at = self.rest;
            self.rest = at.add(1);
            at.read()
        }
    }

    /// The arguments up to the null that ends them, which is included.
    unsafe fn texts(&mut self, first: *const c_char) -> Vec<*const c_char> {
        let mut all = vec![first];
        while all.last().is_some_and(|last| !last.is_null()) {
            // SAFETY: null comes yet.
            all.push(unsafe { self.next() });
        }
        all
    }
}

unsafe extern "C" fn list(path: *const c_char, first: *const c_char, rest: *mut List) -> c_int {
    // SAFETY: as execl(3).
    unsafe { execv(path, (*rest).texts(first).as_ptr()) }
}

unsafe extern "C" fn list_p(file: *const c_char, first: *const c_char, rest: *mut List) -> c_int {
    // SAFETY: as execlp(3).
    unsafe { execvp(file, (*rest).texts(first).as_ptr()) }
}

unsafe extern "C" fn list_e(path: *const c_char, first: *const c_char, rest: *mut List) -> c_int {
    // SAFETY: as execle(3): the environment comes behind the null.
    unsafe {
        let texts = (*rest).texts(first);
        let environment = (*rest).next().cast();
        execve(path, texts.as_ptr(), environment)
    }
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execl() -> c_int {
    variadic!(2, "rdx", list)
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execlp() -> c_int {
    variadic!(2, "rdx", list_p)
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execle() -> c_int {
    variadic!(2, "rdx", list_e)
}
