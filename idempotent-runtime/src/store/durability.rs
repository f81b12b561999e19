//! What a store's acknowledgement is worth.

use std::fmt;

/// What has to fail until a store forgets a record that it has acknowledged.
///
/// What no class promises: that the record of a call is written together with what the call does. Only
/// a row in the transaction of the work itself is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The process: records are in its memory.
    Process,
    /// The server: records are in its memory, and reach a disk or a replica a little later. Its
    /// restart or a fail-over may forget the latest ones, or all.
    Server,
    /// The disk: a record is synced to it before it is acknowledged.
    Fsync,
    /// This many replicas, and the primary: a record is in the memory of all of them before it is
    /// acknowledged.
    Replicated {
        /// How many servers beside the primary have it.
        replicas: u32,
    },
    /// The database: a record is committed before it is acknowledged.
    Sql,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("process"),
            Self::Server => f.write_str("server"),
            Self::Fsync => f.write_str("fsync"),
            Self::Replicated { replicas } => write!(f, "replicated({replicas})"),
            Self::Sql => f.write_str("sql"),
        }
    }
}
