//! What is used of the runtime beside its public names: one module for each user. The users are the other crates of this workspace,
//! which need exactly this version of the runtime, and the rooms of HTTP. So the names here change without notice.

#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "testkit")]
pub mod testkit;
