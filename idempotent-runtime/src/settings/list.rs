//! The list of the guarded functions of a program.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::{slice, vec};

use super::endpoint_info::EndpointInfo;

/// The known guarded functions, sorted by name: a slice of [`EndpointInfo`]. Prints one endpoint per line.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    known: Vec<EndpointInfo>,
    forgotten: u64,
}

impl Endpoints {
    pub(super) fn new(known: Vec<EndpointInfo>, forgotten: u64) -> Self {
        Self { known, forgotten }
    }

    /// How often an endpoint was dropped from the list. A handle remembers the latest 10,000 names that are made at run time
    /// (`idempotency.call(name)`). An endpoint that is called and dropped again counts again.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Adds the lists of other handles. An endpoint that was not called on this handle is listed as uncalled only if no other
    /// handle has called it.
    pub(crate) fn merge(mut self, others: Vec<Self>) -> Self {
        let mut elsewhere = Vec::new();
        for other in others {
            self.forgotten += other.forgotten;
            elsewhere.extend(other.known);
        }
        let names: HashSet<&str> = elsewhere.iter().map(EndpointInfo::name).collect();
        self.known
            .retain(|info| info.called || !names.contains(info.name()));
        self.known.extend(elsewhere);
        let key = |info: &EndpointInfo| (info.name.clone(), info.prefix.clone(), info.to_string());
        self.known.sort_by_cached_key(key);
        self.known.dedup_by_key(|info| key(info));
        self
    }
}

impl Deref for Endpoints {
    type Target = [EndpointInfo];

    fn deref(&self) -> &[EndpointInfo] {
        &self.known
    }
}

impl IntoIterator for Endpoints {
    type Item = EndpointInfo;
    type IntoIter = vec::IntoIter<EndpointInfo>;

    fn into_iter(self) -> Self::IntoIter {
        self.known.into_iter()
    }
}

impl<'a> IntoIterator for &'a Endpoints {
    type Item = &'a EndpointInfo;
    type IntoIter = slice::Iter<'a, EndpointInfo>;

    fn into_iter(self) -> Self::IntoIter {
        self.known.iter()
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, info) in self.known.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{info}")?;
        }
        match self.forgotten {
            0 => Ok(()),
            forgotten => write!(
                f,
                "\n… and {forgotten} more with names made at run time, which are not kept"
            ),
        }
    }
}
