//! The records of calls, fences and counts: their scripts and commands, and what the replies mean.

pub(crate) mod counting;
pub(crate) mod fencing;
pub(crate) mod listing;
pub(crate) mod oversize;
pub(crate) mod records;
pub(crate) mod refused;
pub(crate) mod removal;
pub(crate) mod replacement;
pub(crate) mod scripts;
pub(crate) mod several;
