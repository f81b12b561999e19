//! Random numbers, the time of day, and whether there are timers. In this crate's tests the `simulation` replaces the first two, so that a
//! seed repeats a run.

use std::cell::{Cell, RefCell};
use std::panic;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::TryRng as _;
use rand::rngs::SysRng;
use tokio::runtime::Handle;

#[cfg(test)]
use crate::simulation::source as simulated;

/// 128 random bits from the operating system, in a third of a microsecond.
///
/// A generator in this process would be copied by `fork()` or by a snapshot of a virtual machine, and the copies would make the
/// same owners and tokens.
pub fn random_bits() -> u128 {
    #[cfg(test)]
    if let Some(bits) = simulated::random_bits() {
        return bits;
    }
    let mut bits = [0; 16];
    draw(&mut bits);
    u128::from_ne_bytes(bits)
}

/// Whether the current tokio runtime has timers. True outside of a runtime, where no timer is needed.
///
/// tokio answers only with a panic, so its message is printed once more.
pub(crate) fn has_timers() -> bool {
    Handle::try_current().is_err()
        || panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

fn draw(bits: &mut [u8]) {
    // Every program needs this generator, for example for a `HashMap`.
    SysRng
        .try_fill_bytes(bits)
        .expect("the operating system has a generator");
}

/// 128 random bits for the owner of a record that names `moment`.
///
/// A thread draws the bits of up to 32 owners at once, because the operating system takes longer to answer than to draw. Only
/// the process that drew them uses them, and only for a millisecond. So `fork()` makes no equal owners. Two copies of a virtual
/// machine can make equal records only within the same millisecond, right after the snapshot, because a record contains its
/// millisecond.
pub(crate) fn owner_bits(moment: Moment) -> u128 {
    thread_local! {
        static BATCH: RefCell<DrawnBits> = const { RefCell::new(DrawnBits::EMPTY) };
    }
    #[cfg(test)]
    if let Some(bits) = simulated::random_bits() {
        return bits;
    }
    BATCH.with_borrow_mut(|batch| batch.next(moment, draw))
}

/// Random bits that are drawn in advance.
struct DrawnBits {
    drawn: Moment,
    used: usize,
    size: usize,
    bits: [[u8; 16]; LARGEST_BATCH],
}

impl DrawnBits {
    const EMPTY: Self = Self {
        drawn: Moment {
            since_1970: Duration::ZERO,
            process: 0,
        },
        used: 0,
        size: 0,
        bits: [[0; 16]; LARGEST_BATCH],
    };

    fn next(&mut self, now: Moment, draw: impl FnOnce(&mut [u8])) -> u128 {
        // `None` if the clock was set back.
        let age = now.since_1970.checked_sub(self.drawn.since_1970);
        let is_valid =
            now.process == self.drawn.process && age.is_some_and(|age| age <= LIFE_OF_BATCH);
        if !is_valid || self.used == self.size {
            // Grows only while owners are needed faster than they expire, so that a rare call draws only its own bits. After a batch has
            // expired, the next batch has half as many owners as were used of it.
            let size = if is_valid {
                2 * self.size
            } else {
                self.used / 2
            };
            self.size = size.clamp(1, LARGEST_BATCH);
            draw(self.bits[..self.size].as_flattened_mut());
            self.drawn = now;
            self.used = 0;
        }
        let bits = self.bits[self.used];
        self.used += 1;
        u128::from_ne_bytes(bits)
    }
}

const LARGEST_BATCH: usize = 32;
const LIFE_OF_BATCH: Duration = Duration::from_millis(1);

/// When and by which process a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) since_1970: Duration,
    pub(crate) process: u32,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self::at(time_of_day())
    }

    /// As [`now`](Self::now), for a record that never leaves the memory of this process. It asks for the process id once a second.
    ///
    /// Until then a process that was forked has the id of its parent. Their records may be equal, but are never compared.
    pub(crate) fn now_in_memory() -> Self {
        thread_local! {
            /// The id of this process, and the second in which it was read.
            static PROCESS: Cell<(u64, u32)> = const { Cell::new((u64::MAX, 0)) };
        }
        let since_1970 = since_1970(time_of_day());
        let (second, mut process) = PROCESS.get();
        if second != since_1970.as_secs() {
            process = self::process();
            PROCESS.set((since_1970.as_secs(), process));
        }
        Self {
            since_1970,
            process,
        }
    }

    /// The time now, and the process that was read before.
    pub(crate) fn now_of(process: u32) -> Self {
        Self {
            since_1970: since_1970(time_of_day()),
            process,
        }
    }

    /// This time, in this process.
    pub(crate) fn at(time: SystemTime) -> Self {
        Self {
            since_1970: since_1970(time),
            process: process(),
        }
    }
}

