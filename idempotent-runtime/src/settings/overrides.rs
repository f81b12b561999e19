//! What is set for one endpoint or for all, and what it makes of an attribute's policy.

use std::time::Duration;

use super::setting::{Origin, Setting};
use crate::error::closest::closest;
use crate::policy::{OnStoreError, Policy, Release, duration};

/// The names of the settings.
pub(super) const NAMES: [&str; 4] = ["ttl", "lease", "wait", "on_store_error"];
/// The same in a sentence.
pub(super) const LIST: &str = "`ttl`, `lease`, `wait` and `on_store_error`";

/// The options of the attribute that are no settings, in the order of the attribute's own list.
const FOR_THE_ATTRIBUTE: [&str; 19] = [
    "key",
    "release",
    "name",
    "payload",
    "when",
    "replay",
    "replay_err",
    "renew",
    "on_cancel",
    "on_lease_lost",
    "on_duplicate",
    "error",
    "success",
    "tx",
    "token",
    "operation",
    "give_back",
    "using",
    "crate",
];

/// Whether `name` is an option of the attribute that cannot be set elsewhere, such as `release`, which is close to
/// `lease` only in its letters.
pub(super) fn is_for_the_attribute(name: &str) -> bool {
    FOR_THE_ATTRIBUTE.contains(&name)
}

/// An endpoint's name as variables have it.
pub(super) fn in_capitals(endpoint: &str) -> String {
    let capital = |c: char| match c.to_ascii_uppercase() {
        c @ ('A'..='Z' | '0'..='9') => c,
        _ => '_',
    };
    endpoint.chars().map(capital).collect()
}

/// Settings with a value each; one that is not set is `None`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) ttl: Option<Setting<Duration>>,
    pub(crate) lease: Option<Setting<Duration>>,
    pub(crate) wait: Option<Setting<Duration>>,
    pub(crate) on_store_error: Option<Setting<OnStoreError>>,
}

impl Overrides {
    /// Sets one of [`NAMES`], or says what is wrong with its value.
    pub(super) fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), String> {
        let place = match name {
            "ttl" => &mut self.ttl,
            "lease" => &mut self.lease,
            "wait" => &mut self.wait,
            _ => {
                let value = read_on_store_error(value)?;
                self.on_store_error = Some(Setting { value, origin });
                return Ok(());
            }
        };
        let value = duration::read(value)?;
        *place = Some(Setting { value, origin });
        Ok(())
    }

    /// These, and where they say nothing, those of `lower`.
    pub(crate) fn over(self, lower: Self) -> Self {
        Self {
            ttl: self.ttl.or(lower.ttl),
            lease: self.lease.or(lower.lease),
            wait: self.wait.or(lower.wait),
            on_store_error: self.on_store_error.or(lower.on_store_error),
        }
    }

    fn on(&self, mut policy: Policy) -> Policy {
        policy.ttl = self.ttl.as_ref().map_or(policy.ttl, Setting::value);
        policy.lease = self.lease.as_ref().map(Setting::value).or(policy.lease);
        policy.wait = self.wait.as_ref().map(Setting::value).or(policy.wait);
        let on_store_error = self.on_store_error.as_ref().map(Setting::value);
        policy.on_store_error = on_store_error.or(policy.on_store_error);
        policy
    }
}

fn read_on_store_error(value: &str) -> Result<OnStoreError, String> {
    match value {
        "refuse" => Ok(OnStoreError::Refuse),
        "run" => Ok(OnStoreError::Run),
        other => Err(format!(
            "`{}` is neither `refuse` nor `run`{}",
            other.escape_debug(),
            closest(other, ["refuse", "run"])
                .map_or_else(String::new, |word| format!(": did you mean `{word}`?"))
        )),
    }
}

/// What is set for one endpoint by its name, and for all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resolved {
    pub(super) named: Overrides,
    pub(super) all: Overrides,
}

/// An attribute's policy with what is set.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) policy: Policy,
    /// What is in force of what is set.
    pub(crate) overrides: Overrides,
    pub(crate) left_out: Vec<LeftOut>,
}

/// A setting that would leave an endpoint without a policy that makes sense.
#[derive(Debug, Clone)]
pub(crate) struct LeftOut {
    pub(crate) setting: &'static str,
    pub(crate) value: Setting<Duration>,
    pub(crate) why: &'static str,
}

impl LeftOut {
    pub(crate) fn of(&self, endpoint: &str) -> String {
        let Self {
            setting,
            value,
            why,
        } = self;
        let origin = value.origin();
        format!("{origin}: `{setting}` does not fit the endpoint `{endpoint}`: {why}")
    }
}

