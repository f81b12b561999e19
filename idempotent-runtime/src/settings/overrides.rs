//! The settings of one endpoint or of all endpoints, and how they change the policy of an attribute.

use std::fmt;
use std::time::Duration;

use super::attribute_options::OPTIONS;
use super::setting::{Origin, Setting};
use crate::error::closest::closest;
use crate::policy::claims::MOST_PERMITS;
use crate::policy::{OnStoreError, Policy, Release, Settle, duration};

/// The names of the settings.
pub(super) const NAMES: [&str; 8] = [
    "ttl",
    "lease",
    "at_least",
    "wait",
    "permits",
    "on_store_error",
    "settle",
    "disabled",
];
/// The names of the settings, as part of a sentence.
pub(super) const LIST: &str =
    "`ttl`, `lease`, `at_least`, `wait`, `permits`, `on_store_error`, `settle` and `disabled`";

/// Whether `name` is an option that can be set only in the attribute, such as `release`.
pub(super) fn is_attribute_only(name: &str) -> bool {
    OPTIONS.contains(&name) && !NAMES.contains(&name)
}

/// The name of an endpoint as it is written in the name of a variable.
pub(super) fn in_capitals(endpoint: &str) -> String {
    let capital = |c: char| match c.to_ascii_uppercase() {
        c @ ('A'..='Z' | '0'..='9') => c,
        _ => '_',
    };
    endpoint.chars().map(capital).collect()
}

/// The values of settings; `None` where a setting has no value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) ttl: Option<Setting<Duration>>,
    pub(crate) lease: Option<Setting<Duration>>,
    pub(crate) at_least: Option<Setting<Duration>>,
    pub(crate) wait: Option<Setting<Duration>>,
    pub(crate) permits: Option<Setting<u32>>,
    pub(crate) on_store_error: Option<Setting<OnStoreError>>,
    pub(crate) settle: Option<Setting<Settle>>,
    pub(crate) disabled: Option<Setting<bool>>,
}

impl Overrides {
    /// Sets one of [`NAMES`], or returns what is wrong with its value.
    pub(super) fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), String> {
        let place = match name {
            "ttl" => &mut self.ttl,
            "lease" => &mut self.lease,
            "at_least" => &mut self.at_least,
            "wait" => &mut self.wait,
            "permits" => {
                let value = read_permits(value)?;
                self.permits = Some(Setting { value, origin });
                return Ok(());
            }
            "on_store_error" => {
                let words = [("refuse", OnStoreError::Refuse), ("run", OnStoreError::Run)];
                let value = read_word(value, words)?;
                self.on_store_error = Some(Setting { value, origin });
                return Ok(());
            }
            "settle" => {
                let words = [("await", Settle::Await), ("background", Settle::Background)];
                let value = read_word(value, words)?;
                self.settle = Some(Setting { value, origin });
                return Ok(());
            }
            _ => {
                let value = read_word(value, [("true", true), ("false", false)])?;
                self.disabled = Some(Setting { value, origin });
                return Ok(());
            }
        };
        // A `wait` of zero switches waiting off.
        let read = match name {
            "wait" => duration::read_or_zero,
            _ => duration::read,
        };
        let value = read(value)?;
        *place = Some(Setting { value, origin });
        Ok(())
    }

    /// These settings. For each setting without a value, the value of `lower`.
    pub(crate) fn or(self, lower: Self) -> Self {
        Self {
            ttl: self.ttl.or(lower.ttl),
            lease: self.lease.or(lower.lease),
            at_least: self.at_least.or(lower.at_least),
            wait: self.wait.or(lower.wait),
            permits: self.permits.or(lower.permits),
            on_store_error: self.on_store_error.or(lower.on_store_error),
            settle: self.settle.or(lower.settle),
            disabled: self.disabled.or(lower.disabled),
        }
    }

    fn apply_to(&self, mut policy: Policy) -> Policy {
        policy.ttl = self.ttl.as_ref().map_or(policy.ttl, Setting::value);
        policy.lease = self.lease.as_ref().map(Setting::value).or(policy.lease);
        let at_least = self.at_least.as_ref().map(Setting::value);
        policy.at_least = at_least.or(policy.at_least);
        policy.wait = self.wait.as_ref().map(Setting::value).or(policy.wait);
        if let Some(permits) = self.permits.as_ref().map(Setting::value) {
            policy = policy.permits(permits);
        }
        let on_store_error = self.on_store_error.as_ref().map(Setting::value);
        policy.on_store_error = on_store_error.or(policy.on_store_error);
        policy.settle = (self.settle.as_ref()).map_or(policy.settle, Setting::value);
        policy.disabled = self.is_disabled();
        policy
    }

    /// Whether these settings disable the guard.
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled.as_ref().is_some_and(Setting::value)
    }
}

/// Reads a number of permits.
fn read_permits(value: &str) -> Result<u32, String> {
    let permits = value.parse().ok();
    permits
        .filter(|permits| (1..=u32::from(MOST_PERMITS)).contains(permits))
        .ok_or_else(|| {
            format!(
                "`{}` is not a number from 1 to {MOST_PERMITS}",
                value.escape_debug()
            )
        })
}

/// Reads one of two words.
fn read_word<T: Copy>(value: &str, words: [(&str, T); 2]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names @ [one, other] = words.map(|(word, _)| word);
        let guess = closest(value, names)
            .map_or_else(String::new, |word| format!(": did you mean `{word}`?"));
        format!(
            "`{}` is neither `{one}` nor `{other}`{guess}",
            value.escape_debug()
        )
    })
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
