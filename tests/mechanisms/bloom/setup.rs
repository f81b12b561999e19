//! The settings of a filter.

use std::time::Duration;

use idempotent_runtime::{Bloom, Idempotency, MemoryStore};

use crate::bloom::DAY;

fn refusal(name: &'static str, capacity: u64, error_rate: f64, retention: Duration) -> String {
    let idempotency = Idempotency::new(MemoryStore::new());
    let bloom = idempotency.bloom(name, capacity, error_rate, retention);
    bloom.unwrap_err().to_string()
}

#[test]
fn a_filter_beyond_the_longest_string_of_redis_is_refused() {
    let idempotency = Idempotency::new(MemoryStore::new());
    // 11.03 bits per member.
    let most = 389_400_000;
    idempotency.bloom("orders.no", most, 0.01, DAY).unwrap();
    for (capacity, error_rate) in [(most + 100_000, 0.01), (u64::MAX, 0.5), (most, 0.001)] {
        let text = refusal("orders.no", capacity, error_rate, DAY);
        assert!(text.contains("512 MB"), "{text}");
        assert!(text.contains("`orders.no`"), "{text}");
    }
}

#[test]
fn an_error_rate_out_of_range_is_refused() {
    let rates = [0.0, 1.0, -0.1, 0.51, 1e-10, 5.0, f64::NAN, f64::INFINITY];
    for error_rate in rates {
        let text = refusal("orders.no", 1000, error_rate, DAY);
        let expected =
            "invalid Bloom filter `orders.no`: `error_rate` must be between 1e-9 and 0.5, got ";
        assert!(text.starts_with(expected), "{text}");
    }
    let idempotency = Idempotency::new(MemoryStore::new());
    for error_rate in [1e-9, 0.5] {
        idempotency
            .bloom("orders.no", 1000, error_rate, DAY)
            .unwrap();
    }
}

#[test]
fn a_filter_without_capacity_or_retention_is_refused() {
    for (text, mistake) in [
        (
            refusal("orders.no", 0, 0.01, DAY),
            "`capacity` must be at least 1, got 0",
        ),
        (
            refusal("orders.no", 1000, 0.01, Duration::ZERO),
            "`retention` must be more than zero, got 0s",
        ),
    ] {
        assert_eq!(text, format!("invalid Bloom filter `orders.no`: {mistake}"));
    }
}

#[test]
fn a_name_with_a_forbidden_character_is_refused() {
    for (name, why) in [
        ("", "is empty"),
        ("orders no", "has the character ' '"),
        ("orders{no}", "has the character '{'"),
        ("orders:no", "has the character ':'"),
    ] {
        let text = refusal(name, 1000, 0.01, DAY);
        let expected = format!(
            "invalid Bloom filter `{name}`: the name {why}; use 1 to 128 of `A-Z a-z 0-9 . _ -`"
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let builder = Bloom::builder(&idempotency, "orders no").error_rate(2.0);
    assert_eq!(
        builder.build().unwrap_err().to_string(),
        "invalid Bloom filter `orders no`: the name has the character ' '; use 1 to 128 of `A-Z a-z 0-9 . _ -`; \
         `capacity` is missing: call `.capacity(…)`; `retention` is missing: call `.retention(…)`; \
         `error_rate` must be between 1e-9 and 0.5, got 2"
    );
}
