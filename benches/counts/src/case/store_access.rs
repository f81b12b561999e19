//! How the store of a case is reached.

use std::sync::Arc;

use idempotence::{Idempotency, MemoryStore, RedisStore, SealKey, Store};

use super::Kind;
use crate::requests::Guard;
use crate::server::{Scripted, Server};

/// How the store is reached.
#[derive(Debug, Clone, Copy)]
pub(super) enum StoreAccess {
    /// Not at all.
    None,
    Memory,
    /// By a connection without sockets. `is_pending_once`: see [`Scripted`].
    Scripted {
        is_pending_once: bool,
    },
    /// By the connection that the store makes, through a socket.
    Client,
}

impl StoreAccess {
    pub(super) fn is_counted_for(self, kind: Kind) -> bool {
        if let Kind::Request(guard) | Kind::ReplayedRequest(guard) = kind {
            return match guard {
                Guard::Nothing => matches!(self, Self::None),
                Guard::Layer => !matches!(self, Self::None | Self::Client),
                Guard::ByHand => matches!(self, Self::Scripted { .. }),
            };
        }
        if let Kind::Several = kind {
            // A store knows only of its own connection that one server has all keys.
            return matches!(self, Self::Memory | Self::Client);
        }
        match self {
            Self::None => false,
            Self::Memory
            | Self::Scripted {
                is_pending_once: false,
            } => true,
            // Followers do not use the store.
            Self::Scripted { .. } => !matches!(
                kind,
                Kind::RefusedFollower | Kind::Storm(_) | Kind::SealedReplay(_)
            ),
            // In how many pieces a socket delivers a large reply varies.
            Self::Client => matches!(
                kind,
                Kind::Release | Kind::Store | Kind::Replay(..2000) | Kind::Done
            ),
        }
    }

    pub(super) async fn reach(self, server: &Arc<Server>, seals: bool) -> Idempotency {
        if let Some(connection) = self.connection(server) {
            let store = RedisStore::from_connection(connection).await;
            return handle_on(store.expect("the script is a server of Redis"), seals);
        }
        match self {
            Self::Client => {
                let port = Arc::clone(server).listen().await;
                let url = format!("redis://127.0.0.1:{port}");
                let mut store = RedisStore::connect(&url).await;
                // Under Valgrind on a busy machine the script may answer too late.
                let mut repeats = 0..20;
                while store.is_err() && repeats.next().is_some() {
                    store = RedisStore::connect(&url).await;
                }
                handle_on(store.expect("the script is a server of Redis"), seals)
            }
            _ => handle_on(MemoryStore::new(), seals),
        }
    }

    /// The connection without sockets.
    pub(super) fn connection(self, server: &Arc<Server>) -> Option<Scripted> {
        let Self::Scripted { is_pending_once } = self else {
            return None;
        };
        Some(Scripted {
            server: Arc::clone(server),
            is_pending_once,
        })
    }
}

fn handle_on(store: impl Store, seals: bool) -> Idempotency {
    let mut builder = Idempotency::builder(store);
    if seals {
        builder = builder.seal(SealKey::new([7; 32]));
    }
    builder.build().expect("options that fit each other")
}
