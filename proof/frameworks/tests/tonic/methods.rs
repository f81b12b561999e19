//! Which methods are guarded, and their names.

use idempotence::http::RouteOptions;
use tonic::Code;

use crate::bank::{Bank, guarding, idempotency, keyed, plain};
use crate::rpc::{PAY, WATCH};

#[tokio::test]
async fn a_stream_passes_with_a_key() {
    let bank = Bank::start().await;
    for run in 1..=2_u64 {
        let receipts = bank.client.clone().watch(keyed("a", "7")).await.unwrap();
        let receipts: Vec<_> = receipts.iter().map(|reply| reply.receipt).collect();
        assert_eq!(receipts, [run, run]);
    }
}

#[tokio::test]
async fn a_required_key_refuses_a_stream_unless_its_method_is_unguarded() {
    for (is_unguarded, code) in [(false, Some(Code::InvalidArgument)), (true, None)] {
        let idempotency = idempotency();
        let mut layer = guarding(&idempotency).require_key();
        if is_unguarded {
            layer = layer.for_route(WATCH, RouteOptions::unguarded);
        }
        let bank = Bank::of(idempotency, layer).await;
        let watched = bank.client.clone().watch(plain("7")).await;
        assert_eq!(watched.err().map(|status| status.code()), code);
        let unpaid = bank.pay(plain("7")).await.unwrap_err();
        assert_eq!(unpaid.code(), Code::InvalidArgument);
        assert!(bank.pay(keyed("a", "7")).await.is_ok());
    }
}

#[tokio::test]
async fn a_method_is_an_endpoint_of_its_own() {
    let bank = Bank::start().await;
    bank.pay(keyed("a", "7")).await.unwrap();
    let key = ("header", "authorization", ["Bearer ada".as_bytes()], "a");
    let endpoint = format!("POST {PAY}");
    let found = bank.idempotency.peek(&endpoint, &key).await.unwrap();
    let stored = found.expect("the stored response");
    assert!(bank.idempotency.forget(&stored).await.is_ok());
    bank.pay(keyed("a", "8")).await.expect("the key is free");
    let known = bank.idempotency.endpoints().to_string();
    assert!(known.contains(&endpoint), "{known}");
}

#[tokio::test]
async fn a_misspelled_method_is_found() {
    let idempotency = idempotency();
    let layer = guarding(&idempotency);
    let layer = layer.grpc_unary(["/payments.Payments/Refnud"]).build();
    let bank = Bank::with_layer(idempotency, layer.clone()).await;
    bank.pay(keyed("a", "7")).await.unwrap();
    assert_eq!(layer.unmatched_routes(), ["/payments.Payments/Refnud"]);
}

#[test]
fn a_name_that_is_no_method_is_refused() {
    for name in [
        "",
        "Pay",
        "/Pay",
        "payments.Payments/Pay",
        "/a/b/c",
        "//Pay",
        "/a/",
        "/a b/c",
    ] {
        let built = std::panic::catch_unwind(|| guarding(&idempotency()).grpc_unary([name]));
        assert!(built.is_err(), "{name}");
    }
}
