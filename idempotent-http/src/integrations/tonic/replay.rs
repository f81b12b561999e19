//! The message of a `Response`, stored by `replay` without the metadata.

use ::tonic::Response;
use idempotent_runtime::port::http::{ReplayValue, Storable};
use serde::Serialize;

/// A [`ReplayValue`] that is the message of a `Response`, which is stored without its metadata.
#[derive(Debug)]
pub struct InResponse;

impl<T: Storable> ReplayValue<InResponse> for Response<T> {
    type Kept = T;

    fn kept(&self) -> impl Serialize {
        self.get_ref()
    }

    fn replayed(kept: T) -> Self {
        Self::new(kept)
    }
}
