// SPDX-License-Identifier: Apache-2.0
//! Packets between processes and their daemon: requests, replies, notices.
#![no_main]

use ipc::protocol::{Notice, Reply, Request, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    macro_rules! check {
        ($($message:ty),*) => {$(
            if let Ok(message) = decode::<$message>(data)
                && let Ok(packet) = encode(&message)
            {
                let again: $message = decode(&packet).expect("what was encoded can be decoded");
                assert_eq!(again, message);
            }
        )*};
    }
    check!(Request, Reply, Notice);
});
