//! Findings about the setup of a cluster.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::store::Finding;
use idempotent_runtime::store::Level::{Fine, Note, Problem, Warning};
use tokio::time::timeout;
use tonic::Status;

use crate::client::Client;
use crate::member::Member;
use crate::wire::{self, Alarm, MemberList, Method, Range, StatusReply};

/// The quota of a database without `--quota-backend-bytes`.
const DEFAULT_QUOTA: i64 = 2 << 30;
/// So many revisions without a compaction are a sign that there is none.
const MANY_REVISIONS: i64 = 100_000;

/// Asks all members.
pub(crate) async fn examine(client: &Client, deadline: Duration) -> Vec<Finding> {
    let examination = Examination { client, deadline };
    let asked = client
        .members
        .iter()
        .map(async |member| (member, examination.ask(member, wire::Status {}).await));
    let asked = join_all(asked).await;
    let mut findings: Vec<_> = asked
        .iter()
        .map(|(member, answer)| status(member, answer))
        .collect();
    let answers = || asked.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    findings.extend(answers().find_map(release));
    findings.extend(clusters(answers()));
    let answering = asked.iter().find(|(_, answer)| answer.is_ok());
    let Some((member, _)) = answering else {
        return findings;
    };
    findings.extend(examination.members(member).await);
    findings.extend(examination.alarms(member).await);
    findings.extend(examination.settings(member).await);
    findings
}

/// Whether a member answers and has a leader, and how full its database is.
fn status(member: &Member, answer: &Result<StatusReply, Status>) -> Finding {
    let address = &member.address;
    let status = match answer {
        Ok(status) if status.leader != 0 => status,
        Err(status) if !status.message().contains("no leader") => {
            let found = format!(
                "the member {address} does not answer: {}",
                status.message().escape_debug()
            );
            let advice = "check whether it runs and can be reached; calls go to the other members";
            return Finding::new(Warning, found).advise(advice);
        }
        _ => {
            let found = format!("the member {address} has no leader, so it refuses all calls");
            return Finding::new(Problem, found)
                .advise("start the other members: most of them must reach each other");
        }
    };
    let quota = match status.db_size_quota {
        0 => DEFAULT_QUOTA,
        quota => quota,
    };
    let (size, version) = (status.db_size, status.version.escape_debug());
    let found = format!(
        "etcd {version} at {address}: its database has {} of {} MiB (the quota; members before 3.6 do not tell theirs, which is 2048 MiB \
         by default)",
        size >> 20,
        quota >> 20
    );
    if size < quota / 5 * 4 {
        return Finding::new(Fine, found);
    }
    Finding::new(Warning, found).advise(
        "compact, defragment, and store smaller or shorter-lived results, or raise `--quota-backend-bytes`: a full database refuses \
         claims and results",
    )
}

/// etcd says so of these releases: a member that is killed may lose records that it has acknowledged, or change them twice.
fn release(status: &StatusReply) -> Option<Finding> {
    let version = status.version.as_str();
    let (minor, patch) = version.strip_prefix("3.")?.split_once('.')?;
    let patch = patch.parse::<u32>().ok()?;
    if !matches!((minor, patch), ("4", ..21) | ("5", ..6)) {
        return None;
    }
    let found = format!("etcd {version} may lose acknowledged records when a member is killed");
    Some(Finding::new(Problem, found).advise("upgrade to 3.4.21, to 3.5.6, or newer"))
}

fn clusters<'a>(statuses: impl Iterator<Item = &'a StatusReply>) -> Option<Finding> {
    let clusters = statuses.filter_map(|status| Some(status.header.as_ref()?.cluster));
    let clusters: HashSet<_> = clusters.collect();
    let found = "the members are of different clusters: each admits a call of a key";
    (clusters.len() > 1)
        .then(|| Finding::new(Problem, found).advise("connect to the members of one cluster"))
}

struct Examination<'a> {
    client: &'a Client,
    deadline: Duration,
}

impl Examination<'_> {
    async fn ask<M: Method>(&self, member: &Member, request: M) -> Result<M::Reply, Status> {
        let answer = timeout(self.deadline, self.client.ask(member, request)).await;
        answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
    }

    async fn members(&self, member: &Member) -> Option<Finding> {
        let listed = self.ask(member, MemberList {}).await.ok()?.members;
        let voters = listed.iter().filter(|member| !member.is_learner).count();
        let found = match voters {
            0 | 1 => "the cluster has one member: its loss loses every record",
            2 => "the cluster has two members: the loss of one stops all calls",
            _ => {
                let may_fail = (voters - 1) / 2;
                let found = format!("the cluster has {voters} members, and {may_fail} may fail");
                return Some(Finding::new(Fine, found));
            }
        };
        Some(Finding::new(Warning, found).advise("run three members on three machines"))
    }

    async fn alarms(&self, member: &Member) -> Vec<Finding> {
        let alarms = match self.ask(member, Alarm {}).await {
            Ok(reply) => reply.alarms,
            Err(_) => return Vec::new(),
        };
        let findings = alarms.iter().map(|raised| match raised.alarm {
            1 => Finding::new(Problem, "the alarm NOSPACE is on: claims and results are refused").advise(
                "compact and defragment, raise `--quota-backend-bytes` if that is not enough, then `etcdctl alarm disarm`",
            ),
            _ => Finding::new(Problem, "the alarm CORRUPT is on: members differ in their data")
                .advise("restore the member from the others, then `etcdctl alarm disarm`"),
        });
        findings.collect()
    }

    /// Whether old revisions are removed, and whether users and TLS are on. No method of etcd tells the setting of compaction, so this
    /// looks for the oldest revision.
    async fn settings(&self, member: &Member) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut range = Range::count(b"idempotence");
        let newest = self.ask(member, range.clone()).await;
        let is_auth_off = newest.is_ok() && self.client.has_no_user();
        let newest = newest.ok().and_then(|reply| reply.header);
        let newest = newest.map_or(0, |header| header.revision);
        range.revision = 1;
        if newest > MANY_REVISIONS && self.ask(member, range).await.is_ok() {
            let found =
                format!("all {newest} revisions are kept: the database grows until it is full");
            findings.push(Finding::new(Warning, found).advise(
                "start etcd with `--auto-compaction-mode=periodic --auto-compaction-retention=5m`",
            ));
        }
        if is_auth_off {
            let found = "auth is off: every program that reaches the members can change records";
            findings.push(Finding::new(Note, found).advise(
                "add users, run `etcdctl auth enable`, and have `user:password@` in the URL",
            ));
        }
        if !self.client.is_encrypted {
            let found = "TLS is off: the network reads records and passwords";
            findings.push(Finding::new(Note, found).advise("connect by `etcds://`"));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_may_lose_records_is_a_problem() {
        let is_found = |version: &str| {
            let version = version.to_owned();
            let status = StatusReply {
                version,
                ..StatusReply::default()
            };
            release(&status).is_some()
        };
        for version in ["3.4.0", "3.4.20", "3.5.0", "3.5.5"] {
            assert!(is_found(version), "{version}");
        }
        for version in ["3.4.21", "3.5.6", "3.5.21", "3.6.0", ""] {
            assert!(!is_found(version), "{version}");
        }
    }
}
