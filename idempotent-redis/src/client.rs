//! How a Redis is reached: its address, the connections that reconnect, and the errors of the client library.

pub(crate) mod cluster;
pub(crate) mod cluster_link;
pub(crate) mod connection;
pub(crate) mod connection_like;
pub(crate) mod failure;
pub(crate) mod info;
pub(crate) mod link;
pub(crate) mod listener;
pub(crate) mod masters;
pub(crate) mod probe;
pub(crate) mod reason;
pub(crate) mod replicas;
pub(crate) mod sentinel;
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod tls;
pub(crate) mod topology;
pub(crate) mod unusable;
pub(crate) mod url;
