//! The guarded functions that are known before their first call: the functions with the option `name`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Once;

use crate::key::path_name::shared_paths;
use crate::policy::Policy;

/// A guarded function with the option `name`, collected when the program is linked.
#[derive(Debug)]
pub struct Registered {
    pub(super) name: &'static str,
    /// `None` if the attribute has expressions, which are evaluated in each call.
    pub(super) policy: Option<fn() -> Policy>,
    /// Whether the function has the option `tx`.
    tx: bool,
    place: NamePlace,
}

/// The place of a function's name in the source code. All instances of a generic function have one place. All functions that a
/// macro makes with one name also have one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NamePlace {
    file: &'static str,
    line: usize,
    column: usize,
}

impl Registered {
    /// Called by generated code.
    pub const fn new(
        name: &'static str,
        policy: Option<fn() -> Policy>,
        tx: bool,
        (file, line, column): (&'static str, usize, usize),
    ) -> Self {
        let place = NamePlace { file, line, column };
        Self {
            name,
            policy,
            tx,
            place,
        }
    }

    /// All functions of this program with the option `name`.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        inventory::iter::<Self>.into_iter()
    }
}

/// The names and the paths that several functions share, one line each. Equal calls of these functions would be duplicates of each
/// other.
///
/// A function with `tx` and a function without it may share a name, because their records have different keys.
pub(crate) fn shared_names() -> Vec<String> {
    let mut places: BTreeMap<_, BTreeSet<NamePlace>> = BTreeMap::new();
    for registered in Registered::all() {
        let name = (registered.name, registered.tx);
        places.entry(name).or_default().insert(registered.place);
    }
    places.retain(|_, places| places.len() > 1);
    let lines = places.into_iter().map(|((name, _), places)| {
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        let (count, places) = (places.len(), places.join(" and "));
        format!("{count} functions have the name `{name}`, so equal calls of them are duplicates of each other: {places}")
    });
    let paths = shared_paths().into_iter().map(str::to_owned);
    lines.chain(paths).collect()
}

/// What to do about [`shared_names`].
pub(crate) const ONE_NAME_EACH: &str =
    "give each function its own `name`, or let all of them call one guarded function";

/// Logs the [`shared_names`], once per process.
pub(crate) fn report_shared_names() {
    static REPORTED: Once = Once::new();

    REPORTED.call_once(|| {
        for shared in shared_names() {
            tracing::error!(target: "idempotence", "{shared}; {ONE_NAME_EACH}");
        }
    });
}

impl fmt::Display for NamePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

inventory::collect!(Registered);
