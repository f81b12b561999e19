//! The recorded expansions compile without the attribute.

#![deny(warnings)]
#![allow(
    dead_code,
    unreachable_pub,
    unused_braces,
    clippy::all,
    clippy::pedantic
)]

#[rustfmt::skip]
#[path = "expand/async_fn.expanded.rs"]
mod async_fn;
#[rustfmt::skip]
#[path = "expand/async_trait.expanded.rs"]
mod async_trait;
#[rustfmt::skip]
#[path = "expand/context.expanded.rs"]
mod context;
#[rustfmt::skip]
#[path = "expand/expressions.expanded.rs"]
mod expressions;
#[rustfmt::skip]
#[path = "expand/finish.expanded.rs"]
mod finish;
#[rustfmt::skip]
#[path = "expand/future.expanded.rs"]
mod future;
#[rustfmt::skip]
#[path = "expand/generic.expanded.rs"]
mod generic;
#[rustfmt::skip]
#[path = "expand/method.expanded.rs"]
mod method;
#[rustfmt::skip]
#[path = "expand/replay.expanded.rs"]
mod replay;
#[rustfmt::skip]
#[path = "expand/token.expanded.rs"]
mod token;
#[cfg(feature = "sqlite")]
#[rustfmt::skip]
#[path = "expand/tx.expanded.rs"]
mod tx;
#[rustfmt::skip]
#[path = "expand/when.expanded.rs"]
mod when;
