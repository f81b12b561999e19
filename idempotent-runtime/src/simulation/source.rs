//! The random numbers and the time of day of a simulated run, for the engine on this thread.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Mutant;
use super::dice::Dice;
use super::history::CallId;
use crate::mutation;

/// The call that is being polled, and its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Polled {
    pub(super) process: usize,
    pub(super) call: CallId,
}

struct Source {
    dice: Dice,
    began: Instant,
    /// The owners made so far, and the calls that made them.
    owners: Vec<(u128, CallId)>,
    /// How many milliseconds the clock of each process is ahead.
    ahead: Vec<u64>,
}

thread_local! {
    static SOURCE: RefCell<Option<Source>> = const { RefCell::new(None) };
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
    static POLLED: Cell<Option<Polled>> = const { Cell::new(None) };
}

/// Ends the simulation on this thread when it is dropped.
pub(crate) struct Simulated(());

/// Starts a run on this thread.
pub(super) fn begin(dice: Dice, ahead: Vec<u64>, mutant: Option<Mutant>) -> Simulated {
    MUTANT.set(mutant);
    mutation::make(match mutant {
        Some(Mutant::InEngine(mistake)) => Some(mistake),
        _ => None,
    });
    SOURCE.set(Some(Source {
        dice,
        began: Instant::now(),
        owners: Vec::new(),
        ahead,
    }));
    Simulated(())
}

/// Makes the time of day on this thread follow tokio's clock, ahead of the start of all runs by `ahead`.
#[cfg(feature = "order-numbers")]
pub(crate) fn clock_ahead(ahead: Duration) -> Simulated {
    let ahead = u64::try_from(ahead.as_millis()).expect("the time fits into 64 bits");
    begin(Dice::new(rand::random(), 0), vec![ahead], None)
}

impl Drop for Simulated {
    fn drop(&mut self) {
        SOURCE.set(None);
        MUTANT.set(None);
        mutation::make(None);
    }
}

/// Runs `poll` on behalf of a call, or of no call.
pub(super) fn as_polled<R>(polled: Option<Polled>, poll: impl FnOnce() -> R) -> R {
    struct Before(Option<Polled>);
    impl Drop for Before {
        fn drop(&mut self) {
            POLLED.set(self.0);
        }
    }
    let _before = Before(POLLED.replace(polled));
    poll()
}

pub(super) fn polled() -> Option<Polled> {
    POLLED.get()
}

/// The call that made an owner.
pub(super) fn made_by(owner: u128) -> Option<CallId> {
    SOURCE.with_borrow(|source| {
        let owners = source.as_ref()?.owners.iter();
        owners
            .rev()
            .find(|known| known.0 == owner)
            .map(|known| known.1)
    })
}

pub(crate) fn runs_mutant(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

pub(crate) fn random_bits() -> Option<u128> {
    SOURCE.with_borrow_mut(|source| {
        let source = source.as_mut()?;
        let bits = match polled() {
            Some(polled) if runs_mutant(Mutant::OwnerOfProcess) => polled.process as u128,
            _ => u128::from(source.dice.bits()) << 64 | u128::from(source.dice.bits()),
        };
        if let Some(polled) = polled() {
            source.owners.push((bits, polled.call));
        }
        Some(bits)
    })
}

pub(crate) fn jitter() -> Option<f64> {
    SOURCE.with_borrow_mut(|source| {
        let permille = source.as_mut()?.dice.within(1000, 1499);
        Some(Duration::from_millis(permille).as_secs_f64())
    })
}

pub(crate) fn time_of_day() -> Option<SystemTime> {
    SOURCE.with_borrow(|source| {
        let source = source.as_ref()?;
        let process = polled().map_or(0, |polled| polled.process);
        let ahead = source.ahead.get(process).copied().unwrap_or_default();
        let since = if runs_mutant(Mutant::OwnerOfProcess) {
            Duration::ZERO
        } else {
            source.began.elapsed()
        };
        Some(SystemTime::UNIX_EPOCH + EPOCH + Duration::from_millis(ahead) + since)
    })
}

/// The time of day at which all runs begin.
const EPOCH: Duration = Duration::from_mins(29_920_890);
