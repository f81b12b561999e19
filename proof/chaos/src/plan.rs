//! What is done to workers and servers, and when: all of it from one seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Random numbers for one purpose out of the seed of a run.
pub fn random(seed: u64, purpose: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose)
}

/// What is done to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToWorker {
    /// Killed with SIGKILL, and another one started in its place.
    Kill,
    /// Stopped with SIGSTOP for so long.
    Stop(Duration),
}

/// What is done to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToServer {
    /// Killed with SIGKILL, and started again after so long.
    Kill(Duration),
    /// Stopped with SIGSTOP for so long.
    Stop(Duration),
    /// Made to forget its scripts.
    FlushScripts,
}

/// What is done to the worker in a place after another pause, for ever. The first is spared: it is to
/// get over what is done to the servers without a restart.
pub fn to_worker(seed: u64, place: u32) -> impl Iterator<Item = (Duration, ToWorker)> {
    let mut random = random(seed, 100 + u64::from(place));
    std::iter::from_fn(move || {
        if place == 0 {
            return None;
        }
        let pause = random.random_range(400..1600);
        let act = match random.random_range(0..5) {
            0..3 => ToWorker::Kill,
            _ => ToWorker::Stop(millis(random.random_range(100..1200))),
        };
        Some((millis(pause), act))
    })
}

/// What is done to the server after another pause, for ever. It is killed first, however short the run.
pub fn to_server(mut random: StdRng) -> impl Iterator<Item = (Duration, ToServer)> {
    let first = (millis(2000), ToServer::Kill(millis(300)));
    let others = std::iter::from_fn(move || {
        let pause = random.random_range(500..2500);
        let act = match random.random_range(0..4) {
            0 => ToServer::Kill(millis(random.random_range(0..700))),
            1 => ToServer::Stop(millis(random.random_range(50..900))),
            _ => ToServer::FlushScripts,
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
        let plan = |seed| to_worker(seed, 1).take(50).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }
}
