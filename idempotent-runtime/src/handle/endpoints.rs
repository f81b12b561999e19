//! The endpoints of a program, for operators: their names, and the settings in force.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::Handle;
use tokio::task::JoinError;
use tracing::dispatcher;

use crate::error::SetupError;
use crate::handle::Idempotency;
use crate::settings::known::KnownEndpoints;
use crate::settings::list::Endpoints;

/// The known endpoints by name, with the settings in force.
///
/// A function with the option `name` is known from the start, another function from its first call on. An endpoint that was called is
/// listed once for each handle that has run it (`using`, scopes), with the settings of that handle, and with its
/// [prefix](crate::EndpointInfo::prefix) if it is not the [current](Idempotency::current) handle. Before its first call an endpoint is
/// listed with the settings of the current handle; without a handle, with the options of its attribute.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// for endpoint in idempotence::endpoints() {
///     println!("{endpoint}"); // orders.pay: ttl = 10m (idempotence.toml:5), lease = 30s (default), …
/// }
/// ```
pub fn endpoints() -> Endpoints {
    let current =
        Idempotency::current().map(|current| Arc::clone(current.shared().known_endpoints()));
    let current = current.unwrap_or_default();
    let others = all().into_iter();
    let others = others.filter(|other| !Arc::ptr_eq(other, &current));
    let others = others.map(|other| other.list_called()).collect();
    current.list().merge(others)
}

impl Idempotency {
    /// The known endpoints by name, with the settings of this handle, even if they name another handle with `using`. For the
    /// endpoints of all handles see [`endpoints`].
    pub fn endpoints(&self) -> Endpoints {
        self.shared().known_endpoints().list()
    }

    /// Reads the [`Settings`](crate::Settings) again, for calls that begin from now on. In a tokio runtime the file is read on a thread
    /// for blocking work.
    ///
    /// # Errors
    ///
    /// If the settings have mistakes (one line for each), or the handle has no settings. In this case nothing changes.
    ///
    /// # Cancellation
    ///
    /// A dropped future does not stop the reload: the settings may still be read and applied.
    pub async fn reload(&self) -> Result<(), SetupError> {
        let known = Arc::clone(self.shared().known_endpoints());
        without_blocking(move || known.reload())
            .await
            .unwrap_or_else(|_| {
                let what = "cannot reload the settings because the runtime is shutting down";
                Err(SetupError::new(what))
            })
    }

    /// The [`Settings`](crate::Settings) that have no effect, one line for each: settings of endpoints that are not known yet,
    /// and values that do not fit an endpoint. They are also in the log.
    pub fn settings_problems(&self) -> Vec<String> {
        self.shared().known_endpoints().problems()
    }
}

static HANDLES: Mutex<Vec<Weak<KnownEndpoints>>> = Mutex::new(Vec::new());

/// Lists the endpoints of a handle for as long as the handle lives.
pub(super) fn add(known: &Arc<KnownEndpoints>) {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    if handles.len() == handles.capacity() {
        // Removes dropped handles before the list grows. The next removal comes after twice as many handles.
        handles.retain(|handle| handle.strong_count() > 0);
        let count = handles.len();
        handles.reserve(count + 1);
    }
    handles.push(Arc::downgrade(known));
}

/// Runs `work` on a thread for blocking work, with the log of the caller. Without a runtime it runs `work` in place.
pub(super) async fn without_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let Ok(runtime) = Handle::try_current() else {
        return Ok(work());
    };
    let log = dispatcher::get_default(Clone::clone);
    let work = runtime.spawn_blocking(move || dispatcher::with_default(&log, work));
    work.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(cancelled) => cancelled,
    })
}

/// The endpoints of all handles that are not dropped.
fn all() -> Vec<Arc<KnownEndpoints>> {
    let handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    handles.iter().filter_map(Weak::upgrade).collect()
}
