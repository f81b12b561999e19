//! HTTP without a framework: what a refused call looks like as a response, and the language of a request.

pub(crate) mod key;
pub(crate) mod lang;
pub(crate) mod problem;

pub use self::key::text::KeySyntax;
