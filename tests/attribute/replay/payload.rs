//! Calls with an equal key and another payload: they are refused, and their body does not run.

use std::cell::Cell;

use idempotence::{Error, idempotent};

use crate::replay::{Done, fresh, replays};

/// Counts the bodies that ran.
type Ran<'a> = &'a Cell<u32>;

/// Awaits a call, an equal call, and a call with another payload. The third call is refused.
macro_rules! mismatches {
    ($call:expr, $other:expr, $ran:expr) => {
        fresh(async {
            $call.await.unwrap();
            assert_eq!($call.await.unwrap_err().code(), "already_done");
            is_mismatch(&$other.await.unwrap_err());
        })
        .await;
        assert_eq!($ran.replace(0), 1);
    };
}

fn is_mismatch(error: &Error) {
    assert_eq!(error.code(), "payload_mismatch");
    assert!(!error.is_duplicate() && error.retry_after().is_none());
}

struct Order {
    id: u64,
    lines: Vec<(String, u64)>,
}

fn order(amount: u64) -> Order {
    Order {
        id: 1,
        lines: vec![("a".to_owned(), amount)],
    }
}

#[idempotent(key = "order.id", ttl = "1m", payload = "order.lines, currency")]
async fn names(ran: Ran<'_>, order: Order, currency: &str) -> Done<()> {
    ran.set(ran.get() + 1);
    drop((order, currency));
    Ok(())
}

#[idempotent(key = order.id, ttl = "1m", payload = (order.lines[0].1, currency.to_lowercase()))]
async fn expressions(ran: Ran<'_>, order: Order, currency: String) -> Done<()> {
    ran.set(ran.get() + 1);
    let moved = (order, currency);
    drop(moved);
    Ok(())
}

#[idempotent(key = "id", ttl = "1m", payload = (&lines))]
async fn taken_apart(
    ran: Ran<'_>,
    Order { id, lines }: Order,
    (mut sum, _): (u64, u64),
) -> Done<u64> {
    ran.set(ran.get() + 1);
    sum += id;
    for (_, amount) in lines {
        sum += amount;
    }
    Ok(sum)
}

#[idempotent(key = "id", ttl = "1m", payload = ())]
async fn empty(ran: Ran<'_>, id: u64) -> Done<u64> {
    ran.set(ran.get() + 1);
    Ok(id)
}

struct Till {
    name: String,
    currency: String,
    sum: u64,
}

impl Till {
    #[idempotent(key = "self.name, id", ttl = "1m", payload = "self.currency, amount")]
    async fn add(&mut self, ran: Ran<'_>, id: u64, amount: u64) -> Done<u64> {
        ran.set(ran.get() + 1);
        self.sum += amount + id;
        Ok(self.sum)
    }

    #[idempotent(key = "self.name", ttl = "1m", payload = (self.currency(), self.sum), replay = true)]
    async fn close(self) -> Done<String> {
        Ok(self.name)
    }

    fn currency(&self) -> &str {
        &self.currency
    }
}

fn till(currency: &str) -> Till {
    Till {
        name: "front".to_owned(),
        currency: currency.to_owned(),
        sum: 0,
    }
}

#[tokio::test]
async fn a_call_with_another_payload_is_refused_and_does_not_run() {
    let ran = &Cell::new(0);
    mismatches!(
        names(ran, order(5), "EUR"),
        names(ran, order(6), "EUR"),
        ran
    );
    mismatches!(
        names(ran, order(5), "EUR"),
        names(ran, order(5), "CHF"),
        ran
    );
    let eur = || "EUR".to_owned();
    mismatches!(
        expressions(ran, order(5), eur()),
        expressions(ran, order(6), eur()),
        ran
    );
    let any = (0, 0);
    mismatches!(
        taken_apart(ran, order(5), any),
        taken_apart(ran, order(6), any),
        ran
    );
    mismatches!(till("EUR").add(ran, 1, 5), till("EUR").add(ran, 1, 6), ran);
    mismatches!(till("EUR").add(ran, 1, 5), till("CHF").add(ran, 1, 5), ran);
}

#[tokio::test]
async fn payloads_are_equal_if_their_expressions_are() {
    let ran = &Cell::new(0);
    fresh(async {
        expressions(ran, order(5), "EUR".to_owned()).await.unwrap();
        let equal = expressions(ran, order(5), "eur".to_owned()).await;
        assert_eq!(equal.unwrap_err().code(), "already_done");
        empty(ran, 1).await.unwrap();
        assert_eq!(empty(ran, 1).await.unwrap_err().code(), "already_done");
    })
    .await;
    assert_eq!(ran.get(), 2);
}

#[tokio::test]
async fn only_an_equal_payload_gets_the_stored_result() {
    replays!(till("EUR").close() => "front");
    fresh(async {
        till("EUR").close().await.unwrap();
        is_mismatch(&till("CHF").close().await.unwrap_err());
        let refused = till("CHF").close().await.unwrap_err();
        assert!(refused.to_string().contains("another payload"), "{refused}");
    })
    .await;
}

#[idempotent(key = "id", ttl = "1m", name = "payload.shared", payload = "amount")]
async fn with_payload(id: u64, amount: u64) -> Done<u64> {
    Ok(id + amount)
}

#[idempotent(key = "id", ttl = "1m", name = "payload.shared")]
async fn without_payload(id: u64) -> Done<u64> {
    Ok(id)
}

#[tokio::test]
async fn a_call_without_a_payload_equals_each_payload() {
    fresh(async {
        with_payload(1, 5).await.unwrap();
        let refused = without_payload(1).await.unwrap_err();
        assert_eq!(refused.code(), "already_done");
        without_payload(2).await.unwrap();
        let refused = with_payload(2, 5).await.unwrap_err();
        assert_eq!(refused.code(), "already_done");
    })
    .await;
}

#[idempotent(
    key = "id",
    ttl = "1m",
    payload = "amount",
    on_duplicate = |_| Ok(0),
)]
async fn silent(id: u64, amount: u64) -> Done<u64> {
    Ok(id + amount)
}

#[tokio::test]
async fn on_duplicate_does_not_answer_a_mismatch() {
    fresh(async {
        assert_eq!(silent(1, 5).await.unwrap(), 6);
        assert_eq!(silent(1, 5).await.unwrap(), 0);
        is_mismatch(&silent(1, 6).await.unwrap_err());
    })
    .await;
}
