//! Connects to PostgreSQL.

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Executor, PgConnection, Postgres, Row, query};

use crate::database::connect::{CONNECT_DEADLINE, Connect};
use crate::database::session::{Server, Session, is_loopback};
use crate::database::url::{Takes, UrlParameter};

impl Connect for Postgres {
    const SCHEMES: &'static [&'static str] = &["postgres", "postgresql"];

    const PARAMETERS: &'static [UrlParameter] = &[
        ("sslmode", SSL_MODE),
        ("ssl-mode", SSL_MODE),
        ("sslrootcert", Takes::Text),
        ("ssl-root-cert", Takes::Text),
        ("ssl-ca", Takes::Text),
        ("sslcert", Takes::Text),
        ("ssl-cert", Takes::Text),
        ("sslkey", Takes::Text),
        ("ssl-key", Takes::Text),
        ("statement-cache-capacity", Takes::Number(u32::MAX as u64)),
        ("host", Takes::Text),
        ("hostaddr", Takes::Address),
        ("port", Takes::Number(u16::MAX as u64)),
        ("dbname", Takes::Text),
        ("user", Takes::Text),
        ("password", Takes::Text),
        ("application_name", Takes::Text),
        ("options", Takes::Text),
        ("options[]", Takes::Text),
    ];

    fn options(url: &str) -> sqlx::Result<(PgConnectOptions, PoolOptions<Self>)> {
        let pool = PoolOptions::new()
            .max_connections(10)
            .acquire_timeout(CONNECT_DEADLINE)
            .test_before_acquire(false)
            .after_connect(|connection: &mut PgConnection, _| {
                Box::pin(async move {
                    // The server continues to wait for the lock of a cancelled statement: this limits the wait.
                    connection.execute("SET lock_timeout = '1s'").await?;
                    Ok(())
                })
            });
        Ok((url.parse()?, pool))
    }

    fn server(options: &PgConnectOptions) -> Option<Server<'_>> {
        let host = options.get_host();
        let by_socket = options.get_socket().is_some() || host.starts_with('/');
        let is_verified = matches!(
            options.get_ssl_mode(),
            PgSslMode::VerifyCa | PgSslMode::VerifyFull
        );
        Some(Server {
            user: options.get_username(),
            is_local: by_socket || is_loopback(host),
            is_verified,
            verify_parameter: "sslmode=verify-full",
        })
    }

    async fn session(connection: &mut PgConnection) -> sqlx::Result<Session> {
        let row = connection.fetch_one(query(SESSION)).await?;
        let address: Option<String> = row.try_get("address")?;
        Ok(Session {
            is_encrypted: row.try_get("encrypted")?,
            // A Unix socket has no address.
            is_local: address.is_none_or(|address| is_loopback(&address)),
        })
    }
}

const SSL_MODE: Takes = Takes::AnyCase(&[
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
]);

const SESSION: &str = "
SELECT (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS encrypted,
    host(inet_server_addr()) AS address";
