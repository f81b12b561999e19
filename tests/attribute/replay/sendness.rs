//! `replay` does not need a result that is `Send` or `Sync`.

use std::cell::Cell;
use std::marker::PhantomData;

use idempotence::{Error, idempotent};
use serde::{Deserialize, Serialize};

use crate::replay::{Done, fresh, replays};

fn is_send<T: Send>(future: T) -> T {
    future
}

#[idempotent(key = "id", ttl = "1m", replay = true, payload = "text", wait = "1s")]
async fn sendable(id: u64, text: String) -> Done<usize> {
    tokio::task::yield_now().await;
    Ok(text.len() + usize::try_from(id).unwrap_or_default())
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn not_sync(id: u64) -> Done<Cell<u64>> {
    tokio::task::yield_now().await;
    Ok(Cell::new(id))
}

#[idempotent(key = "id", ttl = "1m", replay = true, on_cancel = "finish")]
async fn not_sync_but_finished(id: u64) -> Done<Cell<u64>> {
    tokio::task::yield_now().await;
    Ok(Cell::new(id))
}

#[idempotent(
    key = "id",
    ttl = "1m",
    replay = true,
    replay_err = |_| true,
    error = |_| Cell::new(0),
)]
async fn not_sync_error(id: u64) -> Result<u64, Cell<u64>> {
    tokio::task::yield_now().await;
    Err(Cell::new(id))
}

#[idempotent(key = (cell.get()), ttl = "1m", replay = true, payload = (cell.get()))]
async fn not_sync_argument(cell: Cell<u64>) -> Done<u64> {
    tokio::task::yield_now().await;
    Ok(cell.get())
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct NotSend(u64, PhantomData<*const ()>);

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn local(id: u64) -> Done<NotSend> {
    tokio::task::yield_now().await;
    Ok(NotSend(id, PhantomData))
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn local_error(id: u64) -> Result<u64, Box<dyn std::error::Error>> {
    tokio::task::yield_now().await;
    Ok(id)
}

#[tokio::test]
async fn a_replaying_future_is_send_if_the_plain_one_is() {
    replays!(is_send(sendable(1, "ab".to_owned())) => 3);
    replays!(is_send(not_sync(1)) => Cell::new(1));
    replays!(is_send(not_sync_but_finished(1)) => Cell::new(1));
    replays!(is_send(not_sync_argument(Cell::new(1))) => 1);
    fresh(async {
        for _ in 0..2 {
            assert_eq!(is_send(not_sync_error(1)).await, Err(Cell::new(1)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_result_need_not_be_send() {
    replays!(local(1) => NotSend(1, PhantomData));
    replays!(local_error(1) => 1);
}

#[tokio::test]
async fn a_spawned_call_gets_the_result_of_another_thread() {
    let idempotency = idempotence::Idempotency::new(idempotence::MemoryStore::new());
    for _ in 0..2 {
        let idempotency = idempotency.clone();
        let call = async move { idempotency.scope(not_sync(1)).await };
        let result: Result<_, Error> = tokio::spawn(call).await.unwrap();
        assert_eq!(result.unwrap().get(), 1);
    }
}
