// SPDX-License-Identifier: Apache-2.0
//! When a port stores frames and checks them before they leave (dissertation section 5.1.2.3).

/// Frames of a window of [`Check::Auto`].
pub const CHECK_WINDOW: u32 = 256;

/// When a port stores its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Check {
    /// Cut-through always.
    #[default]
    Never,
    /// By the rate of bad frames in windows of [`CHECK_WINDOW`].
    Auto {
        /// More bad frames than this in a window begin it at once.
        on: u8,
        /// A window with at most this many ends it.
        off: u8,
    },
    /// Always.
    Always,
}

/// What a port remembers of its frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckState {
    storing: bool,
    frames: u32,
    bad: u32,
}

impl CheckState {
    /// Whether the next frame is stored.
    pub fn stores(&self, mode: Check) -> bool {
        match mode {
            Check::Never => false,
            Check::Auto { .. } => self.storing,
            Check::Always => true,
        }
    }

    /// A frame ended; says whether storing begins with it.
    pub fn ended(&mut self, mode: Check, bad: bool) -> bool {
        let Check::Auto { on, off } = mode else {
            *self = Self::default();
            return false;
        };
        self.frames += 1;
        self.bad += u32::from(bad);
        let begins = !self.storing && self.bad > u32::from(on);
        if begins {
            self.storing = true;
        } else if self.frames == CHECK_WINDOW {
            self.storing = self.storing && self.bad > u32::from(off);
        } else {
            return false;
        }
        (self.frames, self.bad) = (0, 0);
        begins
    }
}
