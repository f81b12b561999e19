//! A `Json` of actix, stored by `replay`.

use actix_web::web::Json;
use idempotent_runtime::port::http::{ReplayValue, Storable};
use serde::Serialize;

/// A [`ReplayValue`] in a `Json` of actix.
#[derive(Debug)]
pub struct InWebJson;

impl<T: Storable> ReplayValue<InWebJson> for Json<T> {
    type Kept = T;

    fn kept(&self) -> impl Serialize {
        &self.0
    }

    fn replayed(kept: T) -> Self {
        Self(kept)
    }
}
