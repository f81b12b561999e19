//! Errors, keys and results in the types of other crates.

#[cfg(feature = "axum")]
pub mod axum;
#[cfg(feature = "tonic")]
pub mod tonic;
#[cfg(feature = "utoipa")]
pub mod utoipa;
