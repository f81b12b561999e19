//! Errors, keys and results in the types of other crates.

#[cfg(feature = "actix")]
pub mod actix;
#[cfg(feature = "axum")]
pub mod axum;
#[cfg(any(feature = "actix", feature = "axum"))]
mod key;
#[cfg(any(feature = "actix", feature = "axum"))]
mod rejection;
#[cfg(any(feature = "actix", feature = "axum"))]
mod request_id;
#[cfg(feature = "tonic")]
pub mod tonic;
#[cfg(feature = "utoipa")]
pub mod utoipa;
