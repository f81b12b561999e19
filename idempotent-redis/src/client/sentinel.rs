//! Finds the master through sentinels.

use std::io;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, ErrorKind, RedisConnectionInfo, RedisError, RedisResult, Role, cmd};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use idempotent_runtime::store::StoreError;
use tokio::time::sleep;

use crate::client::failure::bad_url;
use crate::client::link::{address, connect, connection_info, unavailable};
use crate::client::tls::Certificates;
use crate::client::url::{Credentials, Host};

/// The sentinels of one master.
pub(crate) struct Sentinels {
    clients: Vec<Client>,
    master: String,
    tls: bool,
    login: RedisConnectionInfo,
    certificates: Certificates,
}

impl Sentinels {
    pub(crate) fn new(
        sentinels: Vec<Host>,
        credentials: Credentials,
        master: String,
        tls: bool,
        login: RedisConnectionInfo,
        certificates: Certificates,
    ) -> Result<Self, StoreError> {
        let sentinel_login = credentials.on(0, login.protocol());
        let sentinels = sentinels.into_iter().map(|host| {
            let info = connection_info(address(host, tls), sentinel_login.clone());
            certificates.client(info.map_err(|_| bad_url("names a sentinel without an address"))?)
        });
        Ok(Self {
            clients: sentinels.collect::<Result<_, _>>()?,
            master,
            tls,
            login,
            certificates,
        })
    }

    /// Connects to the current master. Also returns a client for more connections to it.
    ///
    /// Asks every sentinel, each a little later than the previous one, because a sentinel may be down, cut off or outdated.
    /// Uses the first server that confirms that it is the master.
    pub(crate) async fn connect(&self) -> RedisResult<(Client, MultiplexedConnection)> {
        let mut attempts: FuturesUnordered<_> = (0..)
            .zip(&self.clients)
            .map(|(turn, sentinel)| async move {
                sleep(STAGGER * turn).await;
                self.connect_by(sentinel).await
            })
            .collect();
        let mut cause: Option<RedisError> = None;
        while let Some(answer) = attempts.next().await {
            match answer {
                Ok(master) => return Ok(master),
                // A refusal explains more than the failure to reach a sentinel.
                Err(error) if cause.as_ref().is_none_or(RedisError::is_io_error) => {
                    cause = Some(error);
                }
                Err(_) => {}
            }
        }
        Err(cause.unwrap_or_else(|| unavailable("has no sentinel that answers")))
    }

    async fn connect_by(&self, sentinel: &Client) -> RedisResult<(Client, MultiplexedConnection)> {
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        let mut connection = connect(sentinel).await?;
        let answer: Option<Host> = question.query_async(&mut connection).await?;
        let host = answer.ok_or_else(|| {
            let what = "the sentinels know no master of this name";
            RedisError::from((
                ErrorKind::MasterNameNotFoundBySentinel,
                what,
                self.master.clone(),
            ))
        })?;
        let info = connection_info(address(host, self.tls), self.login.clone())?;
        let client = self.certificates.client(info).map_err(io::Error::other)?;
        let mut connection = connect(&client).await?;
        match cmd("ROLE").query_async(&mut connection).await? {
            Role::Primary { .. } => Ok((client, connection)),
            _ => Err(unavailable(
                "has no master now: the server that a sentinel names is a replica",
            )),
        }
    }

    pub(crate) fn describe(&self) -> String {
        let sentinels: Vec<_> = self
            .clients
            .iter()
            .map(|sentinel| sentinel.get_connection_info().addr().to_string())
            .collect();
        format!(
            "redis master `{}` of the sentinels {}",
            self.master,
            sentinels.join(", ")
        )
    }

    pub(crate) fn db(&self) -> i64 {
        self.login.db()
    }
}

/// The pause between sentinels. A working sentinel answers sooner.
const STAGGER: Duration = Duration::from_millis(100);
