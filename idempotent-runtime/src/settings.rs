//! The options of endpoints that operators set without compiling, and the known endpoints.

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
mod value;

#[cfg(feature = "toml")]
use std::path::PathBuf;
#[cfg(feature = "toml")]
use std::time::Duration;

use crate::error::SetupError;
use crate::settings::endpoint_info::EndpointInfo;
use crate::settings::table::{SettingsTable, SourceSettings};

/// The source of the settings of endpoints: the environment, or a file and the environment.
///
/// Settings change options of guarded functions without compiling: those of
/// [`EndpointInfo::settings`](crate::EndpointInfo::settings). `disabled = true` switches their guards off. They are
/// read when the handle is built, and again by each [`Idempotency::reload`](crate::Idempotency::reload). Without `Settings` nothing is read.
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
/// TOML, with the feature `toml`. `[all]` is for every endpoint, `[endpoints."…"]` for the endpoint with that name:
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
/// Durations are written as in the attribute: whole numbers with a unit of `ms`, `s`, `m`, `h` or `d`. `wait = "0s"`
/// switches waiting off. `permits` is a number, and `disabled` is `true` or `false`, without quotes.
///
/// # The environment
///
/// | variable | is for |
/// | --- | --- |
/// | `IDEMPOTENCE_TTL`, `IDEMPOTENCE_ON_STORE_ERROR`, … | every endpoint |
/// | `IDEMPOTENCE__ORDERS_PAY__TTL`, … | the endpoint `orders.pay`: its name in capitals, with an underscore for every character but `A-Z 0-9` |
///
/// If several names become equal that way, the variable is for all of these endpoints. `IDEMPOTENCE_URL`, `IDEMPOTENCE_STORE`,
/// `IDEMPOTENCE_PREFIX`, `IDEMPOTENCE_DIGEST`, `IDEMPOTENCE_SECRET`, `IDEMPOTENCE_SEAL`, `IDEMPOTENCE_DEADLINE` and `IDEMPOTENCE_SETTINGS` are ignored here: your program may read them. The
/// variables that Kubernetes sets for a service named `idempotence…` are also ignored. Any other variable that begins with
/// `IDEMPOTENCE_` is an error.
///
/// # Precedence
///
/// From the strongest: the endpoint's variable, the endpoint in the file, the variable for all endpoints, `[all]` in the
/// file, the attribute, the default.
///
/// A `lease` for all endpoints applies only to functions with `release = "on_error"`. The lease of other functions is their ttl.
///
/// # Checks
///
/// [`build`](crate::Builder::build) and [`reload`](crate::Idempotency::reload) report all mistakes at once:
///
/// * an unknown table, setting or variable,
/// * a value that cannot be read,
/// * a `ttl` or `lease` that does not fit the attribute of an endpoint: for example a `lease` with `release = true`, or a
///   `renew` shorter than the lease.
///
/// An endpoint is known from the start if its function has the option `name` and only literals as durations. Any other endpoint
/// is known from its first call on. If its `ttl` or `lease` then does not fit, this setting is ignored, with an error in the
/// log.
///
/// With `on_store_error = "run"` a running body continues after it has lost its lease, unless the attribute has
/// `on_lease_lost = "stop"`. Otherwise an outage would stop the bodies that must run during it.
///
/// With `disabled = true` every body runs unguarded: equal calls run at the same time and again. A call that has its key when a
/// reload sets the switch keeps its key. A body that runs when the switch is removed is not seen by new calls. Calls with a one-time
/// token stay guarded. With a fence, `attempt()` and `took_over()` are `None`; a fence without an answer of the store is 0, with the event
/// [`Unguarded`](crate::EventKind::Unguarded). A request to the layer of HTTP runs after the checks of header and size, and its response
/// has the extension `IdempotencyOutcome::Unguarded`. The log has a warning at the start and at each
/// reload, each call ends with [`EventKind::Disabled`](crate::EventKind::Disabled) (a dropped call with `Cancelled`, a panic with
/// `Panicked`), and the doctor reports a problem.
///
/// A setting for an unknown endpoint is a warning in the log, not an error, so that two versions of a program can share a
/// file. See also [`settings_problems`](crate::Idempotency::settings_problems).
#[derive(Debug, Clone)]
pub struct Settings {
    #[cfg(feature = "toml")]
    file: Option<PathBuf>,
    #[cfg(feature = "toml")]
    watch: Option<Duration>,
}

