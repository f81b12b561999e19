//! The endpoints that a handle knows, and their settings.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::Settings;
use super::called::{CalledEndpoint, CalledEndpoints, MOST_NAMES};
use super::endpoint_info::EndpointInfo;
use super::list::Endpoints;
use super::registered::Registered;
use super::table::Table;
use crate::error::SetupError;
use crate::key::endpoint::Endpoint;
use crate::policy::Policy;
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The endpoints of a handle.
#[derive(Debug, Default)]
pub(crate) struct KnownEndpoints {
    /// The prefix of the handle.
    prefix: String,
    /// Locked during a reload, so that of two reloads the later wins.
    settings: Mutex<Option<Settings>>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    called: CalledEndpoints,
}

impl KnownEndpoints {
    /// The endpoints of a handle with these settings, which are read now.
    pub(crate) fn new(settings: Option<Settings>) -> Result<Self, SetupError> {
        let known = Self {
            prefix: String::new(),
            settings: Mutex::new(settings),
            state: RwLock::default(),
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
        let table = settings.read().map_err(|problems| setup_error(&problems))?;
        let unknown = {
            let mut state = self.write_state();
            let ignored = state.ignored_settings(&table);
            if !ignored.is_empty() {
                return Err(setup_error(&ignored));
            }
            state.table = table;
            let State { table, called } = &mut *state;
            for (name, called) in called.iter_mut() {
                called.policy = table.resolve(name).apply(called.attribute).policy;
                called.reported = false;
            }
            state.unknown_endpoints()
        };
        for problem in unknown {
            tracing::warn!(target: "idempotence", "{problem}");
        }
        Ok(())
    }

    /// Enters a called endpoint. Returns the policy of the call: the attribute's policy with the settings applied.
    pub(crate) fn enter(&self, endpoint: &Endpoint, attribute: Policy) -> Policy {
        match self.read_state().called.get(endpoint.as_str()) {
            Some(called) if called.attribute == attribute => return called.policy,
            _ => {}
        }
        let mut state = self.write_state();
        let State { table, called } = &mut *state;
        let name = endpoint.as_str();
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
        policy
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
        let mut problems = state.unknown_endpoints();
        problems.extend(state.ignored_settings(&state.table));
        problems
    }

    fn settings(&self) -> MutexGuard<'_, Option<Settings>> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The called endpoints with the settings in force.
    fn called(&self) -> impl Iterator<Item = (&str, EndpointInfo)> {
        self.called.iter().map(|(name, called)| {
            let resolved = self.table.resolve(name);
            let info = EndpointInfo::new(name, Some(called.attribute), &resolved);
            (name, info)
        })
    }

    /// The settings of `table` that do not fit the known endpoints, a line each.
    fn ignored_settings(&self, table: &Table) -> Vec<String> {
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
                    .map(move |ignored| ignored.describe(name))
            })
            .collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// The unknown endpoints that have settings, a line each.
    fn unknown_endpoints(&self) -> Vec<String> {
        let registered = Registered::all().map(|registered| registered.name);
        let called = self.called.iter().map(|(name, _)| name);
        let known: Vec<&str> = registered.chain(called).collect();
        self.table.unknown_endpoints(&known)
    }
}

fn setup_error(problems: &[String]) -> SetupError {
    SetupError::new(problems.join("\n"))
}
