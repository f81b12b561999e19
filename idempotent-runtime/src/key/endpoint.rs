//! The name of a guarded function, for operators and settings.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::key::name::{InvalidName, LONGEST, LONGEST_NAME, shortened, why_invalid};
use crate::key::route::RouteName;

/// The name of a guarded function or of a route. Two functions with equal names share an endpoint on purpose.
#[derive(Clone)]
pub struct Endpoint(Name);

#[derive(Clone)]
enum Name {
    /// A function: people and keys write its name in the same way.
    Function(Cow<'static, str>),
    /// A route of the program.
    #[cfg_attr(
        not(feature = "http"),
        allow(dead_code, reason = "the layer of HTTP makes it")
    )]
    Route(&'static RouteName),
    /// A route from data, for example from the tool of an operator.
    DynamicRoute(Arc<RouteName>),
}

impl Endpoint {
    /// Returns the endpoint of the option `name`. The attribute has already checked the name.
    pub const fn named(name: &'static str) -> Self {
        Self(Name::Function(Cow::Borrowed(name)))
    }

    /// Returns the endpoint of a function without the option `name`, from the type name of a closure in the function.
    pub fn at(path: &'static str) -> Self {
        Self(Name::Function(Cow::Borrowed(derived(path))))
    }

    /// Returns the endpoint of a route of the program.
    #[cfg(feature = "http")]
    pub(crate) const fn of_route(route: &'static RouteName) -> Self {
        Self(Name::Route(route))
    }

    /// Returns the endpoint of a route that is not kept for the life of the program.
    pub(crate) fn of_dynamic_route(route: RouteName) -> Self {
        Self(Name::DynamicRoute(Arc::new(route)))
    }

    /// Returns the endpoint of a computed name. The name must obey the rules of the option `name`.
    pub(crate) fn try_new(name: impl Into<Cow<'static, str>>) -> Result<Self, InvalidName> {
        let name = name.into();
        let allowed = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
        match why_invalid(&name, LONGEST_NAME, allowed) {
            None => Ok(Self(Name::Function(name))),
            Some(why) => Err(InvalidName::new(
                &name,
                format!("{why}; use 1 to {LONGEST_NAME} of `A-Z a-z 0-9 . _ -`"),
            )),
        }
    }

    /// Returns the endpoint of recorded calls: of a function with the option `name` or without it, or of a route as
    /// `POST /orders/{id}/pay`.
    pub(crate) fn called(name: &str) -> Result<Self, InvalidName> {
        if let Some(route) = RouteName::read(name) {
            return route.map(Self::of_dynamic_route);
        }
        let names_type = name.len() <= LONGEST && name.contains('<');
        // The path of a method names its type between `<` and `>`, with more characters than the path of a function. An
        // identifier of Rust may contain marks that are neither letters nor digits, for example in Hindi.
        let allowed = |char: char| match char {
            '#' | ':' | '{' | '}' => false,
            _ if names_type => !char.is_control(),
            _ if char.is_ascii() => char.is_ascii_alphanumeric() || "._-()~%".contains(char),
            _ => !char.is_control() && !char.is_whitespace(),
        };
        match why_invalid(name, LONGEST, allowed) {
            None => Ok(Self(Name::Function(Cow::Owned(name.to_owned())))),
            Some(why) => Err(InvalidName::new(
                name,
                format!("{why}; `idempotence::endpoints()` lists the names"),
            )),
        }
    }

    /// The name as people write it.
    pub(crate) fn as_str(&self) -> &str {
        match &self.0 {
            Name::Function(name) => name,
            Name::Route(route) => route.spelled(),
            Name::DynamicRoute(route) => route.spelled(),
        }
    }

    /// The name as a part of a key.
    pub(crate) fn in_key(&self) -> &str {
        match &self.0 {
            Name::Function(name) => name,
            Name::Route(route) => route.in_key(),
            Name::DynamicRoute(route) => route.in_key(),
        }
    }

    /// The name, if it is a constant of the program. A program has few constants, but may compute any number of names.
    pub(crate) fn of_the_program(&self) -> Option<&'static str> {
        match self.0 {
            Name::Function(Cow::Borrowed(name)) => Some(name),
            Name::Route(route) => Some(route.spelled()),
            Name::Function(Cow::Owned(_)) | Name::DynamicRoute(_) => None,
        }
    }
}

/// Two endpoints are equal if their keys are equal.
impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.in_key() == other.in_key()
    }
}

impl Eq for Endpoint {}

impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.in_key().hash(state);
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Returns the interned name of `path`. Each guarded function leaks one short string.
fn derived(path: &'static str) -> &'static str {
    thread_local! {
        /// The latest names of this thread, so that most calls take no lock.
        static RECENT: [Cell<(Place, &'static str)>; 16] = const { [const { Cell::new(((0, 0), "")) }; 16] };
    }
    let place = (path.as_ptr().addr(), path.len());
    RECENT.with(|recent| {
        let recent = &recent[(place.0 / 8 + place.1) % recent.len()];
        let (known, name) = recent.get();
        if known == place {
            return name;
        }
        let name = interned(path, place);
        recent.set((place, name));
        name
    })
}

/// The address and the length of a path. They are faster to compare than its text.
type Place = (usize, usize);

fn interned(path: &'static str, place: Place) -> &'static str {
    static NAMES: LazyLock<RwLock<HashMap<Place, &'static str>>> = LazyLock::new(RwLock::default);

    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(&place) {
        return name;
    }
    drop(names);
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    names.entry(place).or_insert_with(|| derive(path).leak())
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
            assert!(Endpoint::called(name).is_ok(), "{name}");
        }
        for name in [
            "orders pay",
            "orders\u{a0}pay",
            "orders\u{85}pay",
            "orders/pay",
        ] {
            assert!(Endpoint::called(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_operator_names_a_route_as_the_program_does_or_as_a_key_does() {
        for name in ["POST /orders/{id}/pay", "POST./orders/(id)/pay"] {
            let endpoint = Endpoint::called(name).unwrap();
            assert_eq!(endpoint.as_str(), "POST /orders/{id}/pay");
            assert_eq!(endpoint.in_key(), "POST./orders/(id)/pay");
        }
        for name in ["post /orders", "POST /a b", "/orders", "POST orders"] {
            assert!(Endpoint::called(name).is_err(), "{name}");
        }
        assert!(Endpoint::try_new("POST /orders").is_err());
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
            assert!(Endpoint::called(name).is_ok(), "{name}");
        }
        for name in ["#tx:orders.pay", "#count:logins", "orders:pay", "#"] {
            assert!(Endpoint::called(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_long_name_is_cut_and_stays_unique() {
        let long = |end: &str| derive(&format!("shop::Repo<{}{end}>::save", "é::".repeat(99)));
        let (a, b) = (long("A"), long("B"));
        assert!(a.len() <= LONGEST && b.len() <= LONGEST);
        assert_ne!(a, b);
    }
}
