//! Transactions to members that this file scripts.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{ALONE, Batches, Counted};
use crate::client::Client;
use crate::wire::{Compare, Txn, TxnReply};

/// A transaction that a member has got, and the reply to it.
type Request = (Txn, SendResponse<Bytes>);

/// A store of two members, and what they get.
async fn scripted() -> (Batches, UnboundedReceiver<Request>) {
    let (sender, requests) = unbounded_channel();
    let members = [member(sender.clone()).await, member(sender).await];
    let client = Client::new(&members, None, None).expect("a client");
    (Batches::new(Arc::new(client)), requests)
}

async fn member(requests: UnboundedSender<Request>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let requests = requests.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
                while let Some(Ok((request, reply))) = connection.accept().await {
                    let requests = requests.clone();
                    tokio::spawn(async move {
                        let (mut body, mut bytes) = (request.into_body(), Vec::new());
                        while let Some(data) = body.data().await {
                            bytes.extend_from_slice(&data.expect("a body"));
                        }
                        // After the five bytes that gRPC writes before a message.
                        let txn = Txn::decode(&bytes[5..]).expect("a transaction");
                        let _ = requests.send((txn, reply));
                    });
                }
            });
        }
    });
    address
}

fn refuse(mut reply: SendResponse<Bytes>, message: &'static str) {
    let response = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", "14")
        .header("grpc-message", message);
    let response = response.body(()).expect("a response");
    reply.send_response(response, true).expect("a caller");
}

fn answer(mut reply: SendResponse<Bytes>) {
    let succeeded = TxnReply {
        succeeded: true,
        ..TxnReply::default()
    };
    let message = succeeded.encode_to_vec();
    let len = u32::try_from(message.len()).expect("a short message");
    let frame = [&[0], &len.to_be_bytes()[..], &message].concat();
    let response = Response::builder().header("content-type", "application/grpc");
    let response = response.body(()).expect("a response");
    let mut body = reply.send_response(response, false).expect("a caller");
    body.send_data(frame.into(), false).expect("a caller");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    body.send_trailers(trailers).expect("a caller");
}

fn txn(key: &'static str) -> Txn {
    Txn {
        compare: vec![Compare::is_of(&Bytes::from_static(key.as_bytes()), 0)],
        ..Txn::default()
    }
}

#[tokio::test]
async fn a_transaction_whose_caller_has_gone_is_not_sent_to_the_next_member() {
    let (batches, mut requests) = scripted().await;
    // Both wait, and then go together.
    batches.lock().unanswered = ALONE;
    let mut gone = Box::pin(batches.send(txn("gone")));
    let mut waits = Box::pin(batches.send(txn("waits")));
    assert!((&mut gone).now_or_never().is_none() && (&mut waits).now_or_never().is_none());
    drop(Counted(&batches));

    let (first, reply) = requests.recv().await.expect("a request");
    assert_eq!(first.success.len(), 2, "{first:?}");
    drop(gone);
    refuse(reply, "etcdserver: no leader");
    let (second, reply) = requests.recv().await.expect("a request");
    assert_eq!(second, txn("waits"));
    answer(reply);
    assert!(waits.await.expect("an answer").succeeded);
}

#[tokio::test]
async fn a_lone_caller_sends_its_transaction_itself_and_holds_up_no_other_if_nobody_polls_it() {
    let (batches, mut requests) = scripted().await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut idle = Box::pin(batches.send(txn("idle")));
    assert!((&mut idle).now_or_never().is_none());
    assert_eq!(tasks(), before, "a lone caller needs no task");
    let (_, idle_reply) = requests.recv().await.expect("a request");

    let others = async {
        for _ in 0..3 * ALONE {
            let answered = batches.send(txn("other")).await;
            assert!(answered.expect("an answer").succeeded);
        }
    };
    let replies = async {
        for _ in 0..3 * ALONE {
            let (other, reply) = requests.recv().await.expect("a request");
            assert_eq!(other, txn("other"));
            answer(reply);
        }
    };
    tokio::join!(others, replies);

    // Its end, or that it has gone, lets the next caller send itself.
    answer(idle_reply);
    assert!(idle.await.expect("an answer").succeeded);
    for _ in 0..2 {
        let before = tasks();
        let mut next = Box::pin(batches.send(txn("next")));
        assert!((&mut next).now_or_never().is_none());
        assert_eq!(tasks(), before);
    }
}
