//! The etcd store of the crate [`idempotence`](https://docs.rs/idempotence). Depend on that crate instead, with its feature `etcd`.
//!
//! The link of this crate into a program registers its URLs:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let error = idempotence::Idempotency::from_url("etcd://").await.expect_err("no member");
//! assert!(error.to_string().starts_with("cannot use the etcd of this URL: "), "{error}");
//! # }
//! ```
#![cfg_attr(doctest, doc = include_str!("../../docs/guide/etcd.md"))]

mod batches;
mod client;
mod doctor;
mod failure;
mod leases;
mod listing;
mod login;
mod member;
mod records;
#[cfg(test)]
mod scripted;
mod shared;
mod store;
mod url;
mod watches;
mod wire;

use std::sync::Arc;

use idempotent_runtime::store::{UrlScheme, register_url_scheme};

pub use self::store::EtcdStore;

register_url_scheme!(UrlScheme::built_in("etcd", &["etcd", "etcds"], |url| {
    Box::pin(async move { Ok(Arc::new(EtcdStore::connect(&url).await?) as _) })
}));
