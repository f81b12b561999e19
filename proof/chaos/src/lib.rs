//! Chaos: several processes work on real servers that are killed, paused and cut off. Then a check reads
//! the histories of the processes.
//!
//! A [`run`](run::run) starts servers and workers, applies the faults of a seeded [`plan`], and gives the
//! histories to the [`check`](check::check). The workers use the crate like its users: functions with the
//! attribute, on a `RedisStore` or a `MySqlStore`.

pub mod broken;
pub mod check;
mod child;
mod database;
pub mod history;
pub mod http;
mod leader;
pub mod outcome;
pub mod plan;
mod probe;
pub mod proxy;
pub mod run;
pub mod servers;
mod stalls;
pub mod stored;
pub mod worker;
