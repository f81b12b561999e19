#![doc = include_str!("../README.md")]

mod advice;
mod answer;
mod backoff;
mod body;
mod first_sent;
mod judge;
mod key;
mod problem;
mod profile;
mod redirects;
mod requests;
mod retry;
mod unanswered;

pub use self::answer::Answer;
pub use self::first_sent::FirstSent;
pub use self::judge::is_outcome_unknown;
pub use self::key::{InvalidKey, OutgoingKey};
pub use self::problem::{ClientAction, Problem};
pub use self::profile::Profile;
pub use self::redirects::same_server_redirects;
pub use self::requests::IdempotentRequests;
pub use self::unanswered::Unanswered;
