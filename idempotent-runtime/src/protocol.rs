//! Claim, hold, settle: the protocol of one call, for any store.
//!
//! A call is in one phase at a time. [`state`] has the phase behind one lock. The body, the renewals and the duplicates in this
//! process read it there.
//!
//! ```text
//!   the call is made
//!        │
//!        ▼             the key is taken,
//!   ┌─────────┐         and it waits          ┌─────────┐  refused, or given the result of the other call
//!   │ Asking  │ ────────────────────────────▶ │ Waiting │ ───────────────────────────────────────────────┐
//!   └─────────┘ ◀──────────────────────────── └─────────┘                                                │
//!     │     │             asks again                                                                     │
//!     │     │  refused because of the key's record, the store or the token; or dropped                   │
//!     │     └──────────────────────────────────────────────────────────────────────────────────────────▶ │
//!     │ the claim is stored, and the token redeemed                                                      │
//!     ▼                                                                                                  │
//!   ┌─────────┐   not renewed in time,        ┌─────────┐  the body is stopped, or still returns         │
//!   │ Running │ ────────────────────────────▶ │  Lost   │ ─────────────────────────────────────────────▶ │
//!   └─────────┘   or its record was removed   └─────────┘                                                │
//!     │     │                                                                                            │
//!     │     │         the body is dropped     ┌─────────┐  its key is freed, or expires with its ttl     │
//!     │     └───────────────────────────────▶ │ Dropped │ ─────────────────────────────────────────────▶ │
//!     │ the body returns                      └─────────┘                                                │
//!     ▼                                                                                                  ▼
//!   ┌──────────┐  the end is stored, or never will be                                                ┌───────┐
//!   │ Settling │ ──────────────────────────────────────────────────────────────────────────────────▶ │ Ended │
//!   └──────────┘                                                                                     └───────┘
//!     │ its outcome is not stored in time                                                                ▲
//!     ▼                                                                                                  │
//!   ┌────────────┐  the outcome is stored, or never will be                                              │
//!   │ Unrecorded │ ──────────────────────────────────────────────────────────────────────────────────────┘
//!   └────────────┘
//! ```
//!
//! | move | made by | wakes |
//! | --- | --- | --- |
//! | to `Asking`, repeatedly | `claim`, before each send but the first of the call; `lease`, while the token is redeemed | duplicates that have seen `Waiting`; the others have a timer for the instant at which the answer is due |
//! | from `Asking` or `Waiting` to `Withdrawing` (not in the picture) | `settle`, if the call was dropped or refused and its claim is withdrawn | duplicates that have seen `Waiting`; the others have a timer, and then one of them replaces the call |
//! | to `Waiting` | `wait` | duplicates that follow the call |
//! | to `Running` | `lease` after the claim's answer; `held` after the token is redeemed | duplicates that have seen `Waiting`, that do not wait for the end, or whose waiting an observer measures |
//! | to `Lost` | `lease` when the body is polled; `renewal` when a renewal is due or answered | those duplicates, and the task that polls the body |
//! | to `Settling` | `lease` when the body returns | nothing: the key is still taken |
//! | to `Unrecorded` | `settle` when the caller would wait no longer, or a send in the background fails; also from `Running`, if the body ran without the store, and from `Lost`, if the body went on | duplicates that follow the call: they get its outcome |
//! | to `Dropped` | `held`; if the outcome of the body is unknown, `mark` then marks the claim | nothing: the key is still taken |
//! | to `Ended` | `settle`, or `held` if nothing is sent | duplicates that follow the call |
//!
//! Duplicates stop following earlier if they can learn nothing more from the call: the call is refused and has no claim to
//! withdraw, its caller has the answer before its key is free, the store does not answer, an equal call has replaced it, or an operator has freed the key.
//! From then on they see `State::final_view`, as `Ended`, and no later phase, except that a call that has lost its lease or was replaced may
//! show its outcome (`Unrecorded`). The table of [`in_flight`] lists every such case.
//!
//! Four other facts about a call have one owner each: what guards the body (`held::Guard`), whether a claim may be stored
//! (`claim::ClaimGuard`), whether the end was sent (`settle::Unsettled`), and whether the end gives a token back
//! (`token::of_call::CallToken`).

pub(crate) mod background;
pub(crate) mod body_context;
pub(crate) mod claim;
pub(crate) mod context;
pub(crate) mod ending;
pub(crate) mod expiry;
pub(crate) mod fence;
pub(crate) mod follow;
pub(crate) mod followers;
pub(crate) mod free_slot;
pub(crate) mod held;
pub(crate) mod in_flight;
pub(crate) mod kept_claim;
pub(crate) mod lease;
pub(crate) mod line;
pub(crate) mod mark;
pub(crate) mod number;
pub(crate) mod own_claim;
pub(crate) mod permit;
pub(crate) mod poll_limiter;
pub(crate) mod redeem;
pub(crate) mod refusal;
pub(crate) mod renewal;
pub(crate) mod retry;
pub(crate) mod scheduler;
pub(crate) mod seen;
pub(crate) mod sending;
pub(crate) mod settle;
pub(crate) mod several;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod steps;
pub(crate) mod steps_end;
pub(crate) mod stuck;
pub(crate) mod stuck_keys;
pub(crate) mod timeouts;
pub(crate) mod token;
pub(crate) mod tracker;
#[cfg(feature = "sql")]
pub(crate) mod turns;
pub(crate) mod unrecorded;
pub(crate) mod wait;
pub(crate) mod waiter;
