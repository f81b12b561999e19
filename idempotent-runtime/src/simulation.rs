//! Runs the real engine in a simulated world. A seed, which is one number, decides a whole run.
//!
//! A run has up to three processes (handles) and calls of one or two keys, with every policy, by the attribute's code and by
//! the builder. In some runs calls redeem one-time tokens, and others redeem the same tokens without a call.
//!
//! The network delays, loses and repeats requests and replies. The store is unavailable, full or loses records, and its clock
//! jumps. Processes crash, pause and restart. Callers drop and freeze calls, and an operator frees keys. Time is tokio's paused
//! clock. All random numbers come from the seed, also in the engine ([`world`](crate::world)), so a seed has one history.
//!
//! ```sh
//! cargo test -p idempotent-runtime --lib simulation                                  # 20,000 seeds
//! IDEMPOTENCE_SEEDS=1000000 cargo test -p idempotent-runtime --lib the_engine_holds  # a night's
//! IDEMPOTENCE_SEED=123 cargo test -p idempotent-runtime --lib the_engine_holds       # one, with its history
//! ```
//!
//! | room | has |
//! | --- | --- |
//! | [`knobs`], [`call_plan`], [`incidents`] | what a seed decides: the faults of messages; the keys and the calls; what happens to processes and to the store |
//! | [`net`], [`message`], [`in_flight`] | the network; one message; its way to the store and back |
//! | [`op`], [`server`], [`link`] | the operations of the store; the store; the [`Store`](crate::Store) of a process |
//! | [`batching`], [`batch_in_flight`] | the engine of batches in a process, and its connections; a batch on its way |
//! | [`caller`], [`slots`], [`run`] | one call; the processes of a run; one run, and what is true after it |
//! | [`tokens`] | the tokens of a run, and who redeems them |
//! | [`history`], [`promise`], [`check`], [`spans`], [`returned`], [`in_batches`], [`redemptions`], [`fenced`], [`remembered`] | what happened; what is promised; whether the promises were kept |
//! | [`drops`] | calls that are dropped at each of their polls and in each millisecond, while their operations are in batches |
//! | [`crossing`], [`stepped`] | calls with two keys, which cross; calls with steps |
//! | [`permits`] | calls of which several hold a key |
//! | [`mutants`], [`mutant_store`] | wrong protocols that look right: the checks must see each break a promise |
//! | [`count`] | how often things happened: a run in which nothing happens proves nothing |
//!
//! In some runs the operations go in batches, by the real engine. Then the network loses, delays and cuts whole batches, and
//! the tasks that send them are dropped with operations in the queue and in flight, as at the end of their runtime.
//!
//! In some runs without batches and tokens each body has a fence, from a store that draws it with the claim.
//!
//! All processes share one scheduler, as the tasks of one runtime do. So the messages of a paused process wait until it
//! continues, and the messages of a crashed process are lost.
//!
//! # Excuses
//!
//! After the store or an operator has removed a record, broken promises of its key are excused. A second success is excused
//! after a claim has expired although its renewal was tried, or while its process was paused or down, because no lock can
//! prevent that. A message that arrives twice is never reported as not applied. A redemption without a body may stay if its
//! process died, if the store had no room for its return, or if the engine reported that it was not withdrawn. A call that
//! spends its deadline behind calls whose tokens are refused may report the store as unavailable. Nothing else is excused.

mod batch_in_flight;
mod batching;
mod call_plan;
mod caller;
mod check;
mod count;
mod crossing;
mod dice;
mod drops;
mod fenced;
mod history;
mod in_batches;
mod in_flight;
mod incidents;
mod knobs;
mod link;
mod message;
mod mutant_store;
mod mutants;
mod net;
mod op;
mod permits;
mod promise;
mod redemptions;
mod remembered;
mod returned;
mod run;
mod server;
mod several;
mod slots;
pub(crate) mod source;
mod spans;
mod stepped;
mod tests;
mod tokens;

pub(crate) use mutants::Mutant;
