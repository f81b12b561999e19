//! HTTP without a framework: what a refused call looks like as a response, and the language of a request.

#[cfg(feature = "axum")]
pub(crate) mod headers;
pub(crate) mod key;
pub(crate) mod lang;
pub(crate) mod problem;

pub use self::key::text::KeySyntax;
