// SPDX-License-Identifier: Apache-2.0
//! What other machines' daemons say: frames with a length in front, on a stream.
#![no_main]

use std::io::Cursor;

use daemon::remote::messages::{decode, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = decode(data);
    let mut stream = Cursor::new(data);
    // Every frame takes four bytes at least, so this ends.
    while let Ok(Some(message)) = read(&mut stream) {
        let mut bytes = Vec::new();
        write(&mut bytes, &message).expect("what was read can be written");
        let again = read(&mut Cursor::new(&bytes[..])).expect("what was written can be read");
        assert_eq!(format!("{again:?}"), format!("{:?}", Some(message)));
    }
});
