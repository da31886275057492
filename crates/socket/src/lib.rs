// SPDX-License-Identifier: Apache-2.0
//! Sockets over IP-NUMA: TCP streams and UDP datagrams whose data moves through rings in shared memory, decided per
//! connection, with the kernel's sockets for everyone else.
//!
//! Every accelerated socket keeps its kernel socket, the *twin*, under the same number. The program's handshake happens
//! on the twins as always; then both ends learn from the daemon that the connection is accelerated, and data moves through
//! a shared *channel* without system calls. The twin tells the truth about the connection's life and serves as a doorbell
//! for a peer that sleeps in the kernel. A stream's peer may be on another machine: then the channel is a copy of the one
//! there, which the two daemons keep alike through their NICs.
//!
//! The functions here are what `libipnuma_socket.so` calls for the C library's symbols. Each returns `None` when the
//! descriptor is none of ours: then the C library's own function shall run.
//!
//! What it does not do: accelerate datagrams between machines, address families other than IPv4 and IPv6 (between
//! machines: IPv4), or processes in different network namespaces of one daemon; all these go by the kernel. It does not
//! see what the C library does inside of itself or what a program does without it: `FILE` streams opened on a connection,
//! `sendfile` from it, io_uring, and programs that are linked statically (a connection that such a program accepts goes
//! back to the kernel). A connection on which a byte is sent out of band, or an option is set that only the kernel can
//! follow, goes back to the kernel, too.

pub mod address;
mod along;
mod atomics;
pub mod attach;
pub mod avoided;
pub mod calls;
pub mod close;
pub mod connect;
mod cost;
pub mod datagram;
pub mod epoll;
pub mod fork;
pub mod hand_over;
mod holders;
pub mod inherit;
pub mod inside;
mod kernels_own;
pub mod latch;
pub mod listener;
pub mod lost;
pub mod object;
pub mod options;
pub mod pending;
pub mod policy;
pub mod poll;
pub mod private;
pub mod process;
pub mod queued;
pub mod raw;
pub mod ready;
pub mod reasons;
mod receivers;
pub mod select;
pub mod short;
pub mod signals;
pub mod stream;
pub mod table;
pub mod unaligned;
pub mod wait;
