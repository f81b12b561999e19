//! The endpoints that a handle knows, and what is set for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;

use super::EndpointInfo;
use super::registered::Registered;
use crate::endpoint::Endpoint;
use crate::error::SetupError;
use crate::policy::Policy;
use crate::settings::{Applied, Resolved, Settings, Table};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The endpoints of a handle.
#[derive(Debug, Default)]
pub(crate) struct KnownEndpoints {
    /// Locked for as long as a reload takes, so that the later one wins.
    settings: Mutex<Option<Settings>>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    called: HashMap<String, Called, foldhash::fast::RandomState>,
}

/// An endpoint that was called on this handle.
#[derive(Debug)]
struct Called {
    /// Of the latest call: it differs from that of another call if functions share the name, or an
    /// expression gave another value.
    attribute: Policy,
    resolved: Resolved,
    applied: Applied,
    /// Whether it was said that settings are left out.
    said: bool,
}

impl KnownEndpoints {
    /// Reads the settings.
    pub(crate) fn new(settings: Option<Settings>) -> Result<Self, SetupError> {
        let known = Self {
            settings: Mutex::new(settings),
            state: RwLock::default(),
        };
        if known.settings().is_some() {
            known.reload()?;
        }
        Ok(known)
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
            for (name, called) in called {
                called.resolved = table.of(name);
                called.applied = called.resolved.apply(called.attribute);
                called.said = false;
            }
            state.unknown()
        };
        for problem in unknown {
            tracing::warn!(target: "idempotence", "{problem}");
        }
        Ok(())
    }

    /// The policy of one call: what its attribute says, and over it what is set.
    pub(crate) fn effective(&self, endpoint: &Endpoint, attribute: Policy) -> Policy {
        match self.read().called.get(endpoint.as_str()) {
            Some(called) if called.attribute == attribute => return called.applied.policy,
            _ => {}
        }
        let mut state = self.write();
        let State { table, called } = &mut *state;
        let name = endpoint.as_str();
        let called = called.entry(name.to_owned()).or_insert_with(|| {
            let resolved = table.of(name);
            Called {
                attribute,
                applied: resolved.apply(attribute),
                resolved,
                said: false,
            }
        });
        if called.attribute != attribute {
            called.attribute = attribute;
            called.applied = called.resolved.apply(attribute);
        }
        let policy = called.applied.policy;
        let left_out = if called.said {
            Vec::new()
        } else {
            called.applied.left_out.clone()
        };
        called.said |= !left_out.is_empty();
        drop(state);
        for left_out in left_out {
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
    pub(crate) fn list(&self) -> Vec<EndpointInfo> {
        let state = self.read();
        let mut attributes: BTreeMap<&str, Option<Policy>> = BTreeMap::new();
        for registered in Registered::all() {
            let attribute = attributes.entry(registered.name).or_default();
            *attribute = attribute.or_else(|| registered.policy.map(|policy| policy()));
        }
        for (name, called) in &state.called {
            attributes.insert(name, Some(called.attribute));
        }
        let info = |(name, attribute)| EndpointInfo::new(name, attribute, &state.table.of(name));
        attributes.into_iter().map(info).collect()
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
    /// What of `table` does not fit the endpoints that are known.
    fn left_out(&self, table: &Table) -> Vec<String> {
        let registered = Registered::all().filter_map(|registered| {
            let policy = registered.policy?;
            Some((registered.name, policy()))
        });
        let called = self
            .called
            .iter()
            .map(|(name, called)| (name.as_str(), called.attribute));
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
        let called = self.called.keys().map(String::as_str);
        let known: Vec<&str> = registered.chain(called).collect();
        self.table.unknown(&known)
    }
}

fn all_of(problems: &[String]) -> SetupError {
    SetupError::new(problems.join("\n"))
}
