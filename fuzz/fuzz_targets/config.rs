// SPDX-License-Identifier: Apache-2.0
//! Configuration files and variables: an error is a sentence, and what is taken can be asked.
#![no_main]

use host::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Config::parse(text, "the file") {
        Ok(config) => {
            for port in [0, 80, 11211, u16::MAX] {
                let _ = config.socket.accelerates(port);
            }
            if let Some(pcie) = &config.pcie {
                let _ = (pcie.check(), pcie.netmask());
            }
        }
        Err(error) => assert!(error.to_string().starts_with("the file: "), "{error}"),
    }
    for name in [
        "IPNUMA_BACKEND",
        "IPNUMA_SPIN_US",
        "IPNUMA_PORTS",
        "IPNUMA_TRACE",
        "IPNUMA_SOCKET",
        "IPNUMA_DAEMON",
    ] {
        let value = |asked: &str| (asked == name).then(|| text.to_owned());
        if let Err(error) = Config::default().with_environment(value) {
            assert!(error.to_string().contains(name), "{error}");
        }
    }
});
