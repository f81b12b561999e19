//! Why an operation has no answer of the store.

use crate::store::{StoreError, StoreErrorKind};

pub(super) fn full() -> StoreError {
    let error = StoreError::new(StoreErrorKind::NotApplied, "too many operations wait");
    error.reason("has more operations waiting than this process queues")
}

pub(super) fn unsent() -> StoreError {
    let error = StoreError::new(StoreErrorKind::NotApplied, "the runtime has ended");
    error.reason("was not asked, because the runtime that sends the operation has ended")
}

pub(super) fn lost() -> StoreError {
    let error = StoreError::new(StoreErrorKind::Unknown, "the runtime has ended");
    error.reason("gave no answer before the runtime that sent the operation ended")
}
