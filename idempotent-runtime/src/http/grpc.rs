//! gRPC over the layer: how a status decides about the key, and the status of a refusal.
//!
//! Specification: `doc/PROTOCOL-HTTP2.md` of the repository `grpc/grpc`. Each response has the status 200 of HTTP. The status of the
//! call is in the trailers, or in the headers of a response without messages.

pub(crate) mod outcome;
pub(crate) mod refusal;
pub(crate) mod retry_info;
