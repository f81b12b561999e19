//! How often a filter is wrong, and the error rate that it reports.

use idempotent_runtime::{Bloom, MemoryStore};
use tokio::time::advance;

use crate::bloom::{DAY, bloom, perhaps_seen};

pub(crate) const CAPACITY: u64 = 20_000;

/// The share of new members that are perhaps seen.
async fn error_rate(bloom: &Bloom, new: std::ops::Range<u64>) -> f64 {
    let probes = f64::from(u32::try_from(new.end - new.start).unwrap());
    let wrong = u32::try_from(perhaps_seen(bloom, new).await).unwrap();
    f64::from(wrong) / probes
}

/// Marks as many members as the capacity at once, then as many again. No member may be forgotten.
pub(crate) async fn holds_its_error_rate_and_reports_when_it_is_full(bloom: &Bloom) {
    perhaps_seen(bloom, 0..CAPACITY).await;
    let fill = bloom.stats().await.unwrap().unwrap();
    assert!(
        (CAPACITY * 98 / 100..=CAPACITY * 102 / 100).contains(&fill.members),
        "{fill}"
    );
    assert!(fill.error_rate < 0.01, "{fill}");
    let rate = error_rate(bloom, 1_000_000..1_002_000).await;
    assert!(rate < 0.013, "{rate}");

    perhaps_seen(bloom, CAPACITY..2 * CAPACITY).await;
    let fill = bloom.stats().await.unwrap().unwrap();
    assert!(
        fill.is_full() && fill.members > 2 * CAPACITY * 98 / 100,
        "{fill}"
    );
    let rate = error_rate(bloom, 2_000_000..2_002_000).await;
    assert!(rate > 0.05, "{rate}");
    assert!((fill.error_rate - rate).abs() < 0.02, "{fill}, and {rate}");
    let seen = perhaps_seen(bloom, (0..2 * CAPACITY).step_by(4)).await;
    assert_eq!(seen, CAPACITY / 2, "a full filter forgets nothing");
}

#[tokio::test(start_paused = true)]
async fn a_filter_in_memory_holds_its_error_rate_and_reports_when_it_is_full() {
    let bloom = bloom(MemoryStore::new(), CAPACITY);
    holds_its_error_rate_and_reports_when_it_is_full(&bloom).await;
}

#[tokio::test(start_paused = true)]
async fn the_rate_holds_when_members_come_in_bursts() {
    const CAPACITY: u64 = 100_000;
    let bloom = bloom(MemoryStore::new(), CAPACITY);
    // All members of two retentions are marked in the first bucket of each retention, and both buckets exist.
    perhaps_seen(&bloom, 0..CAPACITY).await;
    advance(DAY).await;
    perhaps_seen(&bloom, CAPACITY..2 * CAPACITY).await;
    let fill = bloom.stats().await.unwrap().unwrap();
    assert!((0.008..0.0105).contains(&fill.error_rate), "{fill}");
    let rate = error_rate(&bloom, 1_000_000..1_005_000).await;
    assert!(rate < 0.013, "{rate}");
    assert_eq!(perhaps_seen(&bloom, 0..CAPACITY).await, CAPACITY);
}
