//! Examines servers for the doctor: their setup, and the permissions of the user.

mod examination;
mod permissions;
mod servers;

use std::time::Duration;

use ::redis::aio::ConnectionLike;
use idempotent_runtime::port::redis::first_try;
use idempotent_runtime::store::Finding;
use idempotent_runtime::store::Level::Note;

use self::examination::Examination;
use crate::client::listener::Listener;
use crate::client::replicas::Replicas;
use crate::record::removal::RemovalCommand;

/// The store whose servers are examined.
pub(crate) struct Doctor<'a, C> {
    pub(crate) connection: C,
    /// Whether the connection is to one server, not to a cluster.
    pub(crate) one_server: bool,
    /// `None` if writes do not wait for replicas.
    pub(crate) replicas: Option<Replicas>,
    pub(crate) removal: &'a RemovalCommand,
    /// `None` if the store has no subscriptions.
    pub(crate) listener: Option<&'a Listener>,
}

impl<C: ConnectionLike> Doctor<'_, C> {
    /// Examines the servers, one command after the other.
    pub(crate) async fn examine(self, key: &str, deadline: Duration) -> Vec<Finding> {
        let mut examination = Examination {
            connection: self.connection,
            wanted: self.replicas.map_or(0, |replicas| replicas.wanted),
            deadline,
            findings: Vec::new(),
        };
        if examination.servers(self.one_server).await {
            examination.clock().await;
            let permissions = examination.permissions(self.removal, self.listener, key);
            permissions.await;
        }
        if let Some(replicas) = self.replicas
            && replicas.timeout > first_try(deadline)
        {
            let found = format!(
                "a write waits up to {:?} for replicas, but the first attempt of a call ends after {:?}",
                replicas.timeout,
                first_try(deadline)
            );
            let advice = "set `replica_timeout` below a quarter of the deadline";
            examination.report(Note, found, advice);
        }
        examination.findings
    }
}
