//! What a filter may be.

use std::time::Duration;

use idempotent_runtime::{Idempotency, MemoryStore};

use crate::DAY;

fn refusal(name: &'static str, capacity: u64, error_rate: f64, retention: Duration) -> String {
    let idempotency = Idempotency::new(MemoryStore::new());
    let bloom = idempotency.bloom(name, capacity, error_rate, retention);
    bloom.unwrap_err().to_string()
}

#[test]
fn a_filter_beyond_the_longest_string_of_redis_is_refused() {
    let idempotency = Idempotency::new(MemoryStore::new());
    // 11.03 bits a member.
    let most = 389_400_000;
    idempotency.bloom("orders.no", most, 0.01, DAY).unwrap();
    for (capacity, error_rate) in [(most + 100_000, 0.01), (u64::MAX, 0.5), (most, 0.001)] {
        let text = refusal("orders.no", capacity, error_rate, DAY);
        assert!(text.contains("512 MB"), "{text}");
        assert!(text.contains("`orders.no`"), "{text}");
    }
}

#[test]
fn an_error_rate_that_makes_no_sense_is_refused() {
    let rates = [0.0, 1.0, -0.1, 0.51, 1e-10, 5.0, f64::NAN, f64::INFINITY];
    for error_rate in rates {
        let text = refusal("orders.no", 1000, error_rate, DAY);
        assert!(text.contains("between 0.000000001 and 0.5"), "{text}");
    }
    let idempotency = Idempotency::new(MemoryStore::new());
    for error_rate in [1e-9, 0.5] {
        idempotency
            .bloom("orders.no", 1000, error_rate, DAY)
            .unwrap();
    }
}

#[test]
fn a_filter_of_nothing_is_refused() {
    for text in [
        refusal("orders.no", 0, 0.01, DAY),
        refusal("orders.no", 1000, 0.01, Duration::ZERO),
    ] {
        assert!(text.contains("more than zero"), "{text}");
    }
}

#[test]
fn a_name_that_could_be_anything_in_a_key_is_refused() {
    for name in ["", "orders no", "orders{no}", "orders:no"] {
        let text = refusal(name, 1000, 0.01, DAY);
        assert!(text.contains("A-Z a-z 0-9 . _ -"), "{text}");
    }
}
