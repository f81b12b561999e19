//! The etcd store of the crate [`idempotence`](https://docs.rs/idempotence). Depend on that crate instead, with its feature `etcd`.

mod client;
mod doctor;
mod failure;
mod leases;
mod listing;
mod records;
mod store;
mod url;
mod watches;
mod wire;

use std::sync::Arc;

use idempotent_runtime::store::{UrlScheme, register_url_scheme};

pub use self::store::EtcdStore;

register_url_scheme!(UrlScheme::new("etcd", &["etcd", "etcds"], |url| {
    Box::pin(async move { Ok(Arc::new(EtcdStore::connect(&url).await?) as _) })
}));
