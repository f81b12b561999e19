//! Schedules of threads that share a handle or a queue.

mod batches;
mod handle;
