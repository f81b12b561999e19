//! What the runtime and the SQL stores use beside the public names. They need exactly this version, so the names here change without
//! notice.

pub use crate::adapters::sqlx::pool::begin;
pub use crate::code::Code;
pub use crate::database::run::{Run, bind};
pub use crate::fields::Fields;
#[cfg(feature = "sqlite")]
pub use crate::sqlite::BEGIN_TO_WRITE;

pub mod chain {
    //! What the causes of an error say about a transaction.

    pub use crate::chain::{
        causes, is_conflict, is_conflict_or_lost, is_from_database, is_unanswered,
    };
}

pub mod failure {
    //! What is known about a statement or a connection that failed.

    pub use crate::code::{is_broken, is_missing_table};
    pub use crate::failure::kind::FailureKind;
    pub use crate::failure::reason::MISSING_PRIVILEGE;
    pub use crate::failure::{
        Failure, acquire_failed, acquire_overdue, begin_failed, connect_failed, driver_failed,
        is_read_only, open_failed, place, statement_failed,
    };
}
