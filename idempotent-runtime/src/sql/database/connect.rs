//! How a database is reached.

use std::future::Future;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::{Connection, Database};

use crate::sql::session::{Server, Session};
use crate::sql::url::Parameter;

/// From a URL to a connection, and who may read what it carries.
pub trait Connect: Database {
    /// What a URL for `connect` may begin with, before the colon.
    const SCHEMES: &'static [&'static str];

    /// What may follow the `?` of a URL: what the client knows.
    const PARAMETERS: &'static [Parameter];

    /// How to connect to `url`, whose scheme is one of [`SCHEMES`](Self::SCHEMES), and by what pool.
    fn options(
        url: &str,
    ) -> sqlx::Result<(<Self::Connection as Connection>::Options, PoolOptions<Self>)>;

    /// Where the options lead, for operators: the kind of database, and its host and port or its file.
    fn place(options: &<Self::Connection as Connection>::Options) -> String;

    /// Why the file of the options cannot be opened.
    fn diagnose(_options: &<Self::Connection as Connection>::Options) -> Option<&'static str> {
        None
    }

    /// The way to the server; nothing, if there is none.
    fn server(options: &<Self::Connection as Connection>::Options) -> Option<Server<'_>>;

    /// What the server says of the session.
    fn session(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Session>> + Send;
}

/// How long it takes at most until `connect` gives up, or the pool that it makes.
pub(crate) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
