//! The handle, which is a store with its options, and the choice of the handle for a call.

pub(crate) mod builder;
mod connect;
pub(crate) mod drain;
pub(crate) mod endpoints;
#[cfg(feature = "seal")]
mod seal;
#[cfg(feature = "toml")]
mod watch;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use crate::error::SetupError;
use crate::protocol::shared::Shared;

/// A handle: a store with its options, on which guarded calls run. Clones are cheap, and are the same handle.
///
/// A call uses the handle that its attribute names (`using = …`), else the handle of its [scope](Self::scope), else the
/// [installed](Self::install) handle. Without a handle it is refused with [`Error::NotInstalled`](crate::Error::NotInstalled).
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::{Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// idempotency.install()?;
/// # Ok::<(), idempotence::SetupError>(())
/// ```
#[doc(alias("幂等"))]
#[derive(Clone)]
pub struct Idempotency(Arc<Shared>);

impl Idempotency {
    /// Makes this the handle of every call in the process that has no other handle.
    ///
    /// # Errors
    ///
    /// If a handle is already installed. The installed handle does not change.
    pub fn install(&self) -> Result<(), SetupError> {
        INSTALLED
            .set(self.clone())
            .map_err(|_| {
                SetupError::new(
                    "`Idempotency::install`: this process has an installed `Idempotency` already, which stays; \
                     call `install` once, or use `scope` or `using = …` for other handles",
                )
            })
    }

    /// Runs `future` with this handle for its calls, for example in tests or for a tenant.
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

    /// The handle that a call without `using` would use here: the handle of the scope, else the installed handle.
    pub fn current() -> Option<Self> {
        SCOPE
            .try_with(Self::clone)
            .ok()
            .or_else(|| INSTALLED.get().cloned())
    }

    /// The handle of the scope, for another task.
    pub(crate) fn scoped() -> Option<Self> {
        SCOPE.try_with(Self::clone).ok()
    }

    /// The state that all calls of the handle share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Does the same as [`shared`](Self::shared), for a handle that is no longer used.
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
