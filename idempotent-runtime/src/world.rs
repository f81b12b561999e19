//! What the protocol takes from the world around it: chance, and the time of day.
//!
//! In this crate's own tests a `simulation` puts its own in their place, so that a run can be
//! repeated from its seed.

use std::time::SystemTime;

use rand::TryRng as _;
use rand::rngs::SysRng;

#[cfg(test)]
use crate::simulation::source as simulated;

/// 128 bits of the operating system's generator.
///
/// A generator in this process would be copied with it, by `fork()` or by a snapshot of a virtual machine, and the copies
/// would make the same owners and tokens. This one costs a third of a microsecond.
pub(crate) fn random_bits() -> u128 {
    #[cfg(test)]
    if let Some(bits) = simulated::random_bits() {
        return bits;
    }
    let mut bits = [0; 16];
    // Every program needs it, a `HashMap` for one: a system without it runs none.
    SysRng
        .try_fill_bytes(&mut bits)
        .expect("the operating system has a generator");
    u128::from_ne_bytes(bits)
}

/// This process, asked for each time: after a `fork()` it is another.
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// A factor from 1 to 1.5, by which pauses differ that were to be equal.
pub(crate) fn jitter() -> f64 {
    #[cfg(test)]
    if let Some(jitter) = simulated::jitter() {
        return jitter;
    }
    rand::random_range(1.0..1.5)
}

/// What this machine's clock says.
pub(crate) fn time_of_day() -> SystemTime {
    #[cfg(test)]
    if let Some(time) = simulated::time_of_day() {
        return time;
    }
    SystemTime::now()
}

/// Whether a mutant variant of the protocol runs, as it does only for the simulation, whose checks must see it.
macro_rules! mutant {
    ($variant:ident) => {{
        #[cfg(test)]
        let mutant = $crate::simulation::source::is($crate::simulation::Mutant::$variant);
        #[cfg(not(test))]
        let mutant = false;
        mutant
    }};
}

pub(crate) use mutant;
