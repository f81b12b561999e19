//! A payment service: `Pay` charges an order once, by the attribute. `tonic_server.rs` does it by the layer, with keys of clients.
//!
//! The trait is written by hand instead of by `tonic_build`, so that the example needs no `protoc`.
//!
//! ```text
//! cargo run -p idempotence-examples --features tonic --bin tonic_payment
//! ```
#![allow(clippy::print_stdout)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotence::{Idempotency, MemoryStore, idempotent};
use tonic::{Request, Response, Status};

#[derive(Clone)]
struct PayRequest {
    order_no: String,
    cents: u64,
}

#[derive(Debug)]
struct PayReply {
    receipt: u64,
}

#[tonic::async_trait]
trait Payments: Send + Sync + 'static {
    async fn pay(&self, request: Request<PayRequest>) -> Result<Response<PayReply>, Status>;
}

struct Service {
    idempotency: Idempotency,
    charged: AtomicU64,
}

#[tonic::async_trait]
impl Payments for Service {
    /// With the feature `tonic` of `idempotence`, a refused call returns a `Status`. A `Response` cannot be stored. To give the
    /// receipt to a repeated call, guard the function that makes the receipt, with `replay = true`.
    #[idempotent(
        name = "payments.pay",
        key = (request.get_ref().order_no),
        payload = (request.get_ref().cents),
        ttl = "24h",
        using = self.idempotency
    )]
    #[tracing::instrument(skip_all)]
    async fn pay(&self, request: Request<PayRequest>) -> Result<Response<PayReply>, Status> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let cents = request.into_inner().cents;
        let receipt = self.charged.fetch_add(cents, Ordering::SeqCst) + cents;
        Ok(Response::new(PayReply { receipt }))
    }
}

#[tokio::main]
async fn main() {
    let service = Service {
        idempotency: Idempotency::new(MemoryStore::new()),
        charged: AtomicU64::new(0),
    };
    let request = PayRequest {
        order_no: "2026-11-21/42".to_owned(),
        cents: 1999,
    };
    let pay = || service.pay(Request::new(request.clone()));
    let (first, second) = tokio::join!(pay(), pay());
    for reply in [first, second] {
        match reply {
            Ok(reply) => println!("charged, receipt {}", reply.into_inner().receipt),
            Err(status) => println!("{:?}: {}", status.code(), status.message()),
        }
    }
    println!("{} cents charged", service.charged.load(Ordering::SeqCst));
}

#[cfg(test)]
mod tests {
    use idempotence::Error;
    use idempotence::integrations::tonic::{ACTION, CODE, RETRY_AFTER_MS};
    use tonic::Code;

    use super::*;

    #[tonic::async_trait]
    trait Refunds {
        async fn above(&self, order_no: &str) -> Result<usize, Error>;
        async fn below(&self, order_no: &str) -> Result<usize, Error>;
    }

    #[tonic::async_trait]
    impl Refunds for () {
        #[tracing::instrument(skip_all)]
        #[idempotent(key = "order_no", ttl = "24h")]
        async fn above(&self, order_no: &str) -> Result<usize, Error> {
            tokio::task::yield_now().await;
            Ok(order_no.len())
        }

        #[idempotent(key = "order_no", ttl = "24h")]
        #[tracing::instrument(skip_all)]
        async fn below(&self, order_no: &str) -> Result<usize, Error> {
            tokio::task::yield_now().await;
            Ok(order_no.len())
        }
    }

    #[tokio::test]
    async fn an_async_trait_method_may_be_instrumented_above_and_below() {
        Idempotency::new(MemoryStore::new())
            .scope(async {
                assert_eq!(().above("42").await.expect("the first call runs"), 2);
                assert!(
                    ().above("42")
                        .await
                        .is_err_and(|error| error.is_duplicate())
                );
                assert_eq!(().below("42").await.expect("the first call runs"), 2);
                assert!(
                    ().below("42")
                        .await
                        .is_err_and(|error| error.is_duplicate())
                );
            })
            .await;
    }

    #[tokio::test]
    async fn an_order_is_charged_once() {
        let service = Service {
            idempotency: Idempotency::new(MemoryStore::new()),
            charged: AtomicU64::new(0),
        };
        let pay = |order_no: &str, cents| {
            let order_no = order_no.to_owned();
            service.pay(Request::new(PayRequest { order_no, cents }))
        };
        let (first, second, other) = tokio::join!(pay("1", 5), pay("1", 5), pay("2", 5));
        assert!(first.is_ok() && other.is_ok());
        let again = pay("1", 5).await;
        let changed = pay("1", 500).await;
        assert_eq!(service.charged.load(Ordering::SeqCst), 10);

        let running = second.expect_err("an equal call is running");
        assert_eq!(running.code(), Code::Aborted);
        assert_eq!(metadata(&running, CODE), Some("in_progress"));
        assert_eq!(metadata(&running, ACTION), Some("wait"));
        let wait = metadata(&running, RETRY_AFTER_MS).expect("a call in progress has a retry hint");
        assert!(wait.parse::<u64>().is_ok_and(|wait| wait > 0), "{wait}");

        let done = again.expect_err("the order is charged already");
        assert_eq!(done.code(), Code::AlreadyExists);
        assert_eq!(metadata(&done, CODE), Some("already_done"));
        assert_eq!(metadata(&done, ACTION), Some("ignore"));
        assert_eq!(metadata(&done, RETRY_AFTER_MS), None);

        let changed = changed.expect_err("the order has another price");
        assert_eq!(changed.code(), Code::FailedPrecondition);
        assert_eq!(metadata(&changed, CODE), Some("payload_mismatch"));
        assert_eq!(metadata(&changed, ACTION), Some("fix"));
    }

    fn metadata<'a>(status: &'a Status, key: &str) -> Option<&'a str> {
        status.metadata().get(key)?.to_str().ok()
    }
}
