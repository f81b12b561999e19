//! Composes the layers of a store, once, when it is opened.

use idempotent_runtime::port::redis::Limits;

use crate::client::connection::RedisConnection;
use crate::client::connection_like::{StoreClient, reconnects_itself, sends_once};
use crate::client::replicas::Replicas;
use crate::send::batched::Batched;
use crate::send::direct::Direct;
use crate::send::large::Large;
use crate::send::layer::BaseLayer;
use crate::send::per_node::PerNode;
use crate::send::sender::{BatchScope, Sender};
use crate::send::wait_replicas::WaitReplicas;

/// What the layers depend on.
#[derive(Clone, Copy, Default)]
pub(crate) struct SendSettings {
    pub(crate) replicas: Replicas,
    /// When so many operations have no answer, others go in batches. `None`: there are no batches.
    pub(crate) batch_above: Option<usize>,
    /// The server has all keys, so one call of a script may have the keys of many operations.
    pub(crate) has_one_server: bool,
}

impl SendSettings {
    /// Whether writes wait for replicas.
    fn waits(&self) -> bool {
        self.replicas.wanted > 0
    }
}

impl<C: StoreClient> Sender<C> {
    /// Sends over the caller's own connection, from which no other connection can be made. There are batches if the client is
    /// known and sends a command once.
    pub(crate) fn new(connection: C, settings: SendSettings) -> Self {
        let has_batches = settings.batch_above.is_some()
            && sends_once(&connection)
            && !reconnects_itself(&connection);
        let writes = || WaitReplicas::new(connection.clone(), settings.replicas);
        let (operations, replicated) = if has_batches {
            let operations = batches(&connection, connection.clone(), settings);
            let replicated = settings.waits().then(|| batches_of_writes(&writes()));
            let replicated = replicated.map(BatchScope::Server);
            (BatchScope::Server(operations), replicated)
        } else {
            let operations = Direct::new(connection.clone());
            let replicated = settings.waits().then(|| BatchScope::Off(writes()));
            (BatchScope::Off(operations), replicated)
        };
        Self::over(connection, settings.replicas, operations, None, replicated)
    }
}

impl Sender<RedisConnection> {
    /// Makes more connections to the same servers: for large records, for renewals, and for writes that wait for replicas.
    pub(crate) fn with_more_connections(
        connection: RedisConnection,
        settings: SendSettings,
    ) -> Self {
        let has_batches = settings.batch_above.is_some();
        let batches_on =
            move |server: &RedisConnection| batches(server, server.duplicate(), settings);
        let operations = scope(&connection, has_batches, Direct::new, batches_on);
        let large = Some(Large::new(connection.duplicate()));
        let writes_on = move |server: RedisConnection| {
            WaitReplicas::new(server, settings.replicas).on_other_connections()
        };
        let replicated = settings.waits().then(|| {
            let batches_on =
                move |server: &RedisConnection| batches_of_writes(&writes_on(server.clone()));
            scope(&connection, has_batches, writes_on, batches_on)
        });
        Self::over(connection, settings.replicas, operations, large, replicated)
    }
}

/// The layers over one server, or over each node of a cluster whose masters are known. `alone` sends single operations over a
/// connection, and `batches` makes the batches of a server.
fn scope<S: BaseLayer>(
    connection: &RedisConnection,
    has_batches: bool,
    alone: impl Fn(RedisConnection) -> S,
    batches: impl Fn(&RedisConnection) -> Batched<S> + Send + Sync + 'static,
) -> BatchScope<S> {
    if connection.masters().is_some() {
        let whole = alone(connection.clone());
        BatchScope::PerNode(PerNode::new(connection.clone(), whole, batches))
    } else if has_batches && !connection.is_cluster() {
        BatchScope::Server(batches(connection))
    } else {
        BatchScope::Off(alone(connection.clone()))
    }
}

/// The batches of operations that do not wait for replicas.
fn batches<C: StoreClient>(
    connection: &C,
    renewals: C,
    settings: SendSettings,
) -> Batched<Direct<C>> {
    let limits = Limits {
        inline: settings.batch_above.unwrap_or(0),
        ..Limits::default()
    };
    let direct = || Direct::new(connection.clone());
    let renewals = Direct::new(renewals).with_fallback(connection.clone());
    Batched::new([direct(), direct(), renewals], limits).share_calls(settings.has_one_server)
}

/// Each batch needs a connection, because `WAIT` blocks it.
const WAIT_LIMITS: Limits = Limits {
    inline: 2,
    in_flight: 4,
    tasks: 16,
    // Each part would need its own connection.
    parts: 1,
    ..Limits::DEFAULT
};

fn batches_of_writes<C: StoreClient>(writes: &WaitReplicas<C>) -> Batched<WaitReplicas<C>> {
    Batched::new([writes, writes, writes].map(Clone::clone), WAIT_LIMITS)
}
