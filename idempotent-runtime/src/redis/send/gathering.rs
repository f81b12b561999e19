//! With which other operations an operation goes in a batch.

use std::sync::Arc;

use ::redis::RedisError;
use ::redis::aio::ConnectionLike;

use crate::batch::Route;
use crate::redis::send::batching::{Batching, Pipelines};

/// How an operation may be gathered with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Operations on one key follow each other in different batches.
    OfKey,
    /// Many callers use the key, and a batch may have many operations on it.
    Any,
    /// As `OfKey`, but with other renewals only, on their own connection.
    Renewal,
}

/// Which operations go in a batch.
#[derive(Clone)]
pub(crate) enum Gathering<C> {
    /// None: each operation is its own request.
    Alone,
    /// All operations of the server.
    Together(Arc<Batching<C>>),
    /// The operations of each node of a cluster.
    ByNode(Arc<dyn ByNode<Batching<C>>>),
}

/// What a store has for each node of a cluster.
pub(crate) trait ByNode<T>: Send + Sync {
    /// The `T` of the node of this key; `None` if this node is not known or does not answer.
    fn of_key(&self, key: &str) -> Option<Arc<T>>;

    /// Whether this answer of a node to an operation means that the operation must be sent again.
    fn must_repeat(&self, error: &RedisError) -> bool;
}

/// The batches that an operation may go in.
pub(crate) enum Chosen<'a, C> {
    Nothing,
    OfServer(&'a Batching<C>),
    OfNode(Arc<Batching<C>>),
}

impl<C> Gathering<C> {
    pub(crate) fn of_key(&self, key: &str) -> Chosen<'_, C> {
        match self {
            Self::Alone => Chosen::Nothing,
            Self::Together(batching) => Chosen::OfServer(batching),
            Self::ByNode(nodes) => nodes.of_key(key).map_or(Chosen::Nothing, Chosen::OfNode),
        }
    }

    /// Whether an operation of a batch must be sent again, alone. One server gives the same answer again.
    pub(crate) fn must_repeat(&self, error: &RedisError) -> bool {
        match self {
            Self::ByNode(nodes) => nodes.must_repeat(error),
            Self::Alone | Self::Together(_) => false,
        }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Chosen<'_, C> {
    fn batching(&self) -> Option<&Batching<C>> {
        match self {
            Self::Nothing => None,
            Self::OfServer(batching) => Some(batching),
            Self::OfNode(batching) => Some(batching),
        }
    }

    /// The route of an operation that is not a renewal.
    pub(crate) fn route(&self) -> Route<'_, Pipelines<C>> {
        self.batching().map_or(Route::Inline(None), Batching::route)
    }

    /// The route of a renewal.
    pub(crate) fn renewal_route(&self) -> Route<'_, Pipelines<C>> {
        self.batching()
            .map_or(Route::Inline(None), Batching::renewal_route)
    }

    /// The digest of a key, for requests of a batch.
    pub(crate) fn digest(&self, key: &str) -> u64 {
        self.batching().map_or(0, |batching| batching.digest(key))
    }
}
