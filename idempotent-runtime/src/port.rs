//! What is used of the runtime beside its public names: one module for each user. The users are the other crates of this workspace,
//! which need exactly this version of the runtime. So the names here change without notice.

pub mod dynamodb;
pub mod etcd;
pub mod http;
pub mod redis;
pub mod sql;
#[cfg(feature = "testkit")]
pub mod testkit;
