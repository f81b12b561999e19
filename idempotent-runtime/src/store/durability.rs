//! The durability of acknowledged records.

use std::fmt;

/// What must fail before a store loses a record that it acknowledged.
///
/// No class promises that the record of a call is written together with the effects of the call. Only a row in the same
/// transaction as the effects promises that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The process: it has the records in its memory.
    Process,
    /// The server: it has the records in its memory and writes them to a disk or a replica a little later. A restart or a
    /// fail-over may lose the latest records, or all.
    Server,
    /// The disk: the server syncs a record to it before the acknowledgement.
    Fsync,
    /// The primary and this many replicas: all of them have a record in memory before the acknowledgement.
    Replicated {
        /// The number of servers in addition to the primary.
        replicas: u32,
    },
    /// Most of the members of a cluster: each of them syncs a record to its disk before the acknowledgement.
    Quorum,
    /// The database: it commits a record before the acknowledgement.
    Sql,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("process"),
            Self::Server => f.write_str("server"),
            Self::Fsync => f.write_str("fsync"),
            Self::Replicated { replicas } => write!(f, "replicated({replicas})"),
            Self::Quorum => f.write_str("quorum"),
            Self::Sql => f.write_str("sql"),
        }
    }
}
