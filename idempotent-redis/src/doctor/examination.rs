//! An examination of servers, with its findings so far.

use std::time::{Duration, SystemTime};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, FromRedisValue, RedisResult, cmd};
use idempotent_runtime::store::Level::{Fine, Note};
use idempotent_runtime::store::{Finding, Level};

use crate::client::link::in_time;

pub(crate) struct Examination<C> {
    pub(crate) connection: C,
    /// The number of replicas that a write waits for.
    pub(crate) wanted: u32,
    /// The longest time for one answer.
    pub(crate) deadline: Duration,
    pub(crate) findings: Vec<Finding>,
}

impl<C: ConnectionLike> Examination<C> {
    pub(crate) fn report(&mut self, level: Level, found: impl Into<String>, advice: &str) {
        self.add(Finding::new(level, found).advise(advice));
    }

    pub(crate) fn fine(&mut self, found: impl Into<String>) {
        self.add(Finding::new(Fine, found));
    }

    /// Adds a finding once, although several nodes of a cluster may have it.
    pub(crate) fn add(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    pub(crate) async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let answer = command.query_async(&mut self.connection);
        in_time(self.deadline, answer).await
    }

    pub(crate) async fn clock(&mut self) {
        // No rule depends on this process's clock: only the server's clock decides expiry.
        let Ok((seconds, micros)) = self.ask::<(u64, u32)>(&cmd("TIME")).await else {
            return;
        };
        let since = Duration::new(seconds, micros.min(999_999) * 1000);
        let Some(theirs) = SystemTime::UNIX_EPOCH.checked_add(since) else {
            let found = format!("the server's clock is out of range: {seconds} s since 1970");
            return self.report(Note, found, "set the time of the server's host");
        };
        let ours = SystemTime::now();
        let apart = ours
            .duration_since(theirs)
            .unwrap_or_else(|theirs| theirs.duration());
        if apart > LONGEST_APART {
            let found =
                format!("the server's clock and the clock of this process are {apart:.1?} apart");
            let advice =
                "synchronise both: no rule depends on it, but the times in records are misleading";
            self.report(Note, found, advice);
        }
    }
}

const LONGEST_APART: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::scripted::Scripted;

    async fn findings_about(reply: &'static str) -> Vec<Finding> {
        let mut examination = Examination {
            connection: Scripted::default().answers(&["TIME"], &[reply]),
            wanted: 0,
            deadline: Duration::from_secs(20),
            findings: Vec::new(),
        };
        examination.clock().await;
        examination.findings
    }

    #[tokio::test]
    async fn a_clock_out_of_range_is_a_finding() {
        let end_of_time = "*2\r\n$20\r\n18446744073709551615\r\n$1\r\n0\r\n";
        let findings = findings_about(end_of_time).await;
        assert!(findings[0].found().contains("out of range"));
        let findings = findings_about("*2\r\n$1\r\n1\r\n$1\r\n0\r\n").await;
        assert!(findings[0].found().contains("apart"));
    }
}
