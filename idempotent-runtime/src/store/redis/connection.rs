//! A connection that is made anew when it broke.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult,
    ServerErrorKind, Value,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

/// A connection to one server, shared by all clones, and made anew by the next command after it
/// broke.
///
/// A command is never sent twice, and waits for its reply as long as its caller does. In two things this differs from the client's own
/// [`ConnectionManager`](::redis::aio::ConnectionManager): a reconnection that was refused, by a
/// password that was wrong for a moment or by too many clients, is tried again; and a server that
/// became a replica is left, so that an address that moved to the new primary is followed.
#[derive(Clone)]
pub struct RedisConnection {
    shared: Arc<Server>,
}

struct Server {
    client: Client,
    current: Mutex<Current>,
}

/// The connection in use, or on its way, with its number.
struct Current {
    number: u64,
    connection: Option<Connecting>,
}

type Connecting = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

impl RedisConnection {
    /// Makes a connection that connects with the first command.
    pub fn new(client: Client) -> Self {
        let current = Mutex::new(Current {
            number: 0,
            connection: None,
        });
        Self {
            shared: Arc::new(Server { client, current }),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        let current = self.shared.current.lock();
        current.unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> (u64, Connecting) {
        let mut current = self.current();
        if let Some(connection) = &current.connection {
            return (current.number, connection.clone());
        }
        let client = self.shared.client.clone();
        // Shared, so that the callers who wait for it fail together instead of one after another.
        let connection = async move { connect(&client).await }.boxed().shared();
        // In a task, so that it goes on when the caller who began it is dropped.
        tokio::spawn(connection.clone().map(drop));
        current.number += 1;
        current.connection = Some(connection.clone());
        (current.number, connection)
    }

    /// Lets the next command connect anew, unless that was seen to already.
    fn forget(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.connection = None;
        }
    }

    async fn send<T>(
        &self,
        send: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let (number, connection) = self.get();
        let connected = connection.await.inspect_err(|_| self.forget(number))?;
        let reply = send(connected).await;
        reply.inspect_err(|error| {
            if is_over(error) {
                self.forget(number);
            }
        })
    }
}

/// A call that meets an outage is to fail within its own deadline, which is a second unless told
/// otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        // The deadline of a command is its caller's: a second timer for each would be a twentieth of
        // what it costs.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(1024);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.map_err(|error| {
        if error.is_io_error() {
            // Whatever it was, a time-out included: the command was not sent, and this says so.
            RedisError::from(io::Error::new(io::ErrorKind::ConnectionRefused, error))
        } else {
            error
        }
    })
}

/// Whether nothing good can come from this connection any more.
fn is_over(error: &RedisError) -> bool {
    let replica = matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
    );
    error.is_unrecoverable_error() || replica || error.code() == Some("NOAUTH")
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.send(async move |mut connection| connection.send_packed_command(cmd).await)
            .boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.send(async move |mut connection| {
            let replies = connection.send_packed_commands(pipeline, offset, count);
            replies.await
        })
        .boxed()
    }

    fn get_db(&self) -> i64 {
        self.shared
            .client
            .get_connection_info()
            .redis_settings()
            .db()
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.shared.client.get_connection_info().addr();
        write!(f, "RedisConnection({server})")
    }
}
