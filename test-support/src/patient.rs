//! A handle whose calls have time on a busy machine.

use std::time::Duration;

use idempotent_runtime::{Idempotency, Store};

/// A store that is only slow refuses no call. A store that does not answer refuses it after two minutes.
pub fn patient(store: impl Store) -> Idempotency {
    let builder = Idempotency::builder(store).deadline(Duration::from_mins(2));
    builder.build().unwrap()
}