/// No type implements this trait. Its compile error says which feature [`Settings::file`] needs.
#[cfg(not(feature = "toml"))]
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`Settings::file` needs the feature `toml` of the crate `idempotence`",
    label = "this build reads no TOML",
    note = "add the feature in `Cargo.toml`, as in `features = [\"toml\"]`, or use `Settings::env()`"
)]
pub trait PathOfToml {}

impl Settings {
    /// Only the environment.
    pub fn env() -> Self {
        Self {
            #[cfg(feature = "toml")]
            file: None,
            #[cfg(feature = "toml")]
            watch: None,
        }
    }

    /// The TOML file at `path`, and the environment, which overrides the file.
    ///
    /// To change the file, write a new file and rename it to `path`. Otherwise a reload may read a half-written file.
    #[cfg(feature = "toml")]
    #[cfg_attr(docsrs, doc(cfg(feature = "toml")))]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(path.into()),
            watch: None,
        }
    }

    /// Does not compile: this build has no feature `toml`.
    #[cfg(not(feature = "toml"))]
    #[doc(hidden)]
    pub fn file<P: PathOfToml>(_path: P) -> Self {
        Self::env()
    }

    /// Looks at the file at this interval, and reads the settings again when the file has changed, as
    /// [`reload`](crate::Idempotency::reload) does. A file with mistakes is an error in the log, and the earlier settings stay.
    ///
    /// A task of the runtime in which the handle is [built](crate::Builder::build) does it, until the handle is dropped. Without a
    /// runtime, without a file, or if the interval is not between 1 ms and 1 h, `build` fails.
    #[cfg(feature = "toml")]
    #[cfg_attr(docsrs, doc(cfg(feature = "toml")))]
    #[must_use]
    pub fn watch(mut self, interval: Duration) -> Self {
        self.watch = Some(interval);
        self
    }

    /// The interval of [`watch`](Self::watch), and the file.
    #[cfg(feature = "toml")]
    pub(crate) fn watched(&self) -> Option<(Duration, Option<&PathBuf>)> {
        Some((self.watch?, self.file.as_ref()))
    }

    /// Checks the file and the environment, for tools that have no handle. Blocks the thread while it reads the file.
    ///
    /// # Errors
    ///
    /// What `build` would report, one line for each mistake, except what does not fit an attribute.
    pub fn check(&self) -> Result<(), SetupError> {
        self.read_or_explain().map(drop)
    }

    /// The settings of an endpoint and their origins, for tools that do not have its program: the values of the attribute are unknown.
    /// Blocks the thread while it reads the file.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::Settings;
    ///
    /// let pay = Settings::env().of_endpoint("orders.pay")?;
    /// assert!(pay.ttl().is_none());
    /// # Ok::<(), idempotence::SetupError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn of_endpoint(&self, endpoint: &str) -> Result<EndpointInfo, SetupError> {
        let resolved = self.read_or_explain()?.resolve(endpoint);
        Ok(EndpointInfo::new(endpoint, None, &resolved))
    }

    fn read_or_explain(&self) -> Result<SettingsTable, SetupError> {
        let (table, problems) = self.read();
        if problems.is_empty() {
            Ok(table)
        } else {
            Err(SetupError::new(problems.join("\n")))
        }
    }

    /// Reads and checks the settings. Returns those without a mistake, and a line for each mistake.
    ///
    /// Blocks the thread while it reads the file.
    pub(crate) fn read(&self) -> (SettingsTable, Vec<String>) {
        let mut problems = Vec::new();
        #[cfg(feature = "toml")]
        let file = match &self.file {
            Some(path) => file::read(path, &mut problems),
            None => SourceSettings::default(),
        };
        #[cfg(not(feature = "toml"))]
        let (Self {}, file) = (self, SourceSettings::default());
        let env = env::read(env::process_variables(), &mut problems);
        (SettingsTable::new(file, env), problems)
    }
}
