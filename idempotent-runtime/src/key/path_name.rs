//! The name of a guarded function without the option `name`, made of its path.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use crate::key::name::shortened;

/// The place of a function in the source code: the file, the line and the column of its name.
pub(crate) type SourcePlace = (&'static str, usize, usize);

/// Returns the interned name of the function with this path at this place. Each guarded function leaks one short string.
pub(super) fn of(path: &'static str, place: &'static SourcePlace) -> &'static str {
    thread_local! {
        /// The latest names of this thread, so that most calls take no lock.
        static RECENT: [Cell<(CacheKey, &'static str)>; 16] = const { [const { Cell::new(((0, 0, 0), "")) }; 16] };
    }
    let address = (path.as_ptr().addr(), path.len(), (&raw const *place).addr());
    RECENT.with(|recent| {
        let recent = &recent[(address.0 / 8 + address.1) % recent.len()];
        let (known, name) = recent.get();
        if known == address {
            return name;
        }
        let name = interned(path, place, address);
        recent.set((address, name));
        name
    })
}

/// Why no call of the function with this interned name may run, if a function with an equal name was called before.
pub(super) fn shared(name: &'static str) -> Option<&'static str> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    names.shared.get(&name.as_ptr().addr()).copied()
}

/// The functions that share the path of another function, a line each.
pub(crate) fn shared_paths() -> Vec<&'static str> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    let mut lines: Vec<_> = names.shared.values().copied().collect();
    lines.sort_unstable();
    lines
}

/// The address and the length of a path, and the address of a place. They are faster to compare than texts.
type CacheKey = (usize, usize, usize);

static NAMES: LazyLock<RwLock<NameCache>> = LazyLock::new(RwLock::default);

#[derive(Default)]
struct NameCache {
    known: HashMap<CacheKey, &'static str>,
    /// The functions that have a name, each with its own copy of the name. Their order is the order of their first calls.
    functions: HashMap<String, Vec<(SourcePlace, &'static str)>>,
    /// By the address of a copy of a name: why its function may not run.
    shared: HashMap<usize, &'static str>,
}

fn interned(path: &'static str, place: &'static SourcePlace, address: CacheKey) -> &'static str {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.known.get(&address) {
        return name;
    }
    drop(names);
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    let NameCache {
        known,
        functions,
        shared,
    } = &mut *names;
    known.entry(address).or_insert_with(|| {
        let name = derive(path);
        let functions = functions.entry(name.clone()).or_default();
        // The constants of one function may have several addresses.
        if let Some((_, name)) = functions.iter().find(|(known, _)| known == place) {
            return name;
        }
        let first = functions.first().map(|(first, _)| *first);
        let name: &'static str = name.leak();
        functions.push((*place, name));
        if let Some((file, line, _)) = first {
            let (other_file, other_line, _) = place;
            let why = format!(
                "two functions have the path `{name}` ({file}:{line} and {other_file}:{other_line}), so their equal calls would be \
                 duplicates of each other; give each its own `name`"
            );
            shared.insert(name.as_ptr().addr(), why.leak());
        }
        name
    })
}

// Input:  `shop::Cards::pay::{{closure}}::{{closure}}`
// Output: `shop.Cards.pay`
//
// Input:  `shop::Repo<shop::User>::save<&str, u8>::{{closure}}::{{closure}}`
// Output: `shop.Repo<shop.User>.save`
//
// The type of the receiver is part of the name. The types of the arguments are not: a `&str` and a `String` with the
// same text are equal.
fn derive(path: &str) -> String {
    let function = path.replace("::{{closure}}", "");
    // Redis Cluster reads braces as a hash tag and would put all keys of the endpoint into one slot. A `#` marks the keys of
    // records that are not calls. A `:` ends a part of a key. A generic constant of type `char` can put them into a path.
    let name = without_arguments(&function)
        .replace("::", ".")
        .replace('%', "%25")
        .replace('#', "%23")
        .replace(':', "%3a")
        .replace('{', "(")
        .replace('}', ")");
    shortened(name)
}

