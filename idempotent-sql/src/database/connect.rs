//! How to connect to a database.

use std::future::Future;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::{Connection, Database};

use super::session::{Server, Session};
use super::url::UrlParameter;

/// Turns a URL into connection settings, and describes the server and the session.
pub trait Connect: Database {
    /// The schemes of the URLs that `connect` accepts.
    const SCHEMES: &'static [&'static str];

    /// The parameters of a URL that the client knows.
    const PARAMETERS: &'static [UrlParameter];

    /// The settings of the connections and of the pool for `url`. Its scheme is one of [`SCHEMES`](Self::SCHEMES).
    fn options(
        url: &str,
    ) -> sqlx::Result<(<Self::Connection as Connection>::Options, PoolOptions<Self>)>;

    /// A statement that changes nothing, but fails if the file of the database is read-only. `None`: not needed.
    const WRITE_NOTHING: Option<&'static str> = None;

    /// The server that the options name. `None`: the database has no server.
    fn server(options: &<Self::Connection as Connection>::Options) -> Option<Server<'_>>;

    /// The session, as the server describes it.
    fn session(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Session>> + Send;
}

/// The deadline of `connect`, and of every `acquire` on the pool that it makes.
pub(crate) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
