//! What operators set for endpoints without compiling: where it stands, and how it is read.

mod called;
pub(crate) mod endpoint_info;
mod env;
#[cfg(feature = "toml")]
mod file;
pub(crate) mod known;
pub(crate) mod list;
mod overrides;
#[cfg(all(test, feature = "toml"))]
mod properties;
pub(crate) mod registered;
pub(crate) mod setting;
mod table;

#[cfg(feature = "toml")]
use std::path::PathBuf;

use crate::settings::table::{Layer, Table};

/// Where the settings of endpoints are read from: the environment, or a file and the environment.
///
/// They change `ttl`, `lease`, `wait` and `on_store_error` of guarded functions without compiling: when the handle
/// is built, and again at each [`Idempotency::reload`](crate::Idempotency::reload). Without `Settings` nothing is read.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::{Idempotency, MemoryStore, Settings};
///
/// let idempotency = Idempotency::builder(MemoryStore::new())
///     .settings(Settings::env())
///     .build()?;
/// # Ok::<(), idempotence::SetupError>(())
/// ```
///
/// # The file
///
/// TOML, with the feature `toml`. `[all]` is for every endpoint, `[endpoints."…"]` for the one of that name:
///
/// ```toml
/// [all]
/// on_store_error = "refuse"
///
/// [endpoints."orders.pay"]
/// ttl = "10m"
/// wait = "2s"
/// ```
///
/// Durations are written as in the attribute: whole numbers with a unit of `ms`, `s`, `m`, `h` or `d`.
///
/// # The environment
///
/// | variable | is for |
/// | --- | --- |
/// | `IDEMPOTENCE_TTL`, `…_LEASE`, `…_WAIT`, `…_ON_STORE_ERROR` | every endpoint |
/// | `IDEMPOTENCE__ORDERS_PAY__TTL`, … | the endpoint `orders.pay`: its name in capitals, with an underscore for every character but `A-Z 0-9` |
///
/// Endpoints whose names become equal that way all get it. `IDEMPOTENCE_URL`, `IDEMPOTENCE_PREFIX`,
/// `IDEMPOTENCE_SECRET`, `IDEMPOTENCE_DEADLINE` and `IDEMPOTENCE_SETTINGS` are left to the program, which may build its
/// handle by them; so are those that Kubernetes sets for a service of such a name. Any other variable that begins with `IDEMPOTENCE_` is an error.
///
/// # Which one counts
///
/// From the strongest: the endpoint's variable, the endpoint in the file, the variable for all, `[all]` in the file,
/// the attribute, the default.
///
/// A `lease` for all counts only where `release = "on_error"`: elsewhere the lease is the ttl.
///
/// # What is checked
///
/// An unknown table, setting or variable, a value that cannot be read, and a `ttl` or `lease` that does not fit the
/// attribute of an endpoint (a `lease` with `release = true`, a `renew` shorter than the lease) are errors of
/// [`build`](crate::Builder::build) and [`reload`](crate::Idempotency::reload), all of them at once.
///
/// An endpoint is known from the start if its function has the option `name` and only literals as durations, else from
/// its first call on. If a `ttl` or `lease` turns out then not to fit, it is left out, with an error in the log.
///
/// With `on_store_error = "run"` a body that has begun runs on when its lease is lost, unless the attribute has
/// `on_lease_lost = "stop"`: what is to run while the store is away is not stopped by that.
///
/// An endpoint that nobody knows is a warning in the log, not an error, so that two versions of a program can share a
/// file; see also [`settings_problems`](crate::Idempotency::settings_problems).
#[derive(Debug, Clone)]
pub struct Settings {
    #[cfg(feature = "toml")]
    file: Option<PathBuf>,
}

impl Settings {
    /// The environment alone.
    pub fn env() -> Self {
        Self {
            #[cfg(feature = "toml")]
            file: None,
        }
    }

    /// The TOML file at `path`, and above it the environment.
    ///
    /// Change the file by renaming another one to its name, or a reload may see half of it.
    #[cfg(feature = "toml")]
    #[cfg_attr(docsrs, doc(cfg(feature = "toml")))]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(path.into()),
        }
    }

    /// Reads and checks; an error is one line for each mistake.
    pub(crate) fn read(&self) -> Result<Table, Vec<String>> {
        let mut problems = Vec::new();
        #[cfg(feature = "toml")]
        let file = match &self.file {
            Some(path) => file::read(path, &mut problems),
            None => Layer::default(),
        };
        #[cfg(not(feature = "toml"))]
        let (Self {}, file) = (self, Layer::default());
        let env = env::read(env::of_the_process(), &mut problems);
        if problems.is_empty() {
            Ok(Table::new(file, env))
        } else {
            Err(problems)
        }
    }
}
