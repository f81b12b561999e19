//! Refused calls, ids and languages in the types of other crates: what only this crate can implement, because the types are its
//! own. Everything else about HTTP is in the crate `idempotent-http`.

#[cfg(feature = "actix")]
pub mod actix;
#[cfg(feature = "axum")]
pub mod axum;
pub(crate) mod fault;
pub mod grpc;
pub(crate) mod header;
pub mod lang;
pub(crate) mod mistake;
pub(crate) mod problem;
#[cfg(any(feature = "actix", feature = "axum"))]
pub(crate) mod rejection;
#[cfg(any(feature = "actix", feature = "axum"))]
mod request_id;
#[cfg(feature = "tonic")]
pub mod tonic;
