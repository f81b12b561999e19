//! Visits every state of a configuration.

use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::config::Config;
use super::rules::{Event, Rule};
use super::steps::{Action, Redemptions};

/// The result of checking one configuration.
#[derive(Debug)]
pub struct Outcome {
    /// The name of the configuration.
    pub config: &'static str,
    /// The number of visited states.
    pub states: usize,
    /// The wall-clock time.
    pub took: Duration,
    /// The first broken rule, and a shortest sequence of steps that breaks it.
    pub broken: Option<(&'static str, Vec<Action>)>,
    /// The required events that never happen.
    pub missing: Vec<Event>,
}

/// Visits all states, or stops as soon as one of `rules` is broken.
#[must_use]
pub fn check(config: Config, rules: &[Rule], events: &[Event]) -> Outcome {
    let name = config.name;
    let (rules, events) = (rules.to_vec(), events.to_vec());
    let protocol = Redemptions {
        config,
        rules: rules.clone(),
        events: events.clone(),
    };
    let start = Instant::now();
    let names = rules.iter().map(|rule| rule.name()).collect();
    let checker = protocol.checker().finish_when(HasDiscoveries::AnyOf(names));
    let checker = checker.spawn_bfs().join();
    let mut found = checker.discoveries();
    let missing = events
        .into_iter()
        .filter(|event| !found.contains_key(event.property().name));
    let missing = missing.collect();
    let mut rules = rules.into_iter();
    let broken =
        rules.find_map(|rule| Some((rule.name(), found.remove(rule.name())?.into_actions())));
    Outcome {
        config: name,
        states: checker.unique_state_count(),
        took: start.elapsed(),
        broken,
        missing,
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self.took.as_secs_f64();
        write!(
            f,
            "| token: {:<40} | {:>9} | {took:>6.1} | ",
            self.config, self.states
        )?;
        match &self.broken {
            None => write!(f, "holds |")?,
            Some((rule, way)) => write!(f, "broken: {rule}, {} steps |", way.len())?,
        }
        if !self.missing.is_empty() {
            write!(f, " never: {:?}", self.missing)?;
        }
        Ok(())
    }
}
