//! Writes that wait for replicas: alone on a lane, or many in a batch with one `WAIT`.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;
use foldhash::fast::RandomState;

use super::batching::{Request, WaitingPipelines};
use super::connection::RedisConnection;
use super::gathering::Order;
use super::lanes::Lanes;
use super::replicas::{Acknowledged, Replicas};
use super::script::Script;
use crate::batch::{Batches, Limits, Way};
use crate::store::StoreError;

/// The writes of a store that wait for replicas.
pub(super) struct Replicated<C> {
    connection: C,
    /// `None` on the caller's own connection, where `WAIT` runs on that connection.
    lanes: Option<Arc<Lanes>>,
    replicas: Replicas,
    /// `None` if each write is its own request.
    batches: Option<Writes<C>>,
}

struct Writes<C> {
    operations: Batches<WaitingPipelines<C>>,
    /// Renewals have their own queue, because a late renewal loses a lease.
    renewals: Batches<WaitingPipelines<C>>,
    /// Its seed is random, so a client cannot choose two keys that wait for each other.
    digests: RandomState,
}

/// Each batch needs a lane, because `WAIT` blocks its connection.
const LIMITS: Limits = Limits {
    inline: 2,
    in_flight: 4,
    tasks: 16,
    // Each part would need its own lane.
    parts: 1,
    ..Limits::DEFAULT
};

impl Replicated<RedisConnection> {
    /// Makes more connections for the writes.
    pub(super) fn over_lanes(&self) -> Self {
        let lanes = Arc::new(Lanes::to(self.connection.clone()));
        let batches = self.batches.is_some();
        Self::with(self.connection.clone(), Some(lanes), self.replicas, batches)
    }
}

impl<C> Replicated<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Writes on this connection.
    pub(super) fn on(connection: C, replicas: Replicas, batches: bool) -> Self {
        Self::with(connection, None, replicas, batches)
    }

    fn with(connection: C, lanes: Option<Arc<Lanes>>, replicas: Replicas, batches: bool) -> Self {
        let batches_of = |limits| {
            let pipelines = WaitingPipelines {
                connection: connection.clone(),
                lanes: lanes.clone(),
                replicas,
            };
            Batches::new(pipelines, limits)
        };
        let batches = batches.then(|| Writes {
            operations: batches_of(LIMITS),
            renewals: batches_of(Limits {
                inline: 0,
                ..LIMITS
            }),
            digests: RandomState::default(),
        });
        Self {
            connection,
            lanes,
            replicas,
            batches,
        }
    }

    pub(super) fn replicas(&self) -> Replicas {
        self.replicas
    }

    /// Runs a script that writes, alone.
    pub(super) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> RedisResult<Acknowledged> {
        if let Some(lanes) = &self.lanes {
            lanes.run(self.replicas, script, keys, args).await
        } else {
            let mut connection = self.connection.clone();
            self.replicas.run(&mut connection, script, keys, args).await
        }
    }

    /// Runs a script that writes, alone or with others.
    ///
    /// # Errors
    ///
    /// Of the queue. An error of the server is in the reply.
    pub(super) async fn run_with_others(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        order: Order,
    ) -> Result<RedisResult<Acknowledged>, StoreError> {
        let Some(batches) = &self.batches else {
            return Ok(self.run(script, keys, args).await);
        };
        let way = match batches.operations.way() {
            Way::Queue(_) if order == Order::Renewal => batches.renewals.way(),
            way => way,
        };
        match way {
            Way::Queue(entrance) => {
                let digest = (order != Order::Any).then(|| batches.digests.hash_one(keys[0]));
                let request = Request::script(script, keys, args, digest);
                entrance.submit(request).await
            }
            Way::Inline(_inline) => Ok(self.run(script, keys, args).await),
        }
    }
}
