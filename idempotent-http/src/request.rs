//! What of a request makes its key: whose key it is, the endpoint, the key of the client and the body.

pub(crate) mod content_type;
pub(crate) mod incoming;
pub(crate) mod key;
pub(crate) mod payload;
pub(crate) mod route;
pub(crate) mod scope;
pub(crate) mod unkeyed;
