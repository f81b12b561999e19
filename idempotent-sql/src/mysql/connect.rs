//! Connects to MySQL or MariaDB.

use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::pool::PoolOptions;
use sqlx::{Executor, MySql, MySqlConnection, Row, query};

use crate::database::connect::{CONNECT_DEADLINE, Connect};
use crate::database::session::{Server, Session, is_loopback};
use crate::database::url::{Takes, UrlParameter};

impl Connect for MySql {
    const SCHEMES: &'static [&'static str] = &["mysql", "mariadb"];

    const PARAMETERS: &'static [UrlParameter] = &[
        ("ssl-mode", SSL_MODE),
        ("sslmode", SSL_MODE),
        ("ssl-ca", Takes::Text),
        ("sslca", Takes::Text),
        ("ssl-cert", Takes::Text),
        ("sslcert", Takes::Text),
        ("ssl-key", Takes::Text),
        ("sslkey", Takes::Text),
        ("charset", Takes::Text),
        ("collation", Takes::Text),
        ("statement-cache-capacity", Takes::Number(u32::MAX as u64)),
        ("socket", Takes::Text),
        ("timezone", Takes::Text),
        ("time-zone", Takes::Text),
    ];

    fn options(url: &str) -> sqlx::Result<(MySqlConnectOptions, PoolOptions<Self>)> {
        let pool = PoolOptions::new()
            .max_connections(10)
            .acquire_timeout(CONNECT_DEADLINE)
            .test_before_acquire(false)
            .after_connect(|connection: &mut MySqlConnection, _| {
                Box::pin(async move {
                    // The server continues to wait for the lock of a cancelled statement: this limits the wait. A server may
                    // also be configured without autocommit.
                    let set = "SET SESSION autocommit = 1, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1";
                    connection.execute(set).await?;
                    Ok(())
                })
            });
        Ok((url.parse()?, pool))
    }

    fn server(options: &MySqlConnectOptions) -> Option<Server<'_>> {
        let is_verified = matches!(
            options.get_ssl_mode(),
            MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
        );
        Some(Server {
            user: options.get_username(),
            is_local: options.get_socket().is_some() || is_loopback(options.get_host()),
            is_verified,
            verify_parameter: "ssl-mode=VERIFY_IDENTITY",
        })
    }

    async fn session(connection: &mut MySqlConnection) -> sqlx::Result<Session> {
        let cipher = connection.fetch_optional(query(CIPHER)).await?;
        let cipher: Option<String> = cipher.map(|row| row.try_get(1)).transpose()?;
        let client: String = connection.fetch_one(query(CLIENT)).await?.try_get(0)?;
        Ok(Session {
            is_encrypted: cipher.map(|cipher| !cipher.is_empty()),
            is_local: is_loopback(&client),
        })
    }
}

const SSL_MODE: Takes = Takes::AnyCase(&[
    "disabled",
    "preferred",
    "required",
    "verify_ca",
    "verify_identity",
]);

const CIPHER: &str = "SHOW SESSION STATUS LIKE 'Ssl_cipher'";

/// The address of the client, as the server sees it. The server does not report its own address.
const CLIENT: &str = "SELECT CAST(SUBSTRING_INDEX(USER(), '@', -1) AS CHAR)";
