// SPDX-License-Identifier: Apache-2.0
//! Addresses as programs hand them to socket calls.
#![no_main]

use libfuzzer_sys::fuzz_target;
use socket::address;

fuzz_target!(|data: &[u8]| {
    if let Some(parsed) = address::parse(data) {
        let to = address::destination(parsed);
        assert_eq!(to.port(), parsed.port());
        assert!(!to.ip().is_unspecified(), "nothing is sent to the wildcard");
    }
});