/// A time before 1970 counts as 1970.
fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The id of this process. It is read each time, because `fork()` changes it.
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// A random factor from 1 to 1.5, to spread pauses that would be equal.
pub fn jitter() -> f64 {
    #[cfg(test)]
    if let Some(jitter) = simulated::jitter() {
        return jitter;
    }
    rand::random_range(1.0..1.5)
}

/// The time of this machine's clock.
pub fn time_of_day() -> SystemTime {
    #[cfg(test)]
    if let Some(time) = simulated::time_of_day() {
        return time;
    }
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment {
        since_1970: Duration::from_mins(29_920_890),
        process: 42,
    };

    fn after(micros: u64) -> Moment {
        Moment {
            since_1970: START.since_1970 + Duration::from_micros(micros),
            ..START
        }
    }

    /// A generator that writes its number of draws into all bits.
    #[derive(Default)]
    struct Draws(Vec<usize>);

    impl Draws {
        fn next(&mut self, batch: &mut DrawnBits, now: Moment) -> u128 {
            batch.next(now, |bits| {
                self.0.push(bits.len() / 16);
                for (index, owner) in bits.chunks_exact_mut(16).enumerate() {
                    let number = (self.0.len() * 1000 + index) as u128;
                    owner.copy_from_slice(&number.to_ne_bytes());
                }
            })
        }
    }

    #[test]
    fn a_busy_thread_draws_more_owners_at_once() {
        let (mut batch, mut draws) = (DrawnBits::EMPTY, Draws::default());
        let owners = (0..200).map(|call| draws.next(&mut batch, after(call)));
        let owners: std::collections::HashSet<_> = owners.collect();
        assert_eq!(owners.len(), 200, "each owner is used once");
        assert_eq!(draws.0, [1, 2, 4, 8, 16, 32, 32, 32, 32, 32, 32]);
    }

    #[test]
    fn a_rare_call_draws_only_its_own_bits() {
        let (mut batch, mut draws) = (DrawnBits::EMPTY, Draws::default());
        for call in 0..5 {
            draws.next(&mut batch, after(1001 * call));
        }
        assert_eq!(draws.0, [1; 5]);
    }

    #[test]
    fn drawn_owners_expire_after_a_millisecond() {
        let (mut batch, mut draws) = (DrawnBits::EMPTY, Draws::default());
        for call in [0, 1, 2, 3] {
            draws.next(&mut batch, after(call));
        }
        assert_eq!((batch.used, batch.size), (1, 4));
        draws.next(&mut batch, after(1003));
        assert_eq!(draws.0.len(), 3, "the bits are a millisecond old");
        draws.next(&mut batch, after(1004));
        assert_eq!(draws.0, [1, 2, 4, 1]);
    }

    #[test]
    fn a_copy_of_the_process_draws_its_own_owners() {
        let (mut batch, mut draws) = (DrawnBits::EMPTY, Draws::default());
        for call in 0..4 {
            draws.next(&mut batch, after(call));
        }
        let child = Moment {
            process: 43,
            ..after(4)
        };
        draws.next(&mut batch, child);
        assert_eq!(draws.0, [1, 2, 4, 1]);
    }

    #[test]
    fn a_clock_that_is_set_back_draws_new_owners() {
        let (mut batch, mut draws) = (DrawnBits::EMPTY, Draws::default());
        for call in 10..14 {
            draws.next(&mut batch, after(call));
        }
        draws.next(&mut batch, after(9));
        assert_eq!(draws.0, [1, 2, 4, 1]);
    }

    #[test]
    fn owners_of_this_thread_differ() {
        let owners = (0..1000).map(|_| owner_bits(Moment::now()));
        let owners: std::collections::HashSet<_> = owners.collect();
        assert_eq!(owners.len(), 1000);
    }
}
