//! Locks and counters that threads share. Under `--cfg shuttle` they are shuttle's, which explores schedules: see
//! `tests/schedules.rs`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize,
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize,
};
