//! Orders that are paid while something fails: each runs at most once, and no call gets the result of another order.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::{Error, Idempotency};

/// How often the body of each order ran, and how many calls got a result.
pub struct Orders {
    runs: Vec<AtomicUsize>,
    answered: usize,
}

impl Orders {
    pub const NUMBERS: Range<usize> = 0..30;

    #[expect(clippy::new_without_default, reason = "tests begin with no runs")]
    pub fn new() -> Self {
        Self {
            runs: Self::NUMBERS.map(|_| AtomicUsize::new(0)).collect(),
            answered: 0,
        }
    }

    /// Pays an order. Its result is its number.
    pub async fn pay(&self, handle: &Idempotency, order: usize) -> Result<usize, Error> {
        let call = handle.call("orders.pay").key(&order);
        // No lease ends during a test on a busy machine: the body of an order whose end is not stored would run again.
        let call = call.ttl(Duration::from_hours(1));
        let call = call.lease(Duration::from_mins(30)).replay();
        let body = async {
            self.runs[order].fetch_add(1, Ordering::Relaxed);
            Ok(order)
        };
        call.run(body).await
    }

    /// Pays all orders at once. Calls may be refused because of the store, or because an earlier call has the key.
    pub async fn pay_all(&mut self, handle: &Idempotency) {
        let answers = join_all(Self::NUMBERS.map(|order| self.pay(handle, order))).await;
        for (order, answer) in Self::NUMBERS.zip(answers) {
            match answer {
                Ok(result) => {
                    assert_eq!(result, order);
                    self.answered += 1;
                }
                Err(error) => {
                    let expected = error.is_unavailable() || matches!(error, Error::InProgress(_));
                    assert!(expected, "{error:?}");
                }
            }
        }
    }

    /// A store sends most operations again on another connection, so some calls got a result.
    pub fn check(&self) {
        assert!(self.answered > 0, "every call was refused");
        for (order, runs) in self.runs.iter().enumerate() {
            let runs = runs.load(Ordering::Relaxed);
            assert!(runs <= 1, "order {order} ran {runs} times");
        }
    }
}