impl Resolved {
    /// Lays this over the policy of an attribute; what does not fit it is left out.
    pub(crate) fn apply(&self, attribute: Policy) -> Applied {
        let wanted = self.of(attribute);
        let without = |dropped: &[&str]| Overrides {
            ttl: wanted.ttl.clone().filter(|_| !dropped.contains(&"ttl")),
            lease: wanted.lease.clone().filter(|_| !dropped.contains(&"lease")),
            ..wanted.clone()
        };
        let why_not = |dropped: &[&str]| without(dropped).on(attribute).times().err();
        // The two are tried together first, for one may make sense only with the other. If nothing fits, it is
        // the attribute that makes no sense, and the call is refused for that.
        let tried: [&[&str]; 4] = [&[], &["lease"], &["ttl"], &["ttl", "lease"]];
        let fits = tried.into_iter().find(|dropped| why_not(dropped).is_none());
        let dropped = fits.unwrap_or_default();
        let left_out = [
            ("ttl", &wanted.ttl, &["lease"]),
            ("lease", &wanted.lease, &["ttl"]),
        ];
        let left_out = left_out.into_iter().filter_map(|(setting, value, other)| {
            Some(LeftOut {
                setting,
                value: value.clone().filter(|_| dropped.contains(&setting))?,
                why: why_not(other).unwrap_or("it does not go with the others"),
            })
        });
        let (left_out, overrides) = (left_out.collect(), without(dropped));
        Applied {
            policy: overrides.on(attribute),
            overrides,
            left_out,
        }
    }

    /// What is set for an endpoint with this attribute.
    fn of(&self, attribute: Policy) -> Overrides {
        match attribute.release {
            // The handle's store has no part in a call that its caller's transaction holds.
            _ if attribute.tx => Overrides {
                on_store_error: None,
                ..self.of_unknown()
            },
            Release::OnError => self.named.clone().over(self.all.clone()),
            Release::Always | Release::Never => self.of_unknown(),
        }
    }

    /// What is set for an endpoint whose attribute is not known: all but a lease for all, which is not meant for
    /// endpoints whose lease is their ttl.
    pub(crate) fn of_unknown(&self) -> Overrides {
        self.named.clone().over(Overrides {
            lease: None,
            ..self.all.clone()
        })
    }
}

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

    fn left_out(applied: &Applied) -> Vec<&'static str> {
        applied.left_out.iter().map(|left| left.setting).collect()
    }

    #[test]
    fn every_option_of_the_attribute_is_a_setting_or_for_the_attribute_alone() {
        let source = include_str!("../../../idempotent-macro/src/options.rs");
        let (_, list) = source.split_once("const NAMES: [&str; ").unwrap();
        let (_, list) = list.split_once("] = [").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        let options: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        let (settings, others): (Vec<&str>, Vec<&str>) =
            options.iter().partition(|option| NAMES.contains(option));
        assert_eq!(settings.len(), NAMES.len(), "{settings:?}");
        assert_eq!(others, FOR_THE_ATTRIBUTE);
    }

    #[test]
    fn what_is_set_replaces_what_the_attribute_says_and_nothing_else() {
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
    fn a_call_that_a_transaction_holds_has_no_lease_and_no_store() {
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
        assert_eq!(left_out(&applied), ["lease"]);
    }

    #[test]
    fn a_lease_for_all_is_for_those_that_release_on_error() {
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
            assert!(applied.left_out.is_empty());
        }
    }

    #[test]
    fn a_lease_of_an_endpoint_that_has_none_is_left_out_alone() {
        let attribute = Policy::new(secs(60)).release(Release::Always);
        let applied = named(Some(secs(90)), Some(secs(5))).apply(attribute);
        assert_eq!(
            applied.policy,
            Policy::new(secs(90)).release(Release::Always)
        );
        assert_eq!(left_out(&applied), ["lease"]);
        assert_eq!(
            applied.left_out[0].of("orders.pay"),
            "IDEMPOTENCE_X: `lease` does not fit the endpoint `orders.pay`: \
             its lease is its ttl unless `release` is \"on_error\""
        );
    }

    #[test]
    fn a_ttl_that_makes_the_lease_longer_than_its_renewal_is_left_out() {
        let attribute = Policy::new(secs(60))
            .release(Release::Always)
            .renew(Renew::Cap(secs(600)));
        let applied = named(Some(secs(601)), None).apply(attribute);
        assert_eq!(applied.policy, attribute);
        assert_eq!(left_out(&applied), ["ttl"]);
    }

    #[test]
    fn settings_that_make_sense_only_together_are_both_in_force() {
        let attribute = Policy::new(secs(20)).renew(Renew::Cap(secs(25)));
        let alone = named(Some(secs(60)), None).apply(attribute);
        assert_eq!(left_out(&alone), ["ttl"]);
        let both = named(Some(secs(60)), Some(secs(10))).apply(attribute);
        assert_eq!(left_out(&both), [""; 0]);
        assert_eq!(both.policy.ttl, secs(60));
    }

    #[test]
    fn an_attribute_that_makes_no_sense_is_not_blamed_on_the_settings() {
        let attribute = Policy::new(Duration::ZERO).lease(Duration::ZERO);
        let applied = named(Some(secs(60)), None).apply(attribute);
        assert!(applied.left_out.is_empty());
        assert!(applied.policy.times().is_err());
    }
}
