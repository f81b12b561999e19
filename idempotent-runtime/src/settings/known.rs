//! The endpoints that a handle knows, and their settings.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, Weak};

use super::Settings;
use super::called::{CalledEndpoint, CalledEndpoints, MOST_NAMES};
use super::endpoint_info::EndpointInfo;
use super::list::Endpoints;
use super::registered::Registered;
use super::table::{SettingsTable, UnknownEndpoint};
use crate::error::SetupError;
use crate::key::endpoint::Endpoint;
use crate::policy::Policy;
use crate::policy::times::{AT_LEAST_TOO_LONG, Times};
use crate::store::Finding;
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::world;

/// What a layer knows and `doctor` reports, for example options in code that no request has used.
pub trait Watched: fmt::Debug + Send + Sync {
    /// The findings of this moment.
    fn findings(&self) -> Vec<Finding>;
}

/// The endpoints of a handle.
#[derive(Debug)]
pub(crate) struct KnownEndpoints {
    /// The prefix of the handle.
    prefix: String,
    /// Differs between handles, and changes with each reload.
    version: AtomicU64,
    /// Locked during a reload, so that of two reloads the later wins.
    settings: Mutex<Option<Settings>>,
    state: RwLock<KnownState>,
    /// What else reports findings.
    watched: Mutex<Vec<Weak<dyn Watched>>>,
}

#[derive(Debug, Default)]
struct KnownState {
    table: SettingsTable,
    called: CalledEndpoints,
}

/// What a thread knows of an endpoint with a literal name, so that its next call takes no lock.
#[derive(Clone, Copy)]
struct Recent {
    /// The version of the endpoints for which the other fields are valid.
    version: u64,
    /// The address and the length of the name.
    name: (usize, usize),
    attribute: Policy,
    /// The policy of the attribute with the settings applied.
    policy: Policy,
    times: Result<Times, &'static str>,
}

/// Why a call may not run on a runtime without a time driver: its lease would end while its body runs.
const NO_TIMERS: &str = "the tokio runtime has no time driver, so the lease could not be renewed and the body did not run; call \
                         `enable_time` or `enable_all` on the builder of the runtime";

/// How many endpoints a thread remembers.
const RECENT: usize = 8;

thread_local! {
    static ENTERED: RefCell<[Option<Recent>; RECENT]> = const { RefCell::new([None; RECENT]) };
}

impl Default for KnownEndpoints {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            version: AtomicU64::new(new_version()),
            settings: Mutex::default(),
            state: RwLock::default(),
            watched: Mutex::default(),
        }
    }
}

impl KnownEndpoints {
    /// The endpoints of a handle with these settings, which are read now.
    pub(crate) fn new(settings: Option<Settings>) -> Result<Self, SetupError> {
        let known = Self {
            settings: Mutex::new(settings),
            ..Self::default()
        };
        if known.settings().is_some() {
            known.reload()?;
        }
        Ok(known)
    }

    /// Sets the prefix of the handle.
    pub(crate) fn with_prefix(self, prefix: String) -> Self {
        Self { prefix, ..self }
    }

    /// Reads the settings again. After an error nothing has changed.
    ///
    /// Blocks the thread while it reads the file.
    pub(crate) fn reload(&self) -> Result<(), SetupError> {
        let settings = self.settings();
        let Some(settings) = &*settings else {
            let what = "there are no settings to reload, because the handle was built without `Builder::settings`";
            return Err(SetupError::new(what));
        };
        let (table, mut problems) = settings.read();
        let (harmful, unknown) = {
            let mut state = self.write_state();
            let are_read = problems.is_empty();
            problems.extend(state.ignored_settings(&table, are_read));
            if !problems.is_empty() {
                return Err(SetupError::new(problems.join("\n")));
            }
            state.table = table;
            // Stored while the state is locked, so that no thread remembers the old settings under the new version.
            self.version.store(new_version(), Ordering::Release);
            let KnownState { table, called } = &mut *state;
            for (name, called) in called.iter_mut() {
                called.policy = table.resolve(name).apply(called.attribute).policy;
                called.reported = false;
            }
            let mut harmful = state.disabled();
            harmful.extend(state.table.short_ttls());
            (harmful, state.unknown_endpoints())
        };
        let unknown = unknown.into_iter().filter(|unknown| !unknown.may_follow);
        let unknown = unknown.map(|unknown| unknown.line);
        for problem in harmful.into_iter().chain(unknown) {
            tracing::warn!(target: "idempotence", "{problem}");
        }
        Ok(())
    }

