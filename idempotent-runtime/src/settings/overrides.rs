//! The settings of one endpoint or of all endpoints, and how they change the policy of an attribute.

use std::fmt;
use std::time::Duration;

use super::setting::{Origin, Setting};
#[cfg(feature = "toml")]
use super::value::Form;
use super::value::{SettingValue, read_permits, read_word};
use crate::error::closest::closest;
use crate::policy::{OnStoreError, Policy, Release, Settle, duration};

/// The table of the settings: from each row come the field and its name, what reads `text`, the value that the `policy` of an attribute
/// has, and how the `value` of a setting changes this policy.
macro_rules! settings {
    (
        |$text:ident, $policy:ident, $value:ident|
        $($name:ident: $type:ty, $read:expr, $in_attribute:expr, $change:expr;)*
    ) => {
        /// The names of the settings, in the order of lists.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// How a file has the values of the setting `name`. `None` if there is no such setting.
        #[cfg(feature = "toml")]
        pub(super) fn form_of(name: &str) -> Option<Form> {
            $(if name == stringify!($name) {
                return Some(<$type>::FORM);
            })*
            None
        }

        /// The values of settings; `None` where a setting has no value.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Overrides {
            $(pub(crate) $name: Option<Setting<$type>>,)*
        }

        impl Overrides {
            /// The values of an attribute.
            pub(super) fn of_attribute($policy: &Policy, origin: &Origin) -> Self {
                Self {
                    $($name: $in_attribute.map(|value| Setting::new(value, origin.clone())),)*
                }
            }

            /// Sets one of [`NAMES`], or returns what is wrong with its value.
            pub(super) fn set(&mut self, name: &str, $text: &str, origin: Origin) -> Result<(), String> {
                $(if name == stringify!($name) {
                    self.$name = Some(Setting::new($read?, origin));
                    return Ok(());
                })*
                Ok(())
            }

            /// These settings. For each setting without a value, the value of `lower`.
            pub(crate) fn or(self, lower: Self) -> Self {
                Self {
                    $($name: self.$name.or(lower.$name),)*
                }
            }

            fn apply_to(&self, mut $policy: Policy) -> Policy {
                $(if let Some($value) = self.$name.as_ref().map(Setting::value) {
                    $change;
                })*
                $policy
            }

            /// The name, the text and the origin of each value.
            pub(super) fn texts(&self) -> impl Iterator<Item = (&'static str, String, &Origin)> {
                let texts = [$(
                    self.$name.as_ref().map(|set| (stringify!($name), set.value.text(), &set.origin)),
                )*];
                texts.into_iter().flatten()
            }
        }
    };
}

settings! {
    |text, policy, value|
    disabled: bool, read_word(text, [true, false]), None, policy.disabled = value;
    ttl: Duration, duration::read(text), Some(policy.ttl), policy.ttl = value;
    lease: Duration, duration::read(text), policy.lease, policy.lease = Some(value);
    at_least: Duration, duration::read(text), policy.at_least, policy.at_least = Some(value);
    // Zero switches waiting off.
    wait: Duration, duration::read_or_zero(text), policy.wait, policy.wait = Some(value);
    permits: u32, read_permits(text), policy.most_holders().map(u32::from), policy = policy.permits(value);
    on_store_error: OnStoreError, read_word(text, [OnStoreError::Refuse, OnStoreError::Run]),
        policy.on_store_error.filter(|_| !policy.tx), policy.on_store_error = Some(value);
    settle: Settle, read_word(text, [Settle::Await, Settle::Background]),
        Some(policy.settle).filter(|settle| *settle != Settle::default()), policy.settle = value;
}

/// The settings, as the end of a sentence about a name that is none of them.
pub(super) fn list() -> String {
    let names = NAMES.join("`, `");
    format!("`{names}`; other options are set only in code, in the attribute")
}

/// The setting that `name` may mean, if it is misspelled. The option `release` is no misspelled `lease`.
pub(super) fn guess(name: &str) -> Option<&'static str> {
    let candidates = NAMES.iter().copied().chain(["release"]);
    closest(name, candidates).filter(|guess| *guess != "release")
}

/// The name of an endpoint as it is written in the name of a variable.
pub(super) fn in_capitals(endpoint: &str) -> String {
    let capital = |c: char| match c.to_ascii_uppercase() {
        c @ ('A'..='Z' | '0'..='9') => c,
        _ => '_',
    };
    endpoint.chars().map(capital).collect()
}

/// The settings of one endpoint by its name, and of all endpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resolved {
    pub(super) named: Overrides,
    pub(super) all: Overrides,
}

/// The policy of an attribute with the settings applied.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) policy: Policy,
    /// The settings that are in force.
    pub(crate) overrides: Overrides,
    pub(crate) ignored: Vec<IgnoredSetting>,
}

/// A setting that is ignored because it does not fit the attribute of an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct IgnoredSetting {
    pub(crate) setting: &'static str,
    /// The value and its origin, as text.
    pub(crate) value: String,
    pub(crate) origin: Origin,
    pub(crate) why: &'static str,
}

