//! A crash at any point loses nothing: processes and servers are killed at every message and every step, and after a retry
//! there is exactly one business row.

mod batches;
mod flow;
mod lanes;
mod messages;
mod outcome;
mod process;
mod steps;
