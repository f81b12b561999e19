//! A payment service of gRPC whose unary method is safe to repeat: the layer answers a repeated call with the first response.
//!
//! ```text
//! cargo run -p idempotence-examples --features tonic-server --bin tonic_server
//! ```
//!
//! `tonic_payment.rs` guards a method with the attribute instead: no client needs to send a key.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use idempotence::http::{Decision, IdempotencyLayer, RouteOptions};
use idempotence::integrations::tonic::with_decision;
use idempotence::{Idempotency, MemoryStore};
use tokio::net::TcpListener;
use tonic::codegen::BoxStream;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::tokio_stream::{self, wrappers::TcpListenerStream};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use self::rpc::{PAY, PayReply, PayRequest, Payments, PaymentsClient, PaymentsServer};

#[path = "tonic_server/rpc.rs"]
mod rpc;

#[derive(Default)]
struct Bank {
    charged: AtomicU64,
}

#[tonic::async_trait]
impl Payments for Bank {
    async fn pay(&self, request: Request<PayRequest>) -> Result<Response<PayReply>, Status> {
        let cents = request.into_inner().cents;
        if cents > 1_000_000 {
            // The other bank did not answer, so the money may have moved: nobody tries again before the lease ends.
            let status = Status::unavailable("the other bank did not answer");
            return Err(with_decision(status, Decision::Hold));
        }
        let receipt = self.charged.fetch_add(cents, Ordering::SeqCst) + cents;
        Ok(Response::new(PayReply { receipt }))
    }

    async fn watch(&self, _: Request<PayRequest>) -> Result<Response<BoxStream<PayReply>>, Status> {
        let receipt = self.charged.load(Ordering::SeqCst);
        let receipts = tokio_stream::once(Ok(PayReply { receipt }));
        Ok(Response::new(Box::pin(receipts)))
    }
}

/// Starts the service on a free port.
async fn serve(idempotency: &Idempotency) -> Result<SocketAddr, Box<dyn Error>> {
    let layer = IdempotencyLayer::builder(idempotency)
        .scope_by_header(AUTHORIZATION)
        .grpc_unary([PAY])
        .for_route(PAY, RouteOptions::require_key)
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder()
        .layer(layer)
        .add_service(PaymentsServer::new(Bank::default()));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Ok(address)
}

async fn connect(address: SocketAddr) -> Result<PaymentsClient, Box<dyn Error>> {
    let channel = Channel::from_shared(format!("http://{address}"))?;
    Ok(PaymentsClient::new(channel.connect().await?))
}

/// A payment of Ada with this key.
fn payment(key: &'static str, cents: u64) -> Request<PayRequest> {
    let order_no = "2026-11-21/42".to_owned();
    let mut request = Request::new(PayRequest { order_no, cents });
    let metadata = request.metadata_mut();
    metadata.insert("authorization", "Bearer ada".parse().expect("ASCII"));
    metadata.insert("idempotency-key", key.parse().expect("ASCII"));
    request
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let idempotency = Idempotency::new(MemoryStore::new());
    let mut client = connect(serve(&idempotency).await?).await?;
    for attempt in 1..=2 {
        let reply = client.pay(payment("8e03978e", 1999)).await?;
        let is_replay = reply.metadata().contains_key("idempotency-replayed");
        let receipt = reply.get_ref().receipt;
        println!("attempt {attempt}: receipt {receipt}, a replay: {is_replay}");
    }
    let Err(refused) = client.pay(payment("8e03978e", 5)).await else {
        return Err("the key belongs to another payment".into());
    };
    println!("{:?}: {}", refused.code(), refused.message());
    for reply in client.watch(payment("8e03978e", 0)).await? {
        println!("receipt {} in a stream, which passes", reply.receipt);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn a_repeated_payment_gets_the_first_receipt() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let mut client = connect(serve(&idempotency).await.unwrap()).await.unwrap();
        for _ in 0..3 {
            let reply = client.pay(payment("a", 5)).await.expect("a receipt");
            assert_eq!(reply.into_inner().receipt, 5);
        }
        let other = client.pay(payment("b", 5)).await.expect("a receipt");
        assert_eq!(other.into_inner().receipt, 10);
        let watched = client.watch(payment("a", 5)).await.expect("receipts");
        assert_eq!(watched, [PayReply { receipt: 10 }]);
    }

    #[tokio::test]
    async fn a_payment_of_an_unknown_outcome_is_not_tried_again() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let mut client = connect(serve(&idempotency).await.unwrap()).await.unwrap();
        let large = || payment("a", 2_000_000);
        let first = client.pay(large()).await.expect_err("no answer");
        assert_eq!(first.code(), Code::Unavailable);
        let again = client.pay(large()).await.expect_err("it is held");
        assert_eq!(again.code(), Code::AlreadyExists);
        assert_eq!(
            again.metadata().get("idempotence-code").unwrap(),
            "outcome_unknown"
        );
    }
}
