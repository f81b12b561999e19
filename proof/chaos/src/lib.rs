//! Chaos: several processes on real servers that are killed, paused and cut off, and a check of
//! what they did.
//!
//! A [`run`](run::run) starts servers and workers, lets a seeded [`plan`] loose on them, and hands
//! what they wrote down to the [`check`](check::check). The workers are users of the crate: functions
//! with the attribute, on a `RedisStore`.

pub mod broken;
pub mod check;
pub mod history;
pub mod plan;
pub mod proxy;
pub mod run;
pub mod servers;
pub mod standing;
pub mod worker;
