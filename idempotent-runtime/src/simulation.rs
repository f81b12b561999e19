//! The engine itself, in a world that is made up: thousands of runs, each decided by one number.
//!
//! A run has up to three processes (handles) and calls of one or two keys, of every policy, by the attribute's code and
//! by the builder. Its network delays, loses and repeats each request and each reply; its store is away, full, forgets,
//! and has a clock that jumps; its processes crash, pause and start again; its callers drop and freeze calls, and an
//! operator frees keys. Time is tokio's paused clock. Chance comes from the seed alone, that of the engine included
//! ([`world`](crate::world)), so a seed has one history.
//!
//! ```sh
//! cargo test -p idempotent-runtime --lib simulation                                  # 20,000 seeds
//! IDEMPOTENCE_SEEDS=1000000 cargo test -p idempotent-runtime --lib the_engine_holds  # a night's
//! IDEMPOTENCE_SEED=123 cargo test -p idempotent-runtime --lib the_engine_holds       # one, with its history
//! ```
//!
//! | room | has |
//! | --- | --- |
//! | [`knobs`] | what a seed decides |
//! | [`net`], [`way`], [`server`], [`link`] | messages under way and mishaps; one message; the store; the [`Store`](crate::Store) of a process |
//! | [`caller`], [`run`] | one call; one run, and what is true after it |
//! | [`history`], [`promise`], [`check`], [`told`] | what happened; what is promised; whether it was kept |
//! | [`mutants`] | protocols that look right: each must be seen to break a promise |
//! | [`count`] | what was met: a run that meets nothing proves nothing |
//!
//! All processes share one keeper, as tasks of one runtime do. So what the keeper of a paused process sends is held up
//! until the process goes on, and what a crashed one sends is lost.
//!
//! # Excuses
//!
//! A record that the store or an operator removed excuses what follows for its key. A claim that expired although its
//! renewal was tried, or while its process was paused or down, excuses a second success: that is what no lock can mend.
//! A message that arrives twice is never said not to be applied. Nothing else is excused.

mod caller;
mod check;
mod count;
mod dice;
mod history;
mod knobs;
mod link;
mod mutants;
mod net;
mod promise;
mod run;
mod server;
pub(crate) mod source;
mod tests;
mod told;
mod way;

pub(crate) use mutants::Mutant;
