//! The settings of one endpoint or of all endpoints, and how they change the policy of an attribute.

use std::fmt;
use std::time::Duration;

use super::setting::{Origin, Setting};
use crate::error::closest::closest;
use crate::policy::{OnStoreError, Policy, Release, duration};

/// The names of the settings.
pub(super) const NAMES: [&str; 5] = ["ttl", "lease", "wait", "on_store_error", "disabled"];
/// The names of the settings, as part of a sentence.
pub(super) const LIST: &str = "`ttl`, `lease`, `wait`, `on_store_error` and `disabled`";

/// The options of the attribute that are not settings, in the order of the attribute's list.
const ATTRIBUTE_ONLY: [&str; 25] = [
    "key",
    "release",
    "name",
    "payload",
    "when",
    "replay",
    "replay_err",
    "hold_err",
    "renew",
    "on_cancel",
    "on_lease_lost",
    "on_duplicate",
    "error",
    "success",
    "tx",
    "begin",
    "retry",
    "token",
    "operation",
    "give_back",
    "context",
    "fence",
    "also",
    "using",
    "crate",
];

/// Whether `name` is an option that can be set only in the attribute, such as `release`.
pub(super) fn is_attribute_only(name: &str) -> bool {
    ATTRIBUTE_ONLY.contains(&name)
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
    pub(crate) wait: Option<Setting<Duration>>,
    pub(crate) on_store_error: Option<Setting<OnStoreError>>,
    pub(crate) disabled: Option<Setting<bool>>,
}

