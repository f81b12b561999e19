//! Runs scripts, each on the right connection.

use std::sync::Arc;

use ::redis::aio::ConnectionLike;
use ::redis::{FromRedisValue, RedisError, RedisResult, Value};

use crate::batch::{QueueSender, Route};
use crate::redis::client::connection::RedisConnection;
use crate::redis::client::connection_like::{place_of, reconnects_itself, sends_once};
use crate::redis::client::failure::Failures;
use crate::redis::client::info::is_one_server;
use crate::redis::client::replicas::Replicas;
use crate::redis::script::Script;
use crate::redis::send::batching::{Batching, Pipelines, Request};
use crate::redis::send::gathering::{Chosen, Gathering, Order};
use crate::redis::send::large::{Large, Turn};
use crate::redis::send::nodes::Nodes;
use crate::redis::send::replicated::Replicated;
use crate::store::{Claim, StoreError, Swap};

/// The connections of a store. A clone shares them.
#[derive(Clone)]
pub(crate) struct Executor<C> {
    connection: C,
    failures: Failures,
    /// `None` if writes do not wait for replicas.
    replicated: Option<Arc<Replicated<C>>>,
    gathering: Gathering<C>,
    /// How many operations their callers send themselves before others gather.
    inline: usize,
    /// One call of a script may have the keys of many operations.
    has_one_server: bool,
    /// `None` on the caller's own connection, from which the store cannot make another.
    large: Option<Arc<Large<C>>>,
}

impl Executor<RedisConnection> {
    /// Allows more connections to the same servers: for large records, for renewals, and for writes that wait for replicas.
    pub(crate) fn with_more_connections(self) -> Self {
        let replicated = self
            .replicated
            .map(|writes| Arc::new(writes.over_wait_connections()));
        let large = Some(Arc::new(Large::on(self.connection.duplicate())));
        let gathering = match self.gathering {
            Gathering::Together(_) => {
                let renewals = self.connection.duplicate();
                Gathering::Together(Arc::new(Batching::on(
                    &self.connection,
                    renewals,
                    self.inline,
                )))
            }
            Gathering::Alone if self.connection.masters().is_some() => {
                let inline = self.inline;
                let of_node =
                    move |node: &RedisConnection| Batching::on(node, node.duplicate(), inline);
                Gathering::ByNode(Arc::new(Nodes::of(self.connection.clone(), of_node)))
            }
            gathering => gathering,
        };
        Self {
            replicated,
            gathering,
            large,
            ..self
        }
    }
}

