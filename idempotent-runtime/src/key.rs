//! What names a call: an endpoint, a fingerprint, a request id, and the keys that are made of them.

pub(crate) mod endpoint;
pub mod fingerprint;
pub(crate) mod kind;
pub(crate) mod request_id;
