// SPDX-License-Identifier: Apache-2.0
//! How many ICMP errors may leave (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f), and how many
//! new neighbours may be asked for (RFC 6583).

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    tokens: u32,
    /// When the next token comes.
    since: u64,
}

impl Limit {
    pub fn new(burst: u32) -> Self {
        Self {
            tokens: burst,
            since: 0,
        }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: u64, interval: u64, burst: u32) -> bool {
        let interval = interval.max(1);
        let earned = now.saturating_sub(self.since) / interval;
        if u64::from(self.tokens) + earned >= u64::from(burst) {
            self.tokens = burst;
            self.since = self.since.max(now);
        } else {
            self.tokens += earned as u32;
            self.since += earned * interval;
        }
        let left = self.tokens.checked_sub(1);
        self.tokens = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Limit;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut limit = Limit::new(3);
        let mut at = |now| limit.take(now, 10, 3);
        assert_eq!(
            [at(0), at(0), at(0), at(0), at(9)],
            [true, true, true, false, false]
        );
        assert_eq!([at(10), at(10), at(19), at(20)], [true, false, false, true]);
        assert_eq!(
            [at(1000), at(1000), at(1000), at(1000)],
            [true, true, true, false]
        );
        // Time that goes back earns nothing.
        assert!(!at(5));
    }
}
