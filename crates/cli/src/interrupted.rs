// SPDX-License-Identifier: Apache-2.0
//! A run that a signal ends leaves nothing behind.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Removes the directories of this process's guests where a signal ends it, which else it ends as ever.
pub fn tidies_up() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            rack::scratch::remove_all();
            let _ = emulate_default_handler(signal);
        }
    });
}
