// SPDX-License-Identifier: Apache-2.0
//! Tokens: no bytes make the parser fail other than with an error, and what it takes comes out as it went in.
#![no_main]

use ipc::Token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    check(&bytes);
    // Nobody guesses a check sum: the same with a right one.
    if bytes.len() == 64 {
        bytes[..5].copy_from_slice(b"IPNT\x01");
        let sum = wire::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        check(&bytes);
    }
});

fn check(bytes: &[u8]) {
    if let Ok(token) = Token::parse(bytes) {
        assert_eq!(token.to_bytes(), bytes, "one token has one form");
        assert!(token.bytes > 0 && token.first.checked_add(token.bytes).is_some());
        assert!(
            !format!("{token:?}").contains("secret"),
            "secrets are not printed"
        );
    }
}
