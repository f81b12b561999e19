//! How long members are remembered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotent_runtime::{Bloom, Hint, MemoryStore};
use tokio::time::{Instant, advance};

use crate::bloom::{DAY, bloom, perhaps_seen};

const MEMBER: u64 = 0;
const MOMENT: Duration = Duration::from_millis(1);

async fn is_unseen(bloom: &Bloom, member: u64) -> bool {
    bloom.hint(&member).await.unwrap() == Hint::Unseen
}

/// Lets time pass while other members are marked.
async fn pass(bloom: &Bloom, time: Duration) {
    static OTHERS: AtomicU64 = AtomicU64::new(1);

    let end = Instant::now() + time;
    while Instant::now() < end {
        let other = OTHERS.fetch_add(1, Ordering::SeqCst);
        assert!(is_unseen(bloom, other).await);
        advance((DAY / 16).min(end - Instant::now())).await;
    }
}

/// Whether a member is still remembered after `age`. It was marked at the time `after_the_first` member.
async fn is_remembered(after_the_first: Duration, age: Duration) -> bool {
    let bloom = bloom(MemoryStore::new(), 100_000);
    pass(&bloom, after_the_first).await;
    assert!(is_unseen(&bloom, MEMBER).await);
    pass(&bloom, age).await;
    !is_unseen(&bloom, MEMBER).await
}

#[tokio::test(start_paused = true)]
async fn a_member_is_remembered_for_one_to_one_and_a_half_retentions() {
    for quarter in 0..12 {
        let after_the_first = DAY / 8 * quarter;
        for age in [Duration::ZERO, DAY / 2, DAY] {
            assert!(
                is_remembered(after_the_first, age).await,
                "{quarter} {age:?}"
            );
            let just_before = after_the_first + (DAY / 2).saturating_sub(MOMENT);
            assert!(is_remembered(just_before, age).await, "{quarter} {age:?}");
        }
        let forgotten = DAY * 3 / 2 + MOMENT;
        assert!(
            !is_remembered(after_the_first, forgotten).await,
            "{quarter}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_marked_again_is_remembered_from_then_on() {
    let bloom = bloom(MemoryStore::new(), 1000);
    assert!(is_unseen(&bloom, MEMBER).await);
    for _ in 0..10 {
        pass(&bloom, DAY).await;
        assert!(!is_unseen(&bloom, MEMBER).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_stats_count_the_last_retention() {
    let bloom = bloom(MemoryStore::new(), 10_000);
    let members = async || bloom.stats().await.unwrap().unwrap().members;
    assert_eq!(members().await, 0);
    perhaps_seen(&bloom, 0..1000).await;
    let mut found = Vec::new();
    for _ in 0..7 {
        found.push(members().await);
        advance(DAY / 4).await;
    }
    // In quarters of the retention: the stats count all members for one retention, then fewer.
    assert!((990..1010).contains(&found[0]), "{found:?}");
    let [all, half, none] = [found[0], found[0].div_ceil(2), 0];
    assert_eq!(found, [all, all, all, all, all, half, none]);
}
