//! How an operation is sent: alone, with others in a batch, to the node of its key, with a wait for replicas.

pub(crate) mod batching;
pub(crate) mod executor;
pub(crate) mod gathering;
pub(crate) mod large;
pub(crate) mod nodes;
pub(crate) mod replicated;
pub(crate) mod wait_connections;
