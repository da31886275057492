// SPDX-License-Identifier: Apache-2.0
//! The program that picks frames out for the socket, by the bpf system call: it is short enough to be written by hand.

use std::io;
use std::mem::size_of;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use wire::UDP_PORT;

// Commands, types and flags of linux/bpf.h and linux/if_link.h.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;

/// Queues that a device may have.
const QUEUES: u32 = 64;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// One instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The instruction `code` with destination and source registers.
const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers: from << 4 | to,
        offset,
        immediate,
    }
}

/// Hands IPv4 UDP frames to port 3422 of `address` to the socket of their queue in `map`, and passes all others on.
fn program(map: RawFd, address: Ipv4Addr) -> Vec<Instruction> {
    // Loads give numbers in the order of this machine.
    let ethertype = i32::from(u16::from_ne_bytes([0x08, 0x00]));
    let port = i32::from(u16::from_ne_bytes(UDP_PORT.to_be_bytes()));
    let address = i32::from_ne_bytes(address.octets());
    const LOAD_BYTE: u8 = 0x71;
    const LOAD_HALF: u8 = 0x69;
    const LOAD_WORD: u8 = 0x61;
    const UNLESS: u8 = 0x55;
    const UNLESS_WORD: u8 = 0x56;
    let mut code = vec![
        instruction(0xBF, 6, 1, 0, 0),       // r6 = context
        instruction(LOAD_WORD, 2, 1, 0, 0),  // r2 = data
        instruction(LOAD_WORD, 3, 1, 4, 0),  // r3 = end of data
        instruction(0xBF, 4, 2, 0, 0),       // r4 = r2
        instruction(0x07, 4, 0, 0, 42),      // r4 += headers
        instruction(0x2D, 4, 3, 0, 0),       // longer than the frame: pass
        instruction(LOAD_HALF, 5, 2, 12, 0), // EtherType
        instruction(UNLESS, 5, 0, 0, ethertype),
        instruction(LOAD_BYTE, 5, 2, 14, 0), // version, header length
        instruction(UNLESS, 5, 0, 0, 0x45),
        instruction(LOAD_BYTE, 5, 2, 23, 0), // protocol
        instruction(UNLESS, 5, 0, 0, 17),
        instruction(LOAD_WORD, 5, 2, 30, 0), // destination address
        instruction(UNLESS_WORD, 5, 0, 0, address),
        instruction(LOAD_HALF, 5, 2, 36, 0), // destination port
        instruction(UNLESS, 5, 0, 0, port),
        instruction(LOAD_WORD, 2, 6, 16, 0), // r2 = queue
        instruction(0x18, 1, 1, 0, map),     // r1 = map, in two instructions
        instruction(0, 0, 0, 0, 0),
        instruction(0xB7, 3, 0, 0, 2), // r3 = XDP_PASS, if no socket is there
        instruction(0x85, 0, 0, 0, 51), // redirect_map(r1, r2, r3)
        instruction(0x95, 0, 0, 0, 0), // return
        instruction(0xB7, 0, 0, 0, 2), // pass:
        instruction(0x95, 0, 0, 0, 0),
    ];
    let pass = code.len() - 2;
    for (at, step) in code.iter_mut().enumerate() {
        if matches!(step.code, 0x2D | UNLESS | UNLESS_WORD) {
            step.offset = (pass - at - 1) as i16;
        }
    }
    code
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads as many bytes as it is told there are, and what the attributes point to lives in the
    // callers, who wait for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)? as RawFd;
    // SAFETY: a new descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The program on its device, for as long as this lives.
pub struct Redirect {
    _link: OwnedFd,
    _map: OwnedFd,
}

impl Redirect {
    /// Attaches it.
    pub fn attach(
        device: u32,
        queue: u32,
        socket: &OwnedFd,
        address: Ipv4Addr,
    ) -> io::Result<Self> {
        let map = bpf_fd(
            BPF_MAP_CREATE,
            &MapCreate {
                map_type: BPF_MAP_TYPE_XSKMAP,
                key_size: 4,
                value_size: 4,
                max_entries: QUEUES,
                map_flags: 0,
            },
        )?;
        let value = socket.as_raw_fd();
        bpf(
            BPF_MAP_UPDATE_ELEM,
            &MapUpdate {
                map_fd: map.as_raw_fd() as u32,
                key: &raw const queue as u64,
                value: &raw const value as u64,
                ..MapUpdate::default()
            },
        )?;
        let code = program(map.as_raw_fd(), address);
        let license = c"Apache-2.0";
        let program = bpf_fd(
            BPF_PROG_LOAD,
            &ProgramLoad {
                prog_type: BPF_PROG_TYPE_XDP,
                insn_cnt: code.len() as u32,
                insns: code.as_ptr() as u64,
                license: license.as_ptr() as u64,
                ..ProgramLoad::default()
            },
        )?;
        let link = bpf_fd(
            BPF_LINK_CREATE,
            &LinkCreate {
                prog_fd: program.as_raw_fd() as u32,
                target_ifindex: device,
                attach_type: BPF_XDP,
                flags: XDP_FLAGS_SKB_MODE,
            },
        )?;
        Ok(Self {
            _link: link,
            _map: map,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jumps_lead_to_the_end() {
        let code = program(7, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(size_of::<Instruction>(), 8);
        let mut jumps = 0;
        for (at, step) in code.iter().enumerate() {
            if matches!(step.code, 0x2D | 0x55 | 0x56) {
                let target = code[at + 1 + step.offset as usize];
                assert_eq!(target, instruction(0xB7, 0, 0, 0, 2), "jump at {at}");
                jumps += 1;
            }
        }
        assert_eq!(jumps, 6);
        assert_eq!(code.last(), Some(&instruction(0x95, 0, 0, 0, 0)));
    }
}