impl Overrides {
    /// Sets one of [`NAMES`], or returns what is wrong with its value.
    pub(super) fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), String> {
        let place = match name {
            "ttl" => &mut self.ttl,
            "lease" => &mut self.lease,
            "wait" => &mut self.wait,
            "on_store_error" => {
                let words = [("refuse", OnStoreError::Refuse), ("run", OnStoreError::Run)];
                let value = read_word(value, words)?;
                self.on_store_error = Some(Setting { value, origin });
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
            wait: self.wait.or(lower.wait),
            on_store_error: self.on_store_error.or(lower.on_store_error),
            disabled: self.disabled.or(lower.disabled),
        }
    }

    fn apply_to(&self, mut policy: Policy) -> Policy {
        policy.ttl = self.ttl.as_ref().map_or(policy.ttl, Setting::value);
        policy.lease = self.lease.as_ref().map(Setting::value).or(policy.lease);
        policy.wait = self.wait.as_ref().map(Setting::value).or(policy.wait);
        let on_store_error = self.on_store_error.as_ref().map(Setting::value);
        policy.on_store_error = on_store_error.or(policy.on_store_error);
        policy.disabled = self.is_disabled();
        policy
    }

    /// Whether these settings disable the guard.
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled.as_ref().is_some_and(Setting::value)
    }
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
    /// Applies the settings to the policy of an attribute, and ignores a `ttl` or `lease` that does not fit it.
    pub(crate) fn apply(&self, attribute: Policy) -> Applied {
        let wanted = self.wanted(attribute);
        let without = |dropped: &[&str]| Overrides {
            ttl: wanted.ttl.clone().filter(|_| !dropped.contains(&"ttl")),
            lease: wanted.lease.clone().filter(|_| !dropped.contains(&"lease")),
            ..wanted.clone()
        };
        let why_not = |dropped: &[&str]| without(dropped).apply_to(attribute).times().err();
        // First both are tried together, because one may fit only with the other. If nothing fits, the attribute itself is
        // invalid, and its calls are refused.
        let to_drop: [&[&str]; 4] = [&[], &["lease"], &["ttl"], &["ttl", "lease"]];
        let fits = to_drop
            .into_iter()
            .find(|dropped| why_not(dropped).is_none());
        let dropped = fits.unwrap_or_default();
        let ignored = [
            ("ttl", &wanted.ttl, &["lease"]),
            ("lease", &wanted.lease, &["ttl"]),
        ];
        let ignored = ignored.into_iter().filter_map(|(setting, value, other)| {
            let value = value.as_ref().filter(|_| dropped.contains(&setting))?;
            let why = why_not(other).unwrap_or("it does not fit the other settings");
            Some(IgnoredSetting::new(setting, value, why))
        });
        let disabled = self.named.disabled.as_ref();
        let disabled = disabled.filter(|disabled| attribute.token && disabled.value);
        let disabled = disabled.map(|value| IgnoredSetting::new("disabled", value, WITH_TOKEN));
        let (ignored, overrides) = (ignored.chain(disabled).collect(), without(dropped));
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
        wanted
    }

    fn wanted_with_any_token(&self, attribute: Policy) -> Overrides {
        match attribute.release {
            // A call with `tx` does not use the handle's store.
            _ if attribute.tx => Overrides {
                on_store_error: None,
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

const WITH_TOKEN: &str = "a call with a one-time token is always guarded, because an unguarded body would run without a token";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Renew;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn setting(value: Duration) -> Setting<Duration> {
        let name = "IDEMPOTENCE_X".into();
        let origin = Origin::Env { name };
        Setting { value, origin }
    }

    fn named(ttl: Option<Duration>, lease: Option<Duration>) -> Resolved {
        let named = Overrides {
            ttl: ttl.map(setting),
            lease: lease.map(setting),
            ..Overrides::default()
        };
        Resolved {
            named,
            ..Resolved::default()
        }
    }

    fn ignored(applied: &Applied) -> Vec<&'static str> {
        applied
            .ignored
            .iter()
            .map(|ignored| ignored.setting)
            .collect()
    }

    #[test]
    fn every_option_of_the_attribute_is_a_setting_or_set_only_in_code() {
        let source = include_str!("../../../idempotent-macro/src/options.rs");
        let (_, list) = source.split_once("const NAMES: [&str; ").unwrap();
        let (_, list) = list.split_once("] = [").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        let options: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        let (settings, others): (Vec<&str>, Vec<&str>) =
            options.iter().partition(|option| NAMES.contains(option));
        // The setting `disabled` is no option.
        assert_eq!(settings.len(), NAMES.len() - 1, "{settings:?}");
        assert_eq!(others, ATTRIBUTE_ONLY);
    }

    #[test]
    fn settings_replace_the_values_of_the_attribute_and_nothing_else() {
        let attribute = Policy::new(secs(10)).lease(secs(5)).renew(Renew::No);
        let mut resolved = named(Some(secs(60)), Some(secs(20)));
        resolved.named.wait = Some(setting(secs(2)));
        resolved.named.on_store_error = Some(Setting {
            value: OnStoreError::Run,
            origin: Origin::Default,
        });
        let expected = Policy::new(secs(60))
            .lease(secs(20))
            .renew(Renew::No)
            .wait(secs(2))
            .on_store_error(OnStoreError::Run);
        assert_eq!(resolved.apply(attribute).policy, expected);
        assert_eq!(Resolved::default().apply(attribute).policy, attribute);
    }

    #[test]
    fn a_call_in_a_transaction_has_no_lease_and_no_store() {
        let mut resolved = named(Some(secs(60)), Some(secs(20)));
        resolved.named.wait = Some(setting(secs(2)));
        resolved.all.lease = Some(setting(secs(5)));
        resolved.all.on_store_error = Some(Setting {
            value: OnStoreError::Run,
            origin: Origin::Default,
        });
        let applied = resolved.apply(Policy::new(secs(10)).tx());
        let expected = Policy::new(secs(60)).wait(secs(2)).tx();
        assert_eq!(applied.policy, expected);
        assert_eq!(ignored(&applied), ["lease"]);
    }

    #[test]
    fn a_lease_for_all_applies_only_with_release_on_error() {
        let resolved = Resolved {
            all: named(None, Some(secs(5))).named,
            ..Resolved::default()
        };
        let attribute = Policy::new(secs(60));
        let applied = resolved.apply(attribute);
        assert_eq!(applied.policy, attribute.lease(secs(5)));
        for release in [Release::Always, Release::Never] {
            let attribute = attribute.release(release);
            let applied = resolved.apply(attribute);
            assert_eq!(applied.policy, attribute);
            assert!(applied.ignored.is_empty());
        }
    }

    #[test]
    fn only_the_lease_is_ignored_if_the_attribute_cannot_have_one() {
        let attribute = Policy::new(secs(60)).release(Release::Always);
        let applied = named(Some(secs(90)), Some(secs(5))).apply(attribute);
        assert_eq!(
            applied.policy,
            Policy::new(secs(90)).release(Release::Always)
        );
        assert_eq!(ignored(&applied), ["lease"]);
        assert_eq!(
            applied.ignored[0].describe("orders.pay"),
            "IDEMPOTENCE_X: `lease` does not fit the endpoint `orders.pay`: \
             `lease` needs `release = \"on_error\"`: with other values the lease is the `ttl`"
        );
    }

    #[test]
    fn a_ttl_that_makes_the_lease_longer_than_its_renewal_is_ignored() {
        let attribute = Policy::new(secs(60))
            .release(Release::Always)
            .renew(Renew::Cap(secs(600)));
        let applied = named(Some(secs(601)), None).apply(attribute);
        assert_eq!(applied.policy, attribute);
        assert_eq!(ignored(&applied), ["ttl"]);
    }

    #[test]
    fn settings_that_fit_only_together_are_both_in_force() {
        let attribute = Policy::new(secs(20)).renew(Renew::Cap(secs(25)));
        let alone = named(Some(secs(60)), None).apply(attribute);
        assert_eq!(ignored(&alone), ["ttl"]);
        let both = named(Some(secs(60)), Some(secs(10))).apply(attribute);
        assert_eq!(ignored(&both), [""; 0]);
        assert_eq!(both.policy.ttl, secs(60));
    }

    #[test]
    fn an_invalid_attribute_is_not_blamed_on_the_settings() {
        let attribute = Policy::new(Duration::ZERO).lease(Duration::ZERO);
        let applied = named(Some(secs(60)), None).apply(attribute);
        assert!(applied.ignored.is_empty());
        assert!(applied.policy.times().is_err());
    }
}
