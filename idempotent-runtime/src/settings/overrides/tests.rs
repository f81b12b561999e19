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
fn settings_replace_the_values_of_the_attribute_and_nothing_else() {
    let attribute = Policy::new(secs(10)).lease(secs(5)).renew(Renew::No);
    let mut resolved = named(Some(secs(60)), Some(secs(20)));
    resolved.named.wait = Some(setting(secs(2)));
    resolved.named.on_store_error = Some(Setting {
        value: OnStoreError::Run,
        origin: Origin::Default,
    });
    resolved.named.settle = Some(Setting {
        value: Settle::Background,
        origin: Origin::Default,
    });
    let expected = Policy::new(secs(60))
        .lease(secs(20))
        .renew(Renew::No)
        .wait(secs(2))
        .on_store_error(OnStoreError::Run)
        .settle(Settle::Background);
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
    resolved.all.settle = Some(Setting {
        value: Settle::Background,
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
fn an_at_least_that_is_longer_than_the_lease_is_ignored() {
    let mut resolved = named(Some(secs(60)), None);
    resolved.named.at_least = Some(setting(secs(40)));
    let attribute = Policy::new(secs(30)).release(Release::Always);
    let applied = resolved.apply(attribute);
    assert_eq!(ignored(&applied), [""; 0]);
    assert_eq!(
        applied.policy,
        Policy {
            ttl: secs(60),
            ..attribute.at_least(secs(40))
        }
    );

    resolved.named.at_least = Some(setting(secs(61)));
    let applied = resolved.apply(attribute);
    assert_eq!(ignored(&applied), ["at_least"]);
    assert_eq!(
        applied.policy,
        Policy {
            ttl: secs(60),
            ..attribute
        }
    );

    let in_tx = resolved.apply(Policy::new(secs(30)).tx());
    assert_eq!(ignored(&in_tx), ["at_least"]);
}

#[test]
fn an_invalid_attribute_is_not_blamed_on_the_settings() {
    let attribute = Policy::new(Duration::ZERO).lease(Duration::ZERO);
    let applied = named(Some(secs(60)), None).apply(attribute);
    assert!(applied.ignored.is_empty());
    assert!(applied.policy.times().is_err());
}
