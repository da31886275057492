// SPDX-License-Identifier: Apache-2.0
//! A daemon and nothing else: `cargo run -p daemon --example bare -- SOCKET [--trace]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut options = daemon::Options::default();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--trace" => options.trace = true,
            path => options.socket = path.into(),
        }
    }
    daemon::raise_descriptor_limit();
    let served = daemon::Server::new(options).and_then(|mut server| {
        println!("ready at {}", server.socket().display());
        server.run()
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
