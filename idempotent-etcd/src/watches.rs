//! Wakes waiting calls.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::Client;
use crate::wire::{Range, Watch};

/// A call that waits longer than this for its subscription polls without it.
const SUBSCRIBE: Duration = Duration::from_secs(1);

/// A watch of etcd, which also notifies of renewals and of the expiry.
pub(crate) async fn subscribe(client: &Client, key: Bytes) -> Option<watch::Receiver<()>> {
    let create = Some(Range::of(&key));
    let open = async {
        let mut replies = client.stream(Watch { create }).await.ok()?;
        let created = replies.message().await.ok()??;
        (created.created && !created.canceled).then_some(replies)
    };
    let mut replies = timeout(SUBSCRIBE, open).await.ok()??;
    let (sender, receiver) = watch::channel(());
    client.runtime.spawn(async move {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                reply = replies.message() => match reply {
                    Ok(Some(reply)) if !reply.canceled => {
                        if !reply.events.is_empty() {
                            sender.send_replace(());
                        }
                    }
                    _ => return,
                }
            }
        }
    });
    Some(receiver)
}
