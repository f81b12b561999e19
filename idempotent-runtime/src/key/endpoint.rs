//! The name of a guarded function, for operators and settings.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::key::name::{InvalidName, LONGEST, LONGEST_NAME, why_invalid};
use crate::key::path_name::{self, SourcePlace};
use crate::key::route::RouteName;

/// The name of a guarded function or of a route. Two functions with equal names share an endpoint on purpose.
#[derive(Clone)]
pub struct Endpoint(EndpointName);

#[derive(Clone)]
enum EndpointName {
    /// A function: people and keys write its name in the same way.
    Function(Cow<'static, str>),
    /// A route of the program.
    Route(&'static RouteName),
    /// A route from data, for example from the tool of an operator.
    DynamicRoute(Arc<RouteName>),
}

impl Endpoint {
    /// Returns the endpoint of the option `name`. The attribute has already checked the name.
    pub const fn named(name: &'static str) -> Self {
        Self(EndpointName::Function(Cow::Borrowed(name)))
    }

    /// Returns the endpoint of a function without the option `name`, from the type name of a closure in the function.
    pub fn at(path: &'static str) -> Self {
        Self::written_at(path, &("", 0, 0))
    }

    /// Does the same as [`at`](Self::at). The place in the source code tells functions with equal paths apart.
    pub fn written_at(path: &'static str, place: &'static SourcePlace) -> Self {
        Self(EndpointName::Function(Cow::Borrowed(path_name::of(
            path, place,
        ))))
    }

    /// Returns the endpoint of a route of the program.
    pub const fn of_route(route: &'static RouteName) -> Self {
        Self(EndpointName::Route(route))
    }

    /// Returns the endpoint of a route that is not kept for the life of the program.
    pub fn of_dynamic_route(route: RouteName) -> Self {
        Self(EndpointName::DynamicRoute(Arc::new(route)))
    }

    /// Returns the endpoint of a computed name. The name must obey the rules of the option `name`.
    pub fn try_new(name: impl Into<Cow<'static, str>>) -> Result<Self, InvalidName> {
        let name = name.into();
        let allowed = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
        match why_invalid(&name, LONGEST_NAME, allowed) {
            None => Ok(Self(EndpointName::Function(name))),
            Some(why) => Err(InvalidName::new(
                &name,
                format!("{why}; use 1 to {LONGEST_NAME} of `A-Z a-z 0-9 . _ -`"),
            )),
        }
    }

    /// Returns the endpoint of recorded calls: of a function with the option `name` or without it, or of a route as
    /// `POST /orders/{id}/pay`.
    pub fn called(name: &str) -> Result<Self, InvalidName> {
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
            None => Ok(Self(EndpointName::Function(Cow::Owned(name.to_owned())))),
            Some(why) => Err(InvalidName::new(
                name,
                format!("{why}; `idempotence::endpoints()` lists the names"),
            )),
        }
    }

    /// The name as people write it.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            EndpointName::Function(name) => name,
            EndpointName::Route(route) => route.spelled(),
            EndpointName::DynamicRoute(route) => route.spelled(),
        }
    }

    /// The name as a part of a key.
    pub fn in_key(&self) -> &str {
        match &self.0 {
            EndpointName::Function(name) => name,
            EndpointName::Route(route) => route.in_key(),
            EndpointName::DynamicRoute(route) => route.in_key(),
        }
    }

    /// Why no call of this function may run: another function without the option `name` has the same path.
    pub(crate) fn shared_path(&self) -> Option<&'static str> {
        path_name::shared(self.of_the_program()?)
    }

    /// The name, if it is a constant of the program. A program has few constants, but may compute any number of names.
    pub fn of_the_program(&self) -> Option<&'static str> {
        match self.0 {
            EndpointName::Function(Cow::Borrowed(name)) => Some(name),
            EndpointName::Route(route) => Some(route.spelled()),
            EndpointName::Function(Cow::Owned(_)) | EndpointName::DynamicRoute(_) => None,
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_operator_names_a_function_as_its_path_is_written_in_keys() {
        for path in [
            "shop::भुगतान_करें::{{closure}}",
            "shop::स्थिति::{{closure}}",
            "shop::支付::{{closure}}",
            "shop::e\u{301}te\u{301}::{{closure}}",
            "shop::Sheet<'#'>::save::{{closure}}",
            "shop::Sheet<':'>::save::{{closure}}",
            "shop::Sheet<'%'>::save::{{closure}}",
            "#tx::pay::{{closure}}",
        ] {
            let name = Endpoint::at(path).to_string();
            assert!(Endpoint::called(&name).is_ok(), "{name}");
        }
        for name in [
            "orders pay",
            "orders\u{a0}pay",
            "orders\u{85}pay",
            "orders/pay",
        ] {
            assert!(Endpoint::called(name).is_err(), "{name:?}");
        }
        for name in ["#tx:orders.pay", "#count:logins", "orders:pay", "#"] {
            assert!(Endpoint::called(name).is_err(), "{name}");
        }
    }
}
