//! Why a call was refused.

pub(crate) mod advice;
mod call;
pub(crate) mod catalog;
pub(crate) mod closest;
mod duplicate;
mod failure;
pub(crate) mod lang;
mod limited;
#[cfg(test)]
mod samples;
mod setup;
pub(crate) mod store;
#[cfg(test)]
mod texts;
#[cfg(feature = "http")]
pub(crate) mod wait;

pub use self::call::Error;
pub(crate) use self::duplicate::DuplicateFacts;
pub use self::duplicate::{Duplicate, DuplicateState};
pub use self::failure::Failure;
pub use self::failure::{Site, Subject};
pub use self::limited::Limited;
pub use self::setup::SetupError;
