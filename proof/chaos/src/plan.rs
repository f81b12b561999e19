//! The faults of workers and servers and their times, all from one seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Random numbers for one purpose, from the seed of a run.
pub fn random(seed: u64, purpose: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose)
}

/// A fault of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerFault {
    /// The worker is killed with SIGKILL, and another worker replaces it.
    Kill,
    /// It is paused with SIGSTOP for this time.
    Stop(Duration),
}

/// A fault of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerFault {
    /// It is killed with SIGKILL, and started again after this time.
    Kill(Duration),
    /// It is paused with SIGSTOP for this time.
    Stop(Duration),
    /// It closes the connections of its clients.
    CutClients,
    /// Its scripts are flushed.
    FlushScripts,
}

/// The endless faults of the worker in a slot, each with the pause before it. The worker in slot 0 gets no
/// faults, because it must survive the faults of the servers without a restart.
pub fn worker_faults(seed: u64, place: u32) -> impl Iterator<Item = (Duration, WorkerFault)> {
    let mut random = random(seed, 100 + u64::from(place));
    std::iter::from_fn(move || {
        if place == 0 {
            return None;
        }
        let pause = random.random_range(400..1600);
        let act = match random.random_range(0..5) {
            0..3 => WorkerFault::Kill,
            _ => WorkerFault::Stop(millis(random.random_range(100..1200))),
        };
        Some((millis(pause), act))
    })
}

/// The endless faults of the servers, each with the pause before it. The first fault is a kill, even in a
/// short run.
pub fn server_faults(mut random: StdRng) -> impl Iterator<Item = (Duration, ServerFault)> {
    let first = (millis(2000), ServerFault::Kill(millis(300)));
    let others = std::iter::from_fn(move || {
        let pause = random.random_range(500..2500);
        let act = match random.random_range(0..5) {
            0 => ServerFault::Kill(millis(random.random_range(0..700))),
            1 => ServerFault::Stop(millis(random.random_range(50..900))),
            2 => ServerFault::CutClients,
            _ => ServerFault::FlushScripts,
        };
        Some((millis(pause), act))
    });
    std::iter::once(first).chain(others)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_plan_again() {
        let plan = |seed| worker_faults(seed, 1).take(50).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }
}
