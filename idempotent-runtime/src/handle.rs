//! The handle: a store and its settings, and which handle a call uses.

pub(crate) mod builder;
mod connect;
pub(crate) mod drain;
pub(crate) mod endpoints;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use crate::error::SetupError;
use crate::protocol::shared::Shared;

/// A store with its settings: what guarded calls run on. Cheap to clone; clones are the same handle.
///
/// A call uses the one its attribute names (`using = …`), else the one of the [scope](Self::scope)
/// it is in, else the [installed](Self::install) one, else it is refused with
/// [`Error::NotInstalled`](crate::Error::NotInstalled).
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::{Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// idempotency.install()?;
/// # Ok::<(), idempotence::SetupError>(())
/// ```
#[derive(Clone)]
pub struct Idempotency(Arc<Shared>);

impl Idempotency {
    /// Makes this the handle of every call in the process that has no other.
    ///
    /// # Errors
    ///
    /// If one is installed already; that one stays.
    pub fn install(&self) -> Result<(), SetupError> {
        INSTALLED
            .set(self.clone())
            .map_err(|_| SetupError::new("an `Idempotency` is already installed in this process"))
    }

    /// Runs `future` with this as the handle of the calls in it: for tests and for tenants.
    ///
    /// Tasks that `future` spawns are outside of the scope.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let answer = Idempotency::new(MemoryStore::new()).scope(async { 42 }).await;
    /// assert_eq!(answer, 42);
    /// # }
    /// ```
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        SCOPE.scope(self.clone(), future).await
    }

    /// The handle that a call without `using` uses here and now: of the scope, else the installed one.
    pub fn current() -> Option<Self> {
        SCOPE
            .try_with(Self::clone)
            .ok()
            .or_else(|| INSTALLED.get().cloned())
    }

    /// The scope's handle alone, to be carried to another task.
    pub(crate) fn scoped() -> Option<Self> {
        SCOPE.try_with(Self::clone).ok()
    }

    /// What all calls of this handle share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// The same, of a handle that is not needed beside it.
    pub(crate) fn into_shared(self) -> Arc<Shared> {
        self.0
    }
}

static INSTALLED: OnceLock<Idempotency> = OnceLock::new();

tokio::task_local! {
    static SCOPE: Idempotency;
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
