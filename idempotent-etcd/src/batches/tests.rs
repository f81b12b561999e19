//! Transactions to members that this file scripts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;
use tonic::Code;

use super::Batches;
use crate::scripted::{self, Requests};
use crate::wire::{Authenticate, AuthenticateReply, Compare, Txn, TxnReply};

async fn scripted(user: Option<Authenticate>) -> (Batches, Requests) {
    let (client, requests) = scripted::client(user).await;
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
    let (batches, mut requests) = scripted(None).await;
    let mut lone = Box::pin(batches.send(txn("lone")));
    assert!((&mut lone).now_or_never().is_none());
    let _lone_reply = requests.next::<Txn>().await;
    // Both go together.
    let mut gone = Box::pin(batches.send(txn("gone")));
    let mut waits = Box::pin(batches.send(txn("waits")));
    assert!((&mut gone).now_or_never().is_none() && (&mut waits).now_or_never().is_none());

    let (first, reply) = requests.next::<Txn>().await;
    assert_eq!(first.success.len(), 2, "{first:?}");
    drop(gone);
    reply.refuse(Code::Unavailable, "etcdserver: no leader");
    let (second, reply) = requests.next::<Txn>().await;
    assert_eq!(second, txn("waits"));
    reply.answer(&succeeded());
    let answer = waits.await.expect("a place in the queue");
    assert!(answer.expect("an answer").succeeded);
}

#[tokio::test]
async fn a_transaction_whose_caller_goes_during_a_login_is_not_sent() {
    let user = Authenticate {
        name: "user".to_owned(),
        password: "password".to_owned(),
    };
    let (batches, mut requests) = scripted(Some(user)).await;
    let mut lone = Box::pin(batches.send(txn("lone")));
    let mut gone = Box::pin(batches.send(txn("gone")));
    let mut waits = Box::pin(batches.send(txn("waits")));
    for caller in [&mut lone, &mut gone, &mut waits] {
        assert!(caller.now_or_never().is_none());
    }
    let (_, login) = requests.next::<Authenticate>().await;
    drop((lone, gone));
    let token = "token".to_owned();
    login.answer(&AuthenticateReply { token });
    let (sent, reply) = requests.next::<Txn>().await;
    assert_eq!(sent, txn("waits"));
    reply.answer(&succeeded());
    let answer = waits.await.expect("a place in the queue");
    assert!(answer.expect("an answer").succeeded);
}

#[tokio::test]
async fn a_lone_caller_sends_its_transaction_itself_and_holds_up_no_other_if_nobody_polls_it() {
    const OTHERS: usize = 12;

    let (batches, mut requests) = scripted(None).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut idle = Box::pin(batches.send(txn("idle")));
    assert!((&mut idle).now_or_never().is_none());
    assert_eq!(tasks(), before, "a lone caller needs no task");
    let (_, idle_reply) = requests.next::<Txn>().await;

    let before = tasks();
    let others = async {
        for _ in 0..OTHERS {
            let answered = batches.send(txn("other")).await;
            let answered = answered.expect("a place in the queue");
            assert!(answered.expect("an answer").succeeded);
        }
    };
    let replies = async {
        for _ in 0..OTHERS {
            let (other, reply) = requests.next::<Txn>().await;
            assert_eq!(other, txn("other"));
            reply.answer(&succeeded());
        }
    };
    tokio::join!(others, replies);
    let no_task_is_left = async {
        while tasks() > before {
            yield_now().await;
        }
    };
    let ended = timeout(Duration::from_mins(1), no_task_is_left).await;
    ended.expect("the tasks of the batches end");

    // Its end, or that it has gone, lets the next caller send itself.
    idle_reply.answer(&succeeded());
    let answer = idle.await.expect("a place");
    assert!(answer.expect("an answer").succeeded);
    for _ in 0..2 {
        let before = tasks();
        let mut next = Box::pin(batches.send(txn("next")));
        assert!((&mut next).now_or_never().is_none());
        assert_eq!(tasks(), before);
    }
}
