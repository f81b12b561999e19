//! The insert decides, not the look-up and not the filter.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idempotent_runtime::{Bloom, Hint, MemoryStore};
use tokio::sync::{Barrier, Semaphore};
use tokio::task::{JoinHandle, yield_now};

use crate::bloom::bloom;
use crate::bloom::table::Table;

const ORDER: u64 = 42;

/// Requests that insert orders into a table.
struct Shop {
    bloom: Bloom,
    table: Table,
    looked_up: AtomicUsize,
    ran: AtomicUsize,
    /// A permit lets one transaction commit.
    commits: Semaphore,
}

impl Shop {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bloom: bloom(MemoryStore::new(), 1000),
            table: Table::default(),
            looked_up: AtomicUsize::new(0),
            ran: AtomicUsize::new(0),
            commits: Semaphore::new(0),
        })
    }

    /// The correct way: the insert decides.
    async fn order(self: Arc<Self>, order: u64) -> bool {
        let look_up = async { Ok::<_, Infallible>(self.look_up(order)) };
        let insert = async {
            let Some(transaction) = self.table.insert(order).await else {
                return Ok(None);
            };
            self.work().await;
            transaction.commit();
            Ok(Some(()))
        };
        let Ok(inserted) = self.bloom.first_time(&order, look_up, insert).await;
        inserted.is_some()
    }

    /// The wrong way: if the `SELECT` finds no row, the request concludes that the filter was wrong.
    async fn order_after_a_select(self: Arc<Self>, order: u64) -> bool {
        let hint = self.bloom.hint(&order).await.unwrap();
        if hint == Hint::PerhapsSeen && self.look_up(order) {
            return false;
        }
        self.work().await;
        if let Some(transaction) = self.table.insert(order).await {
            transaction.commit();
        }
        true
    }

    fn look_up(&self, order: u64) -> bool {
        self.looked_up.fetch_add(1, Ordering::SeqCst);
        self.table.select(order)
    }

    async fn work(&self) {
        self.ran.fetch_add(1, Ordering::SeqCst);
        self.commits.acquire().await.unwrap().forget();
    }

    fn counts(&self) -> (usize, usize) {
        let count = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (count(&self.looked_up), count(&self.ran))
    }
}

/// Request 2 arrives while the transaction of request 1 is open. Returns how many of them did the work.
async fn race<F>(order: impl Fn(Arc<Shop>, u64) -> F) -> usize
where
    F: Future<Output = bool> + Send + 'static,
{
    let shop = Shop::new();
    let first = begun(&shop, tokio::spawn(order(Arc::clone(&shop), ORDER)), (0, 1)).await;
    let second = tokio::spawn(order(Arc::clone(&shop), ORDER));
    // Request 2 runs until it waits.
    for _ in 0..100 {
        yield_now().await;
    }
    assert_eq!(
        shop.counts().0,
        1,
        "only the second request looks the order up"
    );
    shop.commits.add_permits(2);
    assert!(first.await.unwrap());
    assert_eq!(second.await.unwrap(), shop.counts().1 == 2);
    shop.counts().1
}

/// Waits until the request has reached this point.
async fn begun(shop: &Shop, request: JoinHandle<bool>, counts: (usize, usize)) -> JoinHandle<bool> {
    while shop.counts() != counts {
        yield_now().await;
    }
    request
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_an_open_transaction_and_does_not_run() {
    assert_eq!(race(Shop::order).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_select_during_an_open_transaction_lets_both_requests_run() {
    assert_eq!(race(Shop::order_after_a_select).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_many_equal_requests_runs() {
    const RACERS: usize = 16;
    for order in 0..50 {
        let shop = Shop::new();
        shop.commits.add_permits(RACERS);
        let start = Arc::new(Barrier::new(RACERS));
        let racers: Vec<_> = (0..RACERS)
            .map(|_| {
                let (shop, start) = (Arc::clone(&shop), Arc::clone(&start));
                tokio::spawn(async move {
                    start.wait().await;
                    shop.order(order).await
                })
            })
            .collect();
        let mut first = 0;
        for racer in racers {
            first += usize::from(racer.await.unwrap());
        }
        assert_eq!((first, shop.counts().1), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_retry_of_a_request_that_crashed_after_its_mark_runs() {
    let shop = Shop::new();
    let order = || tokio::spawn(Arc::clone(&shop).order(ORDER));
    let crashed = begun(&shop, order(), (0, 1)).await;
    crashed.abort();
    crashed.await.unwrap_err();
    let hint = shop.bloom.hint(&ORDER).await.unwrap();
    assert_eq!(hint, Hint::PerhapsSeen);
    shop.commits.add_permits(1);
    assert!(order().await.unwrap());
    assert!(!order().await.unwrap());
    assert_eq!(shop.counts(), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn only_a_perhaps_seen_member_is_looked_up() {
    let shop = Shop::new();
    shop.commits.add_permits(1000);
    for order in 0..100 {
        assert!(Arc::clone(&shop).order(order).await);
    }
    assert_eq!(shop.counts(), (0, 100));
    for order in 0..100 {
        assert!(!Arc::clone(&shop).order(order).await);
    }
    assert_eq!(shop.counts(), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_the_look_up_finds_is_not_inserted() {
    let bloom = bloom(MemoryStore::new(), 1000);
    let _ = bloom.hint(&ORDER).await.unwrap();
    let look_up = async { Ok::<_, Infallible>(true) };
    let insert = async { unreachable!("the member exists, so nothing is inserted") };
    let inserted: Option<()> = bloom.first_time(&ORDER, look_up, insert).await.unwrap();
    assert!(inserted.is_none());
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_database_reach_the_caller() {
    let bloom = bloom(MemoryStore::new(), 1000);
    for _ in 0..2 {
        let look_up = async { Ok(false) };
        let insert = async { Err::<Option<()>, _>("deadlock") };
        let inserted = bloom.first_time(&ORDER, look_up, insert).await;
        assert_eq!(inserted.unwrap_err(), "deadlock");
    }
    let look_up = async { Err("away") };
    let insert = async { unreachable!("the look-up failed, so nothing is inserted") };
    let inserted: Result<Option<()>, _> = bloom.first_time(&ORDER, look_up, insert).await;
    assert_eq!(inserted.unwrap_err(), "away");
}
