//! Locks and counters that threads share. The package `proof/schedules` compiles this crate with the
//! locks of `shuttle`, which explores schedules.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize,
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize,
};