impl IgnoredSetting {
    fn new<T>(setting: &'static str, value: &Setting<T>, why: &'static str) -> Self
    where
        Setting<T>: fmt::Display,
    {
        Self {
            setting,
            value: value.to_string(),
            origin: value.origin().clone(),
            why,
        }
    }

    pub(crate) fn describe(&self, endpoint: &str) -> String {
        let Self {
            setting,
            origin,
            why,
            ..
        } = self;
        format!("{origin}: `{setting}` does not fit the endpoint `{endpoint}`: {why}")
    }
}

impl Resolved {
    /// Applies the settings to the policy of an attribute, and ignores a `ttl`, `lease` or `at_least` that does not fit it.
    pub(crate) fn apply(&self, attribute: Policy) -> Applied {
        let wanted = self.wanted(attribute);
        let without = |dropped: &[&str]| Overrides {
            ttl: wanted.ttl.clone().filter(|_| !dropped.contains(&"ttl")),
            lease: wanted.lease.clone().filter(|_| !dropped.contains(&"lease")),
            at_least: (wanted.at_least.clone()).filter(|_| !dropped.contains(&"at_least")),
            ..wanted.clone()
        };
        let why_not = |dropped: &[&str]| without(dropped).apply_to(attribute).times().err();
        // First all are tried together, because one may fit only with another. If nothing fits, the attribute itself is
        // invalid, and its calls are refused.
        let to_drop: [&[&str]; 8] = [
            &[],
            &["at_least"],
            &["lease"],
            &["ttl"],
            &["lease", "at_least"],
            &["ttl", "at_least"],
            &["ttl", "lease"],
            &["ttl", "lease", "at_least"],
        ];
        let fits = to_drop
            .into_iter()
            .find(|dropped| why_not(dropped).is_none());
        let dropped = fits.unwrap_or_default();
        let ignored = [
            ("ttl", &wanted.ttl, ["lease", "at_least"]),
            ("lease", &wanted.lease, ["ttl", "at_least"]),
            ("at_least", &wanted.at_least, ["ttl", "lease"]),
        ];
        let ignored = ignored.into_iter().filter_map(|(setting, value, other)| {
            let value = value.as_ref().filter(|_| dropped.contains(&setting))?;
            let why = why_not(&other).unwrap_or("it does not fit the other settings");
            Some(IgnoredSetting::new(setting, value, why))
        });
        let disabled = self.named.disabled.as_ref();
        let disabled = disabled.filter(|disabled| attribute.token && disabled.value);
        let disabled = disabled.map(|value| IgnoredSetting::new("disabled", value, WITH_TOKEN));
        let permits = self.named.permits.as_ref();
        let permits = permits.filter(|_| attribute.most_holders().is_none());
        let permits = permits.map(|value| IgnoredSetting::new("permits", value, WITHOUT_PERMITS));
        let settle = self.named.settle.as_ref();
        let settle = settle.filter(|settle| does_not_go(attribute, settle));
        let settle = settle.map(|value| IgnoredSetting::new("settle", value, WITH_PERMITS));
        let ignored = ignored.chain(disabled).chain(permits).chain(settle);
        let ignored = ignored.collect();
        let overrides = without(dropped);
        Applied {
            policy: overrides.apply_to(attribute),
            overrides,
            ignored,
        }
    }

    /// The settings of an endpoint with this attribute.
    fn wanted(&self, attribute: Policy) -> Overrides {
        let mut wanted = self.wanted_with_any_token(attribute);
        if attribute.token {
            wanted.disabled = None;
        }
        if attribute.most_holders().is_none() {
            wanted.permits = None;
        }
        wanted.settle = (wanted.settle).filter(|settle| !does_not_go(attribute, settle));
        wanted
    }

    fn wanted_with_any_token(&self, attribute: Policy) -> Overrides {
        match attribute.release {
            // A call with `tx` does not use the handle's store.
            _ if attribute.tx => Overrides {
                on_store_error: None,
                settle: None,
                at_least: self.named.at_least.clone(),
                ..self.without_attribute()
            },
            Release::OnError => self.named.clone().or(self.all.clone()),
            Release::Always | Release::Never => self.without_attribute(),
        }
    }

    /// The settings of an endpoint whose attribute is unknown. The lease for all endpoints is left out, because the lease of
    /// this endpoint may be its ttl.
    pub(crate) fn without_attribute(&self) -> Overrides {
        self.named.clone().or(Overrides {
            lease: None,
            ..self.all.clone()
        })
    }
}

/// Whether the setting `settle` does not go with the option `permits` of this attribute.
fn does_not_go(attribute: Policy, settle: &Setting<Settle>) -> bool {
    attribute.most_holders().is_some() && settle.value == Settle::Background
}

const WITH_PERMITS: &str =
    "with the option `permits` the next call would meet the permit of a call that has returned";
const WITHOUT_PERMITS: &str =
    "its body is written for one call at a time: write the option `permits` in its attribute";
const WITH_TOKEN: &str = "a call with a one-time token is always guarded, because an unguarded body would run without a token";

#[cfg(test)]
mod tests;
