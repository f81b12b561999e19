//! Errors, keys and results in the types of other crates: the modules `integrations` of the facade.

#[cfg(feature = "actix")]
pub mod actix;
#[cfg(feature = "axum")]
pub mod axum;
#[cfg(any(feature = "actix", feature = "axum"))]
mod key;
#[cfg(feature = "tonic")]
pub mod tonic;
#[cfg(feature = "utoipa")]
pub mod utoipa;
