//! The name of a guarded function, as operators and configuration see it.

use std::any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, PoisonError, RwLock};

/// One guarded function. Equal names join on purpose.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(Cow<'static, str>);

impl Endpoint {
    /// The endpoint of the option `name`, which the attribute has checked.
    pub const fn named(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The endpoint of a function without a type, from the type name of a function nested in it.
    pub fn at(path: &'static str) -> Self {
        Self(Cow::Borrowed(derived(path, "")))
    }

    /// The endpoint of a method. `path` says `Repo<T>` or names only the trait where `T` says which.
    pub fn on<T: ?Sized>(path: &'static str) -> Self {
        Self(Cow::Borrowed(derived(path, any::type_name::<T>())))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The name for a path and a type, made once and kept for the life of the process: there are as many
/// as there are functions.
fn derived(path: &'static str, on: &'static str) -> &'static str {
    /// Where the two texts are, which is quicker to compare than what they say.
    type Place = [(usize, usize); 2];
    static NAMES: LazyLock<RwLock<HashMap<Place, &'static str>>> = LazyLock::new(RwLock::default);

    let place = [path, on].map(|text| (text.as_ptr().addr(), text.len()));
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(&place) {
        return name;
    }
    drop(names);
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    names
        .entry(place)
        .or_insert_with(|| derive(path, on).leak())
}

// Input:  `shop::Cards::pay::{{closure}}::here` on `shop::Cards`
// Output: `shop.Cards.pay`
//
// Input:  `shop::Pay::pay::{{closure}}::here` on `shop::Cards`
// Output: `shop.Pay.pay@shop.Cards`
fn derive(path: &str, on: &str) -> String {
    let function = path
        .strip_suffix("::here")
        .unwrap_or(path)
        .replace("::{{closure}}", "");
    let tells_the_type = on.is_empty()
        || function.starts_with(&format!("{on}::"))
        || function.starts_with(&format!("<{on} as "));
    let name = if tells_the_type {
        function
    } else {
        format!("{function}@{on}")
    };
    // Braces would be a hash tag to Redis Cluster and put all keys of the endpoint into one slot.
    name.replace("::", ".").replace('{', "(").replace('}', ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_closure_and_no_colons() {
        assert_eq!(derive("shop::pay::{{closure}}::here", ""), "shop.pay");
        assert_eq!(
            derive("shop::Cards::pay::{{closure}}::here", "shop::Cards"),
            "shop.Cards.pay"
        );
        assert_eq!(
            derive("<shop::Cards as shop::Pay>::pay::here", "shop::Cards"),
            "<shop.Cards as shop.Pay>.pay"
        );
    }

    #[test]
    fn a_path_that_hides_the_type_is_told_apart_by_it() {
        let users = derive("shop::Repo<T>::save::here", "shop::Repo<shop::User>");
        let orders = derive("shop::Repo<T>::save::here", "shop::Repo<shop::Order>");
        assert_eq!(users, "shop.Repo<T>.save@shop.Repo<shop.User>");
        assert_ne!(users, orders);
    }

    #[test]
    fn braces_never_reach_a_key() {
        let name = derive("shop::{{impl}}::pay::here", "Arr<{ 3 }>");
        assert!(!name.contains(['{', '}']), "{name}");
    }
}
