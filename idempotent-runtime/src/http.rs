//! HTTP without a framework: what a refused call looks like as a response, and the language of a request.

#[cfg(feature = "axum")]
pub(crate) mod headers;
#[cfg_attr(not(test), expect(dead_code, reason = "the layer will use it"))]
pub(crate) mod key;
pub(crate) mod lang;
#[cfg_attr(not(test), expect(dead_code, reason = "the layer will use it"))]
pub(crate) mod payload;
pub(crate) mod problem;
#[cfg_attr(not(test), allow(dead_code, reason = "the layer needs it"))]
pub(crate) mod route;

pub use self::key::source::KeySource;
pub use self::key::text::KeySyntax;
pub use self::payload::Payload;