    /// Enters a called endpoint, and applies the settings to its `policy`. Returns the durations that follow from the policy.
    pub(crate) fn enter(
        &self,
        endpoint: &Endpoint,
        policy: &mut Policy,
    ) -> Result<Times, &'static str> {
        let Some(name) = endpoint.of_the_program() else {
            if !world::has_timers() {
                return Err(NO_TIMERS);
            }
            return self.look_up(endpoint, policy).1;
        };
        let name = (name.as_ptr().addr(), name.len());
        let version = self.version.load(Ordering::Acquire);
        let place = (name.0 / 8 + name.1) % RECENT;
        let recent = ENTERED.with_borrow(|recent| match &recent[place] {
            Some(recent)
                if recent.version == version
                    && recent.name == name
                    && recent.attribute == *policy =>
            {
                *policy = recent.policy;
                Some(recent.times)
            }
            _ => None,
        });
        recent.unwrap_or_else(|| {
            if !world::has_timers() {
                return Err(NO_TIMERS);
            }
            // Not inside the borrow above: a log that is written here may make guarded calls.
            let attribute = *policy;
            let (version, times) = self.look_up(endpoint, policy);
            let recent = Recent {
                version,
                name,
                attribute,
                policy: *policy,
                times,
            };
            ENTERED.with_borrow_mut(|all| all[place] = Some(recent));
            times
        })
    }

    /// Looks up a called endpoint, or enters it, and applies the settings. Returns the version of the settings, too.
    fn look_up(
        &self,
        endpoint: &Endpoint,
        policy: &mut Policy,
    ) -> (u64, Result<Times, &'static str>) {
        let (version, applied) = self.look_up_policy(endpoint, *policy);
        *policy = applied;
        (version, endpoint.shared_path().map_or(policy.times(), Err))
    }

    fn look_up_policy(&self, endpoint: &Endpoint, attribute: Policy) -> (u64, Policy) {
        let state = self.read_state();
        let version = self.version.load(Ordering::Relaxed);
        match state.called.get(endpoint.as_str()) {
            Some(called) if called.attribute == attribute => return (version, called.policy),
            _ => drop(state),
        }
        let mut state = self.write_state();
        let KnownState { table, called } = &mut *state;
        let name = endpoint.as_str();
        let version = self.version.load(Ordering::Relaxed);
        let mut applied = table.resolve(name).apply(attribute);
        let policy = applied.policy;
        let forgotten_before = called.forgotten();
        let entered = called.enter(endpoint, || CalledEndpoint {
            attribute,
            policy,
            reported: false,
        });
        (entered.attribute, entered.policy) = (attribute, policy);
        if entered.reported {
            applied.ignored.clear();
        }
        entered.reported |= !applied.ignored.is_empty();
        let first_forgotten = forgotten_before == 0 && called.forgotten() > 0;
        drop(state);
        if first_forgotten {
            tracing::warn!(
                target: "idempotence",
                endpoint = %endpoint,
                "more than {MOST_NAMES} endpoint names were made at run time, so `endpoints` lists only the latest, and metrics count most of \
                 them as `other`; name an endpoint by what it does, and put what varies into the key"
            );
        }
        for ignored in applied.ignored {
            tracing::error!(
                target: "idempotence",
                endpoint = %endpoint,
                "{}; it is ignored",
                ignored.describe(name)
            );
        }
        (version, policy)
    }

    /// All known endpoints by name: those that are known from the start, and those that were called.
    pub(crate) fn list(&self) -> Endpoints {
        let state = self.read_state();
        let mut attributes: BTreeMap<&str, Option<Policy>> = BTreeMap::new();
        for registered in Registered::all() {
            let attribute = attributes.entry(registered.name).or_default();
            *attribute = attribute.or_else(|| registered.policy.map(|policy| policy()));
        }
        let of_attribute = |(name, attribute)| {
            (
                name,
                EndpointInfo::new(name, attribute, &state.table.resolve(name)),
            )
        };
        let mut known: BTreeMap<&str, EndpointInfo> =
            attributes.into_iter().map(of_attribute).collect();
        known.extend(
            state
                .called()
                .map(|(name, info)| (name, info.mark_called())),
        );
        Endpoints::new(known.into_values().collect(), state.called.forgotten())
    }

    /// The called endpoints, for the list of another handle.
    pub(crate) fn list_called(&self) -> Endpoints {
        let state = self.read_state();
        let called = state
            .called()
            .map(|(_, info)| info.mark_called_on(&self.prefix));
        Endpoints::new(called.collect(), state.called.forgotten())
    }

    /// The settings that have no effect, a line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let state = self.read_state();
        let unknown = state.unknown_endpoints().into_iter();
        let mut problems: Vec<_> = unknown.map(|unknown| unknown.line).collect();
        problems.extend(state.ignored_settings(&state.table, true));
        problems
    }

    /// The routes that have settings and have had no request, a line each.
    pub(crate) fn routes_without_requests(&self) -> Vec<String> {
        let unknown = self.read_state().unknown_endpoints().into_iter();
        let routes = unknown.filter(|unknown| unknown.may_follow);
        routes.map(|route| route.line).collect()
    }

    /// The settings in force that disable the guard, a line each.
    pub(crate) fn disabled(&self) -> Vec<String> {
        self.read_state().disabled()
    }

    /// The settings of a `ttl` below a second, a line each.
    pub(crate) fn short_ttls(&self) -> Vec<String> {
        self.read_state().table.short_ttls()
    }

    /// Whether calls of this endpoint redeem one-time tokens, as far as this process knows.
    pub(crate) fn redeems_token(&self, name: &str) -> bool {
        let state = self.read_state();
        let mut called = state.called.iter();
        if let Some((_, called)) = called.find(|(called, _)| *called == name) {
            return called.attribute.token;
        }
        let mut registered = Registered::all().filter(|registered| registered.name == name);
        registered.any(|registered| registered.policy.is_some_and(|policy| policy().token))
    }

    /// Asks `watched` for its findings, for as long as it lives.
    pub(crate) fn watch(&self, watched: Weak<dyn Watched>) {
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|watched| watched.strong_count() > 0);
        all.push(watched);
    }

    /// The findings of all that is watched.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = watched.iter().filter_map(Weak::upgrade);
        watched.flat_map(|watched| watched.findings()).collect()
    }

    fn settings(&self) -> MutexGuard<'_, Option<Settings>> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_state(&self) -> RwLockReadGuard<'_, KnownState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, KnownState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownState {
    /// The called endpoints with the settings in force.
    fn called(&self) -> impl Iterator<Item = (&str, EndpointInfo)> {
        self.called.iter().map(|(name, called)| {
            let resolved = self.table.resolve(name);
            let info = EndpointInfo::new(name, Some(called.attribute), &resolved);
            (name, info)
        })
    }

    /// The settings of `table` that do not fit the known endpoints, a line each. If some could not be read (`are_read` is `false`),
    /// the others may fit with them.
    fn ignored_settings(&self, table: &SettingsTable, are_read: bool) -> Vec<String> {
        let registered = Registered::all().filter_map(|registered| {
            let policy = registered.policy?;
            Some((registered.name, policy()))
        });
        let called = self
            .called
            .iter()
            .map(|(name, called)| (name, called.attribute));
        let mut lines: Vec<String> = registered
            .chain(called)
            .flat_map(|(name, attribute)| {
                let ignored = table.resolve(name).apply(attribute).ignored;
                ignored
                    .into_iter()
                    .filter(move |ignored| are_read || ignored.why != AT_LEAST_TOO_LONG)
                    .map(move |ignored| ignored.describe(name))
            })
            .collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// The unknown endpoints that have settings, a line each.
    fn unknown_endpoints(&self) -> Vec<UnknownEndpoint> {
        self.table.unknown_endpoints(&self.known())
    }

    fn disabled(&self) -> Vec<String> {
        self.table.disabled(&self.known())
    }

    /// The endpoints of attributes in this program, and the endpoints that were called.
    fn known(&self) -> Vec<&str> {
        let registered = Registered::all().map(|registered| registered.name);
        let called = self.called.iter().map(|(name, _)| name);
        registered.chain(called).collect()
    }
}

/// A number that no other handle and no other reload in this process has.
fn new_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);

    NEXT.fetch_add(1, Ordering::Relaxed)
}