impl<C> Executor<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// When `batch_above` operations have no answer, others gather, if the client is known and sends a command once.
    pub(crate) fn new(connection: C, replicas: Replicas, batch_above: Option<usize>) -> Self {
        let sends_once = sends_once(&connection);
        let inline = batch_above.unwrap_or(0);
        let batches = batch_above.is_some() && sends_once && !reconnects_itself(&connection);
        let gathering = if batches {
            let renewals = connection.clone();
            Gathering::Together(Arc::new(Batching::on(&connection, renewals, inline)))
        } else {
            Gathering::Alone
        };
        let replicated = (replicas.wanted > 0)
            .then(|| Arc::new(Replicated::on(connection.clone(), replicas, batches)));
        Self {
            failures: Failures {
                place: place_of(&connection),
                sends_once,
            },
            gathering,
            inline,
            connection,
            replicated,
            has_one_server: false,
            large: None,
        }
    }

    /// The same, with the answers of the servers to `INFO`.
    pub(crate) fn informed(self, info: &[String]) -> Self {
        Self {
            has_one_server: is_one_server(info),
            ..self
        }
    }

    /// The connection for small records and for commands that do not wait.
    pub(crate) fn connection(&self) -> C {
        self.connection.clone()
    }

    /// The connection for this key; `None` if it needs a turn because its record was large.
    pub(crate) fn connection_without_turn(&self, key: &str) -> Option<C> {
        (!self.needs_turn(key)).then(|| self.connection())
    }

    /// The connection for this key, after waiting for a turn if its record was large.
    pub(crate) async fn connection_for(&self, key: &str) -> (C, Option<Turn<'_>>) {
        match self.large.as_ref().filter(|large| large.was_large(key)) {
            Some(large) => {
                let (connection, turn) = large.wait_turn().await;
                (connection, Some(turn))
            }
            None => (self.connection.clone(), None),
        }
    }

    /// Remembers whether the record of this key is large.
    pub(crate) fn note_size(&self, key: &str, bytes: usize) {
        if let Some(large) = &self.large {
            large.note(key, bytes);
        }
    }

    /// The replicas that writes wait for.
    pub(crate) fn replicas(&self) -> Option<Replicas> {
        let replicated = self.replicated.as_ref();
        replicated.map(|writes| writes.replicas())
    }

    /// Whether the client sends a command once, to one server.
    pub(crate) fn sends_once(&self) -> bool {
        self.failures.sends_once
    }

    /// The address of the store, without a password.
    pub(crate) fn place(&self) -> &str {
        &self.failures.place
    }

    /// The store's error for an error of the client.
    pub(crate) fn error(&self, error: RedisError) -> StoreError {
        self.failures.of_operation(error)
    }

    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let reply = if let Some(mut connection) = self.connection_without_turn(keys[0]) {
            script.run(&mut connection, keys, args).await
        } else {
            let run_in_turn = async {
                let (mut connection, _turn) = self.connection_for(keys[0]).await;
                script.run(&mut connection, keys, args).await
            };
            Box::pin(run_in_turn).await
        };
        reply.map_err(|error| self.error(error))
    }

    /// Whether operations on this key need a turn, because its record was large. They do not go in batches.
    pub(crate) fn needs_turn(&self, key: &str) -> bool {
        let large = self.large.as_ref();
        large.is_some_and(|large| large.was_large(key))
    }

    /// The batches for a key that needs no turn.
    pub(crate) fn batching(&self, key: &str) -> Chosen<'_, C> {
        self.gathering.of_key(key)
    }

    /// Whether an operation of a batch must be sent again, alone: the node of the batch has refused it, for example because the
    /// slot of its key is on another node now.
    pub(crate) fn must_repeat(&self, reply: &RedisResult<Value>) -> bool {
        matches!(reply, Err(error) if self.gathering.must_repeat(error))
    }

    /// Sends a request with others.
    pub(crate) async fn submit(
        &self,
        sender: QueueSender<Pipelines<C>>,
        request: Request,
    ) -> Result<RedisResult<Value>, StoreError> {
        let request = if self.has_one_server {
            request
        } else {
            request.alone()
        };
        let answer = sender.submit(request).await;
        answer.map_err(|error| error.place(self.place().to_owned()))
    }

    /// Runs a script on one small record, alone or with others. Operations on one key stay in order.
    async fn run_in_batch(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        order: Order,
    ) -> Result<Value, StoreError> {
        if self.needs_turn(keys[0]) {
            return self.run(script, keys, args).await;
        }
        let reply = self.run_by(script, keys, args, order).await?;
        reply.map_err(|error| self.error(error))
    }

    /// Runs a script on keys that many callers use, alone or with others. An error of the server is in the reply.
    pub(crate) async fn run_with_others(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<RedisResult<Value>, StoreError> {
        self.run_by(script, keys, args, Order::Any).await
    }

    /// Runs a script on small records. An error of the server is in the reply.
    async fn run_by(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        order: Order,
    ) -> Result<RedisResult<Value>, StoreError> {
        let batching = self.batching(keys[0]);
        let route = match order {
            Order::Renewal => batching.renewal_route(),
            Order::OfKey | Order::Any => batching.route(),
        };
        match route {
            Route::Queued(sender) => {
                let digest = (order != Order::Any).then(|| batching.digest(keys[0]));
                let request = Request::script(script, keys, args, digest);
                let reply = self.submit(sender, request).await?;
                if !self.must_repeat(&reply) {
                    return Ok(reply);
                }
                let mut connection = self.connection();
                // Boxed, because this is rare and the future of each operation would have room for it.
                Ok(Box::pin(script.run(&mut connection, keys, args)).await)
            }
            Route::Inline(_inline) => {
                let mut connection = self.connection();
                Ok(script.run(&mut connection, keys, args).await)
            }
        }
    }

    /// Runs a script that writes; if writes wait for replicas, its `replicated` form with a `WAIT`.
    ///
    /// Its reply must be a number above zero, or an array, if the write is done or was done before.
    pub(crate) async fn write(
        &self,
        script: &'static Script,
        replicated: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        self.write_in(Order::Any, script, replicated, keys, args)
            .await
    }

    /// As [`write`](Self::write), with this order among the operations of the first key.
    pub(crate) async fn write_in(
        &self,
        order: Order,
        script: &'static Script,
        replicated_form: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let Some(replicated) = &self.replicated else {
            return self.run_in_batch(script, keys, args, order).await;
        };
        let run = async {
            if self.needs_turn(keys[0]) {
                return Ok(replicated.run(replicated_form, keys, args).await);
            }
            let run = replicated.run_with_others(replicated_form, keys, args, order);
            run.await
        };
        let reply = Box::pin(run).await;
        let reply = reply.map_err(|error| error.place(self.place().to_owned()))?;
        let (reply, enough) = reply.map_err(|error| self.error(error))?;
        match (reply, enough) {
            (Value::Int(1..) | Value::Array(_), Err(short)) => Err(short.into_error(self.place())),
            (reply, _) => Ok(reply),
        }
    }

    /// Converts a reply.
    pub(crate) fn read<T: FromRedisValue>(&self, reply: Value) -> Result<T, StoreError> {
        T::from_redis_value(reply).map_err(|error| self.error(RedisError::from(error)))
    }

    /// Converts a reply: a number if the key is claimed, else the stored value.
    pub(crate) fn read_claim(&self, reply: Value) -> Result<Claim, StoreError> {
        match reply {
            Value::Int(_) => Ok(Claim::Claimed),
            taken => Ok(Claim::Taken(self.read::<Vec<u8>>(taken)?.into())),
        }
    }

    /// Converts a reply: a number if the change is done, nil if nothing was stored, else the stored value.
    pub(crate) fn read_swap(&self, reply: Value) -> Result<Swap, StoreError> {
        Ok(match reply {
            Value::Nil => Swap::Absent,
            Value::Int(_) => Swap::Done,
            other => Swap::Other(self.read::<Vec<u8>>(other)?.into()),
        })
    }
}
