//! The locks and counters of what threads share. Under `--cfg shuttle` they are those of a scheduler
//! that tries out schedules: see `tests/schedules.rs`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize,
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize,
};
