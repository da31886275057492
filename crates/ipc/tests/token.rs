// SPDX-License-Identifier: Apache-2.0
//! Tokens: every one survives the way, and nothing else is taken for one.

use std::net::{Ipv4Addr, SocketAddrV4};

use ipc::token::{BYTES, Rights, Token, TokenError};
use proptest::prelude::*;

fn token() -> impl Strategy<Value = Token> {
    (
        1..4u8,
        any::<[u8; 4]>(),
        any::<u16>(),
        any::<u64>(),
        any::<u64>(),
        1..u64::MAX,
        any::<[u8; 16]>(),
    )
        .prop_map(
            |(rights, address, port, region, first, bytes, secret)| Token {
                rights: Rights::from_bits(rights).expect("1, 2 and 3 are rights"),
                management: SocketAddrV4::new(Ipv4Addr::from(address), port),
                region,
                first: first.min(u64::MAX - bytes),
                bytes,
                secret,
            },
        )
}

proptest! {
    #[test]
    fn round_trip(token in token()) {
        prop_assert_eq!(Token::parse(&token.to_bytes()), Ok(token));
        let packet = ipc::protocol::encode(&token).expect("a token fits");
        prop_assert_eq!(ipc::protocol::decode::<Token>(&packet).ok(), Some(token));
    }

    #[test]
    fn damage_is_seen(token in token(), at in 0..BYTES, bit in 0..8u8) {
        let mut bytes = token.to_bytes();
        bytes[at] ^= 1u8 << bit;
        prop_assert!(Token::parse(&bytes).is_err());
    }

    #[test]
    fn anything_can_be_parsed(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
        let _ = Token::parse(&bytes);
    }

    /// Also what has a right check sum.
    #[test]
    fn what_parses_is_canonical(mut bytes in any::<[[u8; 32]; 2]>().prop_map(|halves| halves.concat()), tame in any::<bool>()) {
        bytes[..5].copy_from_slice(b"IPNT\x01");
        if tame {
            bytes[5] &= 3;
            for at in [6, 7, 14, 15, 56, 57, 58, 59] {
                bytes[at] = 0;
            }
        }
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        if let Ok(token) = Token::parse(&bytes) {
            prop_assert_eq!(&token.to_bytes()[..], &bytes[..]);
        }
    }
}

fn plain() -> Token {
    Token {
        rights: Rights::Read,
        management: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        region: 1,
        first: 0,
        bytes: 64,
        secret: [9; 16],
    }
}

/// A token of which some bytes are others, with the check sum of what it is now.
fn changed(changes: &[(usize, u8)]) -> [u8; BYTES] {
    let mut bytes = plain().to_bytes();
    for (at, value) in changes {
        bytes[*at] = *value;
    }
    let sum = crc32c::crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn every_fault_has_its_error() {
    let parsed = |at: usize, value: u8| Token::parse(&changed(&[(at, value)]));
    assert_eq!(Token::parse(&[0; 63]), Err(TokenError::Length(63)));
    assert_eq!(parsed(0, b'X'), Err(TokenError::Magic));
    assert_eq!(parsed(4, 2), Err(TokenError::Version(2)));
    assert_eq!(parsed(5, 4), Err(TokenError::Rights(4)));
    assert_eq!(parsed(57, 1), Err(TokenError::Reserved(57)));
    assert_eq!(parsed(32, 0), Err(TokenError::Range { first: 0, bytes: 0 }));
    let mut bytes = plain().to_bytes();
    bytes[60] ^= 1;
    assert_eq!(Token::parse(&bytes), Err(TokenError::Checksum));
    let shown = format!("{:?}", plain());
    assert!(!shown.contains('9'), "the secret is shown");
}

/// One sentence: what is wrong, and behind the semicolon what would help.
#[test]
fn every_fault_has_its_sentence_and_its_remedy() {
    let token = plain().to_bytes();
    let damaged = |at: usize| {
        let mut bytes = token;
        bytes[at] ^= 0x20;
        bytes.to_vec()
    };
    let highest: Vec<_> = (24..40).map(|at| (at, 0xFF)).collect();
    let cases = [
        (Vec::new(), "it has 0 bytes instead of 64", "pass on all"),
        (token[..63].to_vec(), "it has 63 bytes", "pass on all"),
        (
            [&token[..], b"\n"].concat(),
            "it has 65 bytes",
            "nothing else",
        ),
        (
            [&token[..], &token].concat(),
            "it has 128 bytes",
            "nothing else",
        ),
        (damaged(0), "begin with IPNT", "pass on the bytes"),
        (b"IPNt".repeat(16), "begin with IPNT", "pass on the bytes"),
        (damaged(17), "check sum is wrong", "fetch it again"),
        (damaged(40), "check sum is wrong", "fetch it again"),
        (damaged(63), "check sum is wrong", "fetch it again"),
        (changed(&[(4, 0)]).to_vec(), "version 0", "install the same"),
        (changed(&[(4, 2)]).to_vec(), "version 2", "install the same"),
        (changed(&[(5, 0)]).to_vec(), "rights are 0", "exported anew"),
        (changed(&[(5, 7)]).to_vec(), "rights are 7", "exported anew"),
        (changed(&[(59, 1)]).to_vec(), "byte 59", "exported anew"),
        (
            changed(&[(32, 0)]).to_vec(),
            "0 bytes from 0",
            "exported anew",
        ),
        (
            changed(&highest).to_vec(),
            "does not exist",
            "exported anew",
        ),
    ];
    for (bytes, what, remedy) in cases {
        let error = Token::parse(&bytes).expect_err(what);
        let said = error.to_string();
        let (fault, help) = said.split_once("; ").unwrap_or((&said, ""));
        assert!(fault.contains(what), "want {what:?} in {said:?}");
        assert!(help.contains(remedy), "want {remedy:?} in {said:?}");
        assert!(!said.contains('\n'), "{said:?}");
    }
}
