//! Visits every state of a configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::config::Config;
use crate::protocol::{Action, Protocol};
use crate::rules::{Event, Rule};

/// The result of checking one configuration.
#[derive(Debug)]
pub struct Outcome {
    /// The name of the configuration.
    pub config: &'static str,
    /// The number of visited states.
    pub states: usize,
    /// The maximum distance of a state from the first state, in steps.
    pub depth: usize,
    /// The wall-clock time.
    pub took: Duration,
    /// The first broken rule, and a shortest sequence of steps that breaks it.
    pub broken: Option<(&'static str, Vec<Action>)>,
    /// The required events that never happen.
    pub missing: Vec<Event>,
}

/// Visits all states, or stops as soon as one of `rules` is broken. With one thread the reported sequence is a shortest
/// one.
#[must_use]
pub fn check(config: Config, rules: &[Rule], events: &[Event], threads: usize) -> Outcome {
    let name = config.name;
    let protocol = Protocol {
        config,
        rules: rules.to_vec(),
        events: events.to_vec(),
    };
    let start = Instant::now();
    let names = (rules.iter().map(|rule| rule.name())).collect::<BTreeSet<_>>();
    let checker = protocol
        .checker()
        .finish_when(HasDiscoveries::AnyOf(names.clone()));
    let checker = checker.threads(threads).spawn_bfs().join();
    let took = start.elapsed();
    let mut found = checker.discoveries();
    let missing = |event: &&Event| !found.contains_key(event.property().name);
    let missing = events.iter().filter(missing).copied().collect();
    let broken = names
        .into_iter()
        .find_map(|rule| Some((rule, found.remove(rule)?.into_actions())));
    Outcome {
        config: name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took,
        broken,
        missing,
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            config,
            states,
            depth,
            took,
            broken,
            missing,
        } = self;
        let took = took.as_secs_f64();
        write!(
            f,
            "| {config:<42} | {states:>9} | {depth:>3} | {took:>6.1} | "
        )?;
        match broken {
            None => write!(f, "holds |")?,
            Some((rule, way)) => write!(f, "broken: {rule}, {} steps |", way.len())?,
        }
        if !missing.is_empty() {
            write!(f, " never: {missing:?}")?;
        }
        Ok(())
    }
}
