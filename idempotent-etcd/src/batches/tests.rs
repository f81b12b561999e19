//! Transactions to members that this file scripts.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::runtime::Handle;

use super::{ALONE, Batches, Counted};
use crate::scripted::{self, Requests};
use crate::wire::{Compare, Txn, TxnReply};

async fn scripted() -> (Batches, Requests) {
    let (client, requests) = scripted::client(None).await;
    (Batches::new(Arc::new(client)), requests)
}

fn succeeded() -> TxnReply {
    TxnReply {
        succeeded: true,
        ..TxnReply::default()
    }
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

    let (first, reply) = requests.next::<Txn>().await;
    assert_eq!(first.success.len(), 2, "{first:?}");
    drop(gone);
    reply.refuse("etcdserver: no leader");
    let (second, reply) = requests.next::<Txn>().await;
    assert_eq!(second, txn("waits"));
    reply.answer(&succeeded());
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
    let (_, idle_reply) = requests.next::<Txn>().await;

    let others = async {
        for _ in 0..3 * ALONE {
            let answered = batches.send(txn("other")).await;
            assert!(answered.expect("an answer").succeeded);
        }
    };
    let replies = async {
        for _ in 0..3 * ALONE {
            let (other, reply) = requests.next::<Txn>().await;
            assert_eq!(other, txn("other"));
            reply.answer(&succeeded());
        }
    };
    tokio::join!(others, replies);

    // Its end, or that it has gone, lets the next caller send itself.
    idle_reply.answer(&succeeded());
    assert!(idle.await.expect("an answer").succeeded);
    for _ in 0..2 {
        let before = tasks();
        let mut next = Box::pin(batches.send(txn("next")));
        assert!((&mut next).now_or_never().is_none());
        assert_eq!(tasks(), before);
    }
}
