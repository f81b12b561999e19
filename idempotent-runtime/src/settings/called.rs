//! The endpoints that were called on a handle: those that the program names, and the latest of those whose names are data.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;

use crate::key::endpoint::Endpoint;
use crate::policy::Policy;

/// An endpoint that was called.
#[derive(Debug)]
pub(super) struct Called {
    /// Of the latest call: it differs from that of another call if functions share the name, or an
    /// expression gave another value.
    pub(super) attribute: Policy,
    /// The same with what is set.
    pub(super) policy: Policy,
    /// Whether it was said that settings are left out.
    pub(super) said: bool,
}

/// The endpoints that were called.
///
/// A program has as many names as functions, and they stay. Names that are data may be any number, so they are in two
/// halves: when the later half is full, the earlier one is forgotten, and the later one takes its place. A name that goes on being called moves
/// over to the later half. Looking there changes nothing, so most calls read only.
#[derive(Debug, Default)]
pub(super) struct CalledEndpoints {
    of_the_program: Names<&'static str>,
    later: Names<Box<str>>,
    earlier: Names<Box<str>>,
    forgotten: u64,
}

type Names<N> = HashMap<N, Called, RandomState>;

/// How many names that are data are kept.
pub(super) const MOST_NAMES: usize = 10_000;

impl CalledEndpoints {
    /// An endpoint that need not be [entered](Self::enter) again.
    pub(super) fn get(&self, name: &str) -> Option<&Called> {
        let called = self.of_the_program.get(name);
        called.or_else(|| self.later.get(name))
    }

    /// Enters an endpoint that is called.
    pub(super) fn enter(
        &mut self,
        endpoint: &Endpoint,
        new: impl FnOnce() -> Called,
    ) -> &mut Called {
        if let Some(name) = endpoint.of_the_program() {
            return self.of_the_program.entry(name).or_insert_with(new);
        }
        let name = endpoint.as_str();
        let known = self.earlier.remove(name);
        if self.later.len() >= MOST_NAMES / 2 && !self.later.contains_key(name) {
            let later = mem::take(&mut self.later);
            let forgotten = mem::replace(&mut self.earlier, later);
            self.forgotten += forgotten.len() as u64;
        }
        let later = self.later.entry(name.into());
        later.or_insert_with(|| known.unwrap_or_else(new))
    }

    /// All that are kept.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Called)> {
        let data = self.earlier.iter().chain(&self.later);
        let data = data.map(|(name, called)| (&**name, called));
        data.chain(
            self.of_the_program
                .iter()
                .map(|(name, called)| (*name, called)),
        )
    }

    /// All that are kept, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Called)> {
        let data = self.earlier.iter_mut().chain(&mut self.later);
        let data = data.map(|(name, called)| (&**name, called));
        let of_the_program = self.of_the_program.iter_mut();
        data.chain(of_the_program.map(|(name, called)| (*name, called)))
    }

    /// How often a name was forgotten.
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
        endpoints.enter(&endpoint, || Called {
            attribute: policy,
            policy,
            said: false,
        });
    }

    #[test]
    fn of_names_that_are_data_the_latest_stay_and_so_do_those_still_called() {
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
    fn names_of_the_program_are_never_forgotten() {
        let mut endpoints = CalledEndpoints::default();
        let policy = Policy::new(Duration::from_secs(1));
        endpoints.enter(&Endpoint::named("orders.pay"), || Called {
            attribute: policy,
            policy,
            said: true,
        });
        for number in 0..MOST_NAMES * 2 {
            enter(&mut endpoints, format!("data.{number}"));
        }
        assert!(endpoints.get("orders.pay").unwrap().said);
    }

    #[test]
    fn a_name_that_is_called_again_keeps_what_is_known_of_it() {
        let mut endpoints = CalledEndpoints::default();
        enter(&mut endpoints, "data.first".to_owned());
        for (_, called) in endpoints.iter_mut() {
            called.said = true;
        }
        for number in 0..MOST_NAMES / 2 {
            enter(&mut endpoints, format!("data.{number}"));
        }
        assert!(endpoints.get("data.first").is_none(), "it is to be entered");
        enter(&mut endpoints, "data.first".to_owned());
        assert!(endpoints.get("data.first").unwrap().said);
        assert_eq!(endpoints.forgotten(), 0);
    }
}
