//! Claim, hold, settle: the protocol of one call, for any store.
//!
//! Each call is in one phase at a time, which [`state`] keeps behind one lock. Its body, its renewals and its duplicates in
//! this process all look there.
//!
//! ```text
//!   the call is made
//!        │
//!        ▼             the key is taken,
//!   ┌─────────┐         and it waits          ┌─────────┐  refused, or the result of the other is given
//!   │ Asking  │ ────────────────────────────▶ │ Waiting │ ───────────────────────────────────────────────┐
//!   └─────────┘ ◀──────────────────────────── └─────────┘                                                │
//!     │     │             asks again                                                                     │
//!     │     │  refused by the record that has the key, by the store or for the token; or dropped         │
//!     │     └──────────────────────────────────────────────────────────────────────────────────────────▶ │
//!     │ the claim is put, and the token redeemed                                                         │
//!     ▼                                                                                                  │
//!   ┌─────────┐   not renewed in time,        ┌─────────┐  the body is stopped, or ends all the same     │
//!   │ Running │ ────────────────────────────▶ │  Lost   │ ─────────────────────────────────────────────▶ │
//!   └─────────┘   or its record is gone       └─────────┘                                                │
//!     │     │                                                                                            │
//!     │     │         the body is dropped     ┌─────────┐  its key is freed, or stays for its time       │
//!     │     └───────────────────────────────▶ │ Dropped │ ─────────────────────────────────────────────▶ │
//!     │ the body ends                         └─────────┘                                                │
//!     ▼                                                                                                  ▼
//!   ┌──────────┐  the end is in the store, or never will be                                          ┌──────┐
//!   │ Settling │ ──────────────────────────────────────────────────────────────────────────────────▶ │ Over │
//!   └──────────┘                                                                                     └──────┘
//! ```
//!
//! | move | made by | wakes |
//! | --- | --- | --- |
//! | to `Asking`, again and again | `claim`, before each send that is not the first of the call; `lease`, while the token is redeemed | duplicates that follow the call |
//! | to `Waiting` | `wait` | duplicates that follow the call |
//! | to `Running` | `lease` with the claim's answer; `held` when the token is redeemed | duplicates that follow the call |
//! | to `Lost` | `lease` when the body is polled; `renewal` when a renewal is due or answered | those duplicates, and the task that polls the body |
//! | to `Settling` | `lease` at the end of the body | nobody: the key is still taken |
//! | to `Dropped` | `held` | nobody: the key is still taken |
//! | to `Over` | `settle`, or `held` if nothing is sent | duplicates that follow the call |
//!
//! Duplicates are let go before that if there is nothing more to learn from the call: it is refused and has no claim to take back, its
//! caller has the answer before the store has the end, the store does not answer, or an operator has freed the key. Then `State::left`
//! says what they are told, which they see as `Over`, and the phase goes on unseen. The table of [`in_flight`] lists every such case.
//!
//! Beside the phase, four things are known of a call by one owner each: what protects the body (`held::Guard`), whether a claim may
//! have been put (`claim::Claiming`), whether its end was sent (`settle::HandOver`), and whether its end gives a token back
//! (`token::of_call::CallToken`).

pub(crate) mod background;
pub(crate) mod claim;
pub(crate) mod context;
pub(crate) mod ending;
pub(crate) mod follow;
pub(crate) mod held;
pub(crate) mod in_flight;
pub(crate) mod lease;
pub(crate) mod poll_limiter;
pub(crate) mod redeem;
pub(crate) mod refusal;
pub(crate) mod renewal;
pub(crate) mod retry;
pub(crate) mod scheduler;
pub(crate) mod settle;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod token;
pub(crate) mod tracker;
pub(crate) mod turn;
pub(crate) mod wait;
