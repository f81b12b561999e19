//! The DynamoDB store of the crate [`idempotence`](https://docs.rs/idempotence). Depend on that crate instead, with its feature
//! `dynamodb`.
//!
//! The link of this crate into a program registers its URLs:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let error = idempotence::Idempotency::from_url("dynamodb://").await.expect_err("no table");
//! assert!(error.to_string().starts_with("cannot use the DynamoDB of this URL: "), "{error}");
//! # }
//! ```
#![cfg_attr(doctest, doc = include_str!("../../docs/guide/dynamodb.md"))]

mod client;
mod clock;
mod doctor;
mod failure;
mod listing;
mod records;
mod store;
mod table;
mod transaction;
mod url;

use std::sync::Arc;

use idempotent_runtime::store::{UrlScheme, register_url_scheme};

pub use aws_sdk_dynamodb;

pub use self::store::DynamoDbStore;
pub use self::transaction::{DynamoDbTransaction, NotCommitted};

register_url_scheme!(UrlScheme::built_in("DynamoDB", &["dynamodb"], |url| {
    Box::pin(async move { Ok(Arc::new(DynamoDbStore::connect(&url).await?) as _) })
}));
