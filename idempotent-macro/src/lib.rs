//! Implementation detail of the crate [`idempotence`](https://docs.rs/idempotence): depend on `idempotence`.

#![allow(
    unreachable_pub,
    reason = "the crate exports one macro: `pub` in a private module says enough"
)]

use proc_macro::TokenStream;

mod call;
mod duration;
mod error;
mod expand;
mod function;
mod key;
mod lease;
mod options;
mod output;
mod permits;
mod policy;
mod rules;
mod span;
mod steps;
#[cfg(test)]
mod tests;
mod value;

#[expect(missing_docs, reason = "documented where the facade re-exports it")]
#[doc(alias("幂等", "防重复提交", "重复提交", "分布式锁"))]
#[doc(alias("setnx", "dedup", "exactly-once", "redlock", "watchdog"))]
#[proc_macro_attribute]
pub fn idempotent(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(options.into(), &item.into()).into()
}
