//! What a server says of itself, and what it keeps from its user.

mod permissions;
mod servers;

use std::time::{Duration, SystemTime};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, FromRedisValue, RedisResult, cmd};

use super::store::RedisStore;
use super::topology::in_time;
use crate::store::Level::{Fine, Note};
use crate::store::{Finding, Level};

/// Asks the server, with one command after the other.
pub(super) async fn examine<C>(store: &RedisStore<C>, key: &str, deadline: Duration) -> Vec<Finding>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let mut doctor = Doctor {
        connection: store.connection.clone(),
        wanted: store.replicas.map_or(0, |replicas| replicas.wanted),
        deadline,
        findings: Vec::new(),
    };
    if doctor.servers(store.failure.sends_once).await {
        doctor.clock().await;
        doctor.permissions(store, key).await;
    }
    if let Some(replicas) = store.replicas
        && replicas.timeout > deadline / 4
    {
        let found = format!(
            "replicas are waited for up to {:?}, and the first try of a call is over after {:?}",
            replicas.timeout,
            deadline / 4
        );
        doctor.tell(
            Note,
            found,
            "set `replica_timeout` below a quarter of the deadline",
        );
    }
    doctor.findings
}

struct Doctor<C> {
    connection: C,
    wanted: u32,
    deadline: Duration,
    findings: Vec<Finding>,
}

impl<C: ConnectionLike> Doctor<C> {
    fn tell(&mut self, level: Level, found: impl Into<String>, advice: &str) {
        self.add(Finding::new(level, found).advise(advice));
    }

    fn fine(&mut self, found: impl Into<String>) {
        self.add(Finding::new(Fine, found));
    }

    /// Tells once what several nodes of a cluster say.
    fn add(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let answer = command.query_async(&mut self.connection);
        in_time(self.deadline, answer).await
    }

    async fn clock(&mut self) {
        // Nothing depends on it: expiry is by the server's clock alone.
        let Ok((seconds, micros)) = self.ask::<(u64, u32)>(&cmd("TIME")).await else {
            return;
        };
        let since = Duration::new(seconds, micros.min(999_999) * 1000);
        let Some(theirs) = SystemTime::UNIX_EPOCH.checked_add(since) else {
            let found = format!("the server's clock makes no sense: {seconds} s since 1970");
            return self.tell(Note, found, "see to the time of the server's host");
        };
        let ours = SystemTime::now();
        let apart = ours
            .duration_since(theirs)
            .unwrap_or_else(|theirs| theirs.duration());
        if apart > LONGEST_APART {
            let found = format!("the server's clock and the one here are {apart:.1?} apart");
            let advice =
                "synchronise both: no rule depends on it, but the times in records are confusing";
            self.tell(Note, found, advice);
        }
    }
}

const LONGEST_APART: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::scripted::Scripted;
    use super::*;

    async fn findings_about(reply: &'static str) -> Vec<Finding> {
        let mut doctor = Doctor {
            connection: Scripted::default().answers(&["TIME"], &[reply]),
            wanted: 0,
            deadline: Duration::from_secs(20),
            findings: Vec::new(),
        };
        doctor.clock().await;
        doctor.findings
    }

    #[tokio::test]
    async fn a_clock_that_makes_no_sense_is_a_finding() {
        let end_of_time = "*2\r\n$20\r\n18446744073709551615\r\n$1\r\n0\r\n";
        let findings = findings_about(end_of_time).await;
        assert!(findings[0].found().contains("makes no sense"));
        let findings = findings_about("*2\r\n$1\r\n1\r\n$1\r\n0\r\n").await;
        assert!(findings[0].found().contains("apart"));
    }
}
