//! The search of all models: visits every state of a configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model, Property};

/// The configuration of a model: its first state, and the steps from each state.
pub trait Steps: Send + Sync + Sized + 'static {
    /// A state.
    type State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync;
    /// A step.
    type Action: Clone + fmt::Debug + PartialEq + Send + Sync;
    /// A rule that holds in every state.
    type Rule: Copy + fmt::Debug + Send + Sync;
    /// An event that happens in some state.
    type Event: Copy + fmt::Debug + Send + Sync;

    /// The name in reports.
    fn name(&self) -> &'static str;

    /// The state in which every run begins.
    fn first(&self) -> Self::State;

    /// Adds the steps that are possible in a state.
    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Makes a step. Returns whether it was possible.
    fn step(&self, state: &mut Self::State, action: Self::Action) -> bool;

    /// Whether a rule holds.
    fn rule(rule: Self::Rule) -> Property<Search<Self>>;

    /// Whether an event has happened.
    fn event(event: Self::Event) -> Property<Search<Self>>;
}

/// The items of [`Steps`] that are the same in all models. The types are those of the module.
macro_rules! of_module {
    () => {
        type State = State;
        type Action = Action;
        type Rule = Rule;
        type Event = Event;

        fn name(&self) -> &'static str {
            self.name
        }

        fn first(&self) -> State {
            State::first(self)
        }

        fn rule(rule: Rule) -> stateright::Property<$crate::search::Search<Self>> {
            rule.property()
        }

        fn event(event: Event) -> stateright::Property<$crate::search::Search<Self>> {
            event.property()
        }
    };
}
pub(crate) use of_module;

/// Each command once. Equal commands are next to each other, and executing one or the other is the same step.
pub(crate) fn distinct<C: PartialEq>(bag: &[C]) -> impl Iterator<Item = &C> {
    bag.chunk_by(PartialEq::eq).map(|equal| &equal[0])
}

/// A configuration, with what holds and happens in it.
#[derive(Clone, Debug)]
pub struct Search<C: Steps> {
    /// The configuration.
    pub config: C,
    /// The rules that hold in it.
    pub rules: Vec<C::Rule>,
    /// The events that must happen in it.
    pub events: Vec<C::Event>,
}

impl<C: Steps> Model for Search<C> {
    type State = C::State;
    type Action = C::Action;

    fn init_states(&self) -> Vec<C::State> {
        vec![self.config.first()]
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let rules = self.rules.iter().map(|rule| C::rule(*rule));
        let events = self.events.iter().map(|event| C::event(*event));
        rules.chain(events).collect()
    }

    fn actions(&self, state: &C::State, actions: &mut Vec<C::Action>) {
        self.config.actions(state, actions);
    }

    fn next_state(&self, last: &C::State, action: C::Action) -> Option<C::State> {
        let mut state = last.clone();
        let was_possible = self.config.step(&mut state, action);
        (was_possible && state != *last).then_some(state)
    }
}

impl<C: Steps> Search<C> {
    /// Whether one of the steps that `counts` leads to another state.
    pub(crate) fn goes_on(&self, state: &C::State, counts: impl Fn(&C::Action) -> bool) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        let mut own = actions.into_iter().filter(counts);
        own.any(|action| self.next_state(state, action).is_some())
    }

    /// Looks for a state in which this rule is broken.
    #[must_use]
    pub fn breaks(config: C, rule: C::Rule) -> Outcome<C> {
        let search = Self {
            config,
            rules: vec![rule],
            events: Vec::new(),
        };
        search.check(1)
    }

    /// Visits all states, or stops as soon as one of the rules is broken. With one thread the reported sequence is a shortest
    /// one.
    #[must_use]
    pub fn check(self, threads: usize) -> Outcome<C> {
        let config = self.config.name();
        let events = self.events.clone();
        let rules = self.rules.iter().map(|rule| C::rule(*rule).name);
        let rules: BTreeSet<_> = rules.collect();
        let start = Instant::now();
        let checker = self
            .checker()
            .finish_when(HasDiscoveries::AnyOf(rules.clone()));
        let checker = checker.threads(threads).spawn_bfs().join();
        let took = start.elapsed();
        let mut found = checker.discoveries();
        let is_missing = |event: &C::Event| !found.contains_key(C::event(*event).name);
        let missing = events.into_iter().filter(is_missing).collect();
        let broken = rules
            .into_iter()
            .find_map(|rule| Some((rule, found.remove(rule)?.into_actions())));
        Outcome {
            config,
            states: checker.unique_state_count(),
            depth: checker.max_depth(),
            took,
            broken,
            missing,
        }
    }
}

/// The result of checking one configuration.
#[derive(Debug)]
pub struct Outcome<C: Steps> {
    /// The name of the configuration.
    pub config: &'static str,
    /// The number of visited states.
    pub states: usize,
    /// The maximum distance of a state from the first state, in steps.
    pub depth: usize,
    /// The wall-clock time.
    pub took: Duration,
    /// The first broken rule, and a shortest sequence of steps that breaks it.
    pub broken: Option<(&'static str, Vec<C::Action>)>,
    /// The required events that never happen.
    pub missing: Vec<C::Event>,
}

impl<C: Steps> Outcome<C> {
    /// Whether all rules hold and all events happen.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_none() && self.missing.is_empty()
    }
}

impl<C: Steps> fmt::Display for Outcome<C> {
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
