//! Chance and the time of day. In this crate's tests the `simulation` replaces both, so that a seed repeats a run.

use std::time::SystemTime;

use rand::TryRng as _;
use rand::rngs::SysRng;

#[cfg(test)]
use crate::simulation::source as simulated;

/// 128 random bits from the operating system, in a third of a microsecond.
///
/// A generator in this process would be copied by `fork()` or by a snapshot of a virtual machine, and the copies would make the same
/// owners and tokens.
pub(crate) fn random_bits() -> u128 {
    #[cfg(test)]
    if let Some(bits) = simulated::random_bits() {
        return bits;
    }
    let mut bits = [0; 16];
    // Every program needs this generator, for example for a `HashMap`.
    SysRng
        .try_fill_bytes(&mut bits)
        .expect("the operating system has a generator");
    u128::from_ne_bytes(bits)
}

/// The id of this process. It is read each time, because `fork()` changes it.
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// A factor from 1 to 1.5, which spreads pauses that would be equal.
pub(crate) fn jitter() -> f64 {
    #[cfg(test)]
    if let Some(jitter) = simulated::jitter() {
        return jitter;
    }
    rand::random_range(1.0..1.5)
}

/// The time of this machine's clock.
pub(crate) fn time_of_day() -> SystemTime {
    #[cfg(test)]
    if let Some(time) = simulated::time_of_day() {
        return time;
    }
    SystemTime::now()
}

/// Whether this mutant of the protocol runs. Only tests of the simulation run mutants, to prove that its checks catch them.
macro_rules! mutant {
    ($variant:ident) => {{
        #[cfg(test)]
        let mutant = $crate::simulation::source::runs_mutant($crate::simulation::Mutant::$variant);
        #[cfg(not(test))]
        let mutant = false;
        mutant
    }};
}

pub(crate) use mutant;
