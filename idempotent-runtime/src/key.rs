//! The names of a call: its endpoint, its fingerprint, its request id, and the keys made of them.

pub(crate) mod base64;
pub(crate) mod downstream;
pub(crate) mod endpoint;
pub mod fingerprint;
pub(crate) mod hex;
pub(crate) mod kind;
pub(crate) mod name;
pub(crate) mod path_name;
pub(crate) mod request_id;
pub(crate) mod route;