/// Removes the generic arguments of the function: `save<&str, fn(u8) -> u8>` becomes `save`.
fn without_arguments(function: &str) -> &str {
    if !function.ends_with('>') {
        return function;
    }
    let mut depth = 0_usize;
    for (at, char) in function.char_indices().rev() {
        match char {
            '>' if !function[..at].ends_with('-') => depth += 1,
            '<' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let function = &function[..at];
            return function.strip_suffix("::").unwrap_or(function);
        }
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::name::LONGEST;

    #[test]
    fn a_name_has_module_type_and_function() {
        for (path, name) in [
            ("shop::pay::{{closure}}::{{closure}}", "shop.pay"),
            ("shop::Cards::pay::{{closure}}", "shop.Cards.pay"),
            (
                "<shop::Cards as shop::Pay>::pay::{{closure}}::{{closure}}",
                "<shop.Cards as shop.Pay>.pay",
            ),
            (
                "shop::Repo<shop::User>::save::{{closure}}",
                "shop.Repo<shop.User>.save",
            ),
        ] {
            assert_eq!(derive(path), name);
        }
    }

    #[test]
    fn an_identifier_of_any_script_is_part_of_a_name() {
        for (path, name) in [
            ("shop::भुगतान_करें::{{closure}}", "shop.भुगतान_करें"),
            ("shop::स्थिति::{{closure}}", "shop.स्थिति"),
            ("shop::支付::{{closure}}", "shop.支付"),
            (
                "shop::e\u{301}te\u{301}::{{closure}}",
                "shop.e\u{301}te\u{301}",
            ),
        ] {
            assert_eq!(derive(path), name);
        }
    }

    #[test]
    fn the_types_of_arguments_are_not_in_a_name() {
        for path in [
            "shop::Repo<shop::User>::save<&str, u8>::{{closure}}",
            "shop::Repo<shop::User>::save<alloc::vec::Vec<u8>>::{{closure}}",
            "shop::Repo<shop::User>::save<fn(u8) -> u8>::{{closure}}",
            "shop::Repo<shop::User>::save::<u8>::{{closure}}",
        ] {
            assert_eq!(derive(path), "shop.Repo<shop.User>.save");
        }
    }

    #[test]
    fn braces_never_reach_a_key() {
        let name = derive("shop::{{impl}}::pay::Arr<{ 3 }>::pay");
        assert!(!name.contains(['{', '}']), "{name}");
    }

    #[test]
    fn separators_of_a_key_never_reach_a_name() {
        for (path, name) in [
            (
                "shop::Sheet<'#'>::save::{{closure}}",
                "shop.Sheet<'%23'>.save",
            ),
            (
                "shop::Sheet<':'>::save::{{closure}}",
                "shop.Sheet<'%3a'>.save",
            ),
            (
                "shop::Sheet<'%'>::save::{{closure}}",
                "shop.Sheet<'%25'>.save",
            ),
            ("#tx::pay::{{closure}}", "%23tx.pay"),
        ] {
            assert_eq!(derive(path), name);
        }
    }

    #[test]
    fn a_long_name_is_cut_and_stays_unique() {
        let long = |end: &str| derive(&format!("shop::Repo<{}{end}>::save", "é::".repeat(99)));
        let (a, b) = (long("A"), long("B"));
        assert!(a.len() <= LONGEST && b.len() <= LONGEST);
        assert_ne!(a, b);
    }

    #[test]
    fn a_function_keeps_its_name_whatever_other_functions_are_called() {
        const PATH: &str = "shop::checkout::pay::{{closure}}";
        let names =
            [("a.rs", 1, 1), ("a.rs", 9, 1)].map(|place| of(PATH, Box::leak(Box::new(place))));
        assert_eq!(names, ["shop.checkout.pay"; 2]);
        assert_eq!(shared(names[0]), None);
        let why = shared(names[1]).unwrap();
        assert!(why.contains("a.rs:1 and a.rs:9"), "{why}");
        // Another address of the same place.
        let again = of(PATH, Box::leak(Box::new(("a.rs", 1, 1))));
        assert_eq!(shared(again), None);
        assert!(shared_paths().contains(&why));
    }
}
