//! The endpoints that a handle knows, and what is set for them.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::Settings;
use super::called::{Called, CalledEndpoints, MOST_NAMES};
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
    /// Of the handle.
    prefix: String,
    /// Locked for as long as a reload takes, so that the later one wins.
    settings: Mutex<Option<Settings>>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    called: CalledEndpoints,
}

impl KnownEndpoints {
    /// Reads the settings.
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

    /// Says which prefix the handle has.
    pub(crate) fn of(self, prefix: String) -> Self {
        Self { prefix, ..self }
    }

    /// Reads the settings again; if anything is wrong with them, nothing changes.
    pub(crate) fn reload(&self) -> Result<(), SetupError> {
        let settings = self.settings();
        let Some(settings) = &*settings else {
            let what = "this handle was built without `settings`, so there are none to reload";
            return Err(SetupError::new(what));
        };
        let table = settings.read().map_err(|problems| all_of(&problems))?;
        let unknown = {
            let mut state = self.write();
            let left_out = state.left_out(&table);
            if !left_out.is_empty() {
                return Err(all_of(&left_out));
            }
            state.table = table;
            let State { table, called } = &mut *state;
            for (name, called) in called.iter_mut() {
                called.policy = table.of(name).apply(called.attribute).policy;
                called.said = false;
            }
            state.unknown()
        };
        for problem in unknown {
            tracing::warn!(target: "idempotence", "{problem}");
        }
        Ok(())
    }

    /// Enters an endpoint that is called. Returns the policy of the call: what its attribute says, and over it what is set.
    pub(crate) fn enter(&self, endpoint: &Endpoint, attribute: Policy) -> Policy {
        match self.read().called.get(endpoint.as_str()) {
            Some(called) if called.attribute == attribute => return called.policy,
            _ => {}
        }
        let mut state = self.write();
        let State { table, called } = &mut *state;
        let name = endpoint.as_str();
        let mut applied = table.of(name).apply(attribute);
        let policy = applied.policy;
        let forgotten_before = called.forgotten();
        let entered = called.enter(endpoint, || Called {
            attribute,
            policy,
            said: false,
        });
        (entered.attribute, entered.policy) = (attribute, policy);
        if entered.said {
            applied.left_out.clear();
        }
        entered.said |= !applied.left_out.is_empty();
        let first_forgotten = forgotten_before == 0 && called.forgotten() > 0;
        drop(state);
        if first_forgotten {
            tracing::warn!(
                target: "idempotence",
                endpoint = %endpoint,
                "the names of more than {MOST_NAMES} endpoints are data, so `endpoints` forgets those not called lately, and metrics \
                 count most of them as `other`: name endpoints by what they do, and put what differs into the key"
            );
        }
        for left_out in applied.left_out {
            tracing::error!(
                target: "idempotence",
                endpoint = %endpoint,
                "{}; it is left out",
                left_out.of(name)
            );
        }
        policy
    }

    /// All endpoints by name: those of this program that are known from the start, and those called.
    pub(crate) fn list(&self) -> Endpoints {
        let state = self.read();
        let mut attributes: BTreeMap<&str, Option<Policy>> = BTreeMap::new();
        for registered in Registered::all() {
            let attribute = attributes.entry(registered.name).or_default();
            *attribute = attribute.or_else(|| registered.policy.map(|policy| policy()));
        }
        let of_attribute = |(name, attribute)| {
            (
                name,
                EndpointInfo::new(name, attribute, &state.table.of(name)),
            )
        };
        let mut known: BTreeMap<&str, EndpointInfo> =
            attributes.into_iter().map(of_attribute).collect();
        known.extend(state.called().map(|(name, info)| (name, info.called())));
        Endpoints::new(known.into_values().collect(), state.called.forgotten())
    }

    /// Those called, for the list of another handle.
    pub(crate) fn list_called(&self) -> Endpoints {
        let state = self.read();
        let called = state.called().map(|(_, info)| info.called_on(&self.prefix));
        Endpoints::new(called.collect(), state.called.forgotten())
    }

    /// What is set in vain, a line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let state = self.read();
        let mut problems = state.unknown();
        problems.extend(state.left_out(&state.table));
        problems
    }

    fn settings(&self) -> MutexGuard<'_, Option<Settings>> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The endpoints that were called, as they run.
    fn called(&self) -> impl Iterator<Item = (&str, EndpointInfo)> {
        self.called.iter().map(|(name, called)| {
            let resolved = self.table.of(name);
            let info = EndpointInfo::new(name, Some(called.attribute), &resolved);
            (name, info)
        })
    }

    /// What of `table` does not fit the endpoints that are known.
    fn left_out(&self, table: &Table) -> Vec<String> {
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
                let left_out = table.of(name).apply(attribute).left_out;
                left_out.into_iter().map(move |left_out| left_out.of(name))
            })
            .collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// What `table` sets for endpoints that are not known.
    fn unknown(&self) -> Vec<String> {
        let registered = Registered::all().map(|registered| registered.name);
        let called = self.called.iter().map(|(name, _)| name);
        let known: Vec<&str> = registered.chain(called).collect();
        self.table.unknown(&known)
    }
}

fn all_of(problems: &[String]) -> SetupError {
    SetupError::new(problems.join("\n"))
}
