//! The endpoints that were called on a handle: all with literal names, and the latest of the dynamic names.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;

use crate::key::endpoint::Endpoint;
use crate::policy::Policy;

/// An endpoint that was called.
#[derive(Debug)]
pub(super) struct CalledEndpoint {
    /// The attribute's policy in the latest call that looked the endpoint up. It varies between calls if functions share the
    /// name, or if an expression in the attribute gives another value.
    pub(super) attribute: Policy,
    /// The attribute's policy with the settings applied.
    pub(super) policy: Policy,
    /// Whether the log has reported the settings that are ignored.
    pub(super) reported: bool,
}

/// The endpoints that were called.
///
/// A program has at most one literal name per function, so these names are never dropped. Dynamic names are data, so there may
/// be any number of them. They are in two generations: when the later generation is full, the earlier generation is dropped,
/// and the later one takes its place. A name that is still called moves to the later generation. Most calls only read.
#[derive(Debug, Default)]
pub(super) struct CalledEndpoints {
    literal: EndpointMap<&'static str>,
    later: EndpointMap<Box<str>>,
    earlier: EndpointMap<Box<str>>,
    forgotten: u64,
}

type EndpointMap<N> = HashMap<N, CalledEndpoint, RandomState>;

/// How many dynamic names are remembered.
pub(super) const MOST_NAMES: usize = 10_000;

impl CalledEndpoints {
    /// The endpoint, unless it must be [entered](Self::enter) first.
    pub(super) fn get(&self, name: &str) -> Option<&CalledEndpoint> {
        let called = self.literal.get(name);
        called.or_else(|| self.later.get(name))
    }

    /// Enters a called endpoint, or moves its dynamic name to the later generation.
    pub(super) fn enter(
        &mut self,
        endpoint: &Endpoint,
        new: impl FnOnce() -> CalledEndpoint,
    ) -> &mut CalledEndpoint {
        if let Some(name) = endpoint.of_the_program() {
            return self.literal.entry(name).or_insert_with(new);
        }
        let name = endpoint.as_str();
        let earlier = self.earlier.remove(name);
        if self.later.len() >= MOST_NAMES / 2 && !self.later.contains_key(name) {
            let later = mem::take(&mut self.later);
            let forgotten = mem::replace(&mut self.earlier, later);
            self.forgotten += forgotten.len() as u64;
        }
        let later = self.later.entry(name.into());
        later.or_insert_with(|| earlier.unwrap_or_else(new))
    }

    /// All remembered endpoints.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &CalledEndpoint)> {
        let data = self.earlier.iter().chain(&self.later);
        let data = data.map(|(name, called)| (&**name, called));
        data.chain(self.literal.iter().map(|(name, called)| (*name, called)))
    }

    /// All remembered endpoints, mutable.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut CalledEndpoint)> {
        let data = self.earlier.iter_mut().chain(&mut self.later);
        let data = data.map(|(name, called)| (&**name, called));
        let literal = self.literal.iter_mut();
        data.chain(literal.map(|(name, called)| (*name, called)))
    }

    /// How often a dynamic name was dropped.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn enter(endpoints: &mut CalledEndpoints, name: String) {
        let endpoint = Endpoint::try_new(name).unwrap();
        let policy = Policy::new(Duration::from_secs(1));
        endpoints.enter(&endpoint, || CalledEndpoint {
            attribute: policy,
            policy,
            reported: false,
        });
    }

    #[test]
    fn the_latest_dynamic_names_are_kept_and_names_still_called() {
        let mut endpoints = CalledEndpoints::default();
        for number in 0..300_000 {
            enter(&mut endpoints, format!("data.{number}"));
            if endpoints.get("data.busy").is_none() {
                enter(&mut endpoints, "data.busy".to_owned());
            }
        }
        let count = endpoints.iter().count();
        assert!(count <= MOST_NAMES, "{count}");
        assert_eq!(count as u64 + endpoints.forgotten(), 300_001);
        for latest in [300_000 - MOST_NAMES / 2 + 1, 299_999] {
            let name = format!("data.{latest}");
            assert!(endpoints.iter().any(|(known, _)| known == name), "{name}");
        }
        assert!(endpoints.get("data.0").is_none());
        assert!(endpoints.get("data.busy").is_some());
    }

    #[test]
    fn literal_names_are_never_dropped() {
        let mut endpoints = CalledEndpoints::default();
        let policy = Policy::new(Duration::from_secs(1));
        endpoints.enter(&Endpoint::named("orders.pay"), || CalledEndpoint {
            attribute: policy,
            policy,
            reported: true,
        });
        for number in 0..MOST_NAMES * 2 {
            enter(&mut endpoints, format!("data.{number}"));
        }
        assert!(endpoints.get("orders.pay").unwrap().reported);
    }

    #[test]
    fn a_dynamic_name_that_is_called_again_keeps_its_state() {
        let mut endpoints = CalledEndpoints::default();
        enter(&mut endpoints, "data.first".to_owned());
        for (_, called) in endpoints.iter_mut() {
            called.reported = true;
        }
        for number in 0..MOST_NAMES / 2 {
            enter(&mut endpoints, format!("data.{number}"));
        }
        assert!(
            endpoints.get("data.first").is_none(),
            "the name must be entered again"
        );
        enter(&mut endpoints, "data.first".to_owned());
        assert!(endpoints.get("data.first").unwrap().reported);
        assert_eq!(endpoints.forgotten(), 0);
    }
}
