//! Examines how a database is set up.

use std::future::Future;
use std::io;
use std::time::{Duration, SystemTime};

use idempotent_driver::port::failure;
use idempotent_runtime::store::Level::{self, Fine, Note, Problem};
use idempotent_runtime::store::{Finding, StoreError};
use sqlx::Pool;
use tokio::time::timeout;

use crate::database::Database;
use crate::database::checkout::Checkout;
use crate::database::doctor::MANY;
use crate::database::session::Session;
use crate::migrate::VERSION;

/// Examines the database behind `pool`. Each statement must be answered within `deadline`.
pub(super) async fn examine<DB: Database>(pool: &Pool<DB>, deadline: Duration) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = ask(pool, deadline, &mut findings).await {
        let cause = std::error::Error::source(&error);
        let cause = cause.map(ToString::to_string).unwrap_or_default();
        let found = format!("the setup of the database could not be read: {error}: {cause}");
        findings.push(Finding::new(Problem, found));
    }
    findings
}

async fn ask<DB: Database>(
    pool: &Pool<DB>,
    deadline: Duration,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| {
        let late = is_timeout(&error);
        let failure = failure::statement_failed(error, failure::place(pool));
        let failure = StoreError::from(failure);
        if late {
            failure.reason(format!("did not answer within {deadline:?}"))
        } else {
            failure
        }
    };
    let connection = with_timeout(deadline, pool.acquire()).await;
    let connection = connection.map_err(|error| {
        let is_exhausted = pool.size() >= pool.options().get_max_connections();
        match (is_timeout(&error), is_exhausted) {
            (true, true) => failure::acquire_overdue(pool).into(),
            (true, false) => failed(error),
            (false, _) => failure::acquire_failed(error, pool).into(),
        }
    })?;
    let mut connection = Checkout::for_statements(connection);
    if let Some(server) = DB::server(&pool.connect_options()) {
        let session = with_timeout(deadline, DB::session(&mut connection)).await;
        findings.push(session.unwrap_or(Session::UNKNOWN).finding(&server));
    }
    let state = with_timeout(deadline, DB::backlog_and_clock(&mut connection)).await;
    if let Err(error) = &state
        && failure::is_missing_table(error)
    {
        // The doctor's trial claim has already reported the missing tables. There is nothing else to examine.
        connection.release();
        return Ok(());
    }
    let version = with_timeout(deadline, DB::version(&mut connection)).await;
    findings.push(check_version(version.ok().flatten()));
    let setup = with_timeout(deadline, DB::examine(&mut connection)).await;
    let setup = setup.map_err(failed)?;
    let wrong = setup.iter().filter(|check| check.fails);
    findings.extend(wrong.map(|check| finding(check.level, check.found, check.advice)));
    let (expired, clock) = state.map_err(failed)?;
    findings.push(check_backlog(expired));
    findings.extend(check_clock(clock));
    connection.release();
    Ok(())
}

async fn with_timeout<T>(
    limit: Duration,
    answer: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let answered = timeout(limit, answer).await;
    answered.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

fn is_timeout(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut)
}

fn check_version(version: Option<i64>) -> Finding {
    match version {
        Some(version) if version > VERSION => finding(
            Note,
            format!(
                "the tables are of version {version}, which is newer than this crate's {VERSION}"
            ),
            "update the processes that run an older version of this crate",
        ),
        Some(VERSION) => Finding::new(Fine, format!("the tables are of version {VERSION}")),
        Some(version) => finding(
            Problem,
            format!(
                "the tables are of version {version}, which is older than this crate's {VERSION}"
            ),
            "call `sql::migrate`",
        ),
        None => finding(
            Note,
            "the version of the tables cannot be read",
            "call `sql::migrate`, and grant the user of the store SELECT on `idempotence_version`",
        ),
    }
}

fn check_backlog(expired: i64) -> Finding {
    match expired {
        MANY.. => finding(
            Note,
            format!("at least {MANY} records have expired and wait for a purge"),
            "let one process purge: leave `purge=false` out of its URL, or call `purge_every` with a shorter period",
        ),
        _ => Finding::new(
            Fine,
            format!("{expired} records have expired and wait for a purge"),
        ),
    }
}

/// Compares the clocks. Nothing depends on the difference, because only the database's clock decides what expires.
fn check_clock(theirs: i64) -> Option<Finding> {
    let since = Duration::from_micros(u64::try_from(theirs).ok()?);
    let theirs = SystemTime::UNIX_EPOCH.checked_add(since)?;
    let apart = SystemTime::now()
        .duration_since(theirs)
        .unwrap_or_else(|ahead| ahead.duration());
    (apart > MAX_CLOCK_DIFFERENCE).then(|| {
        let found = format!("the clock of the database and the clock here differ by {apart:.1?}");
        let advice =
            "synchronise both: no rule depends on them, but the times in records are confusing";
        finding(Note, found, advice)
    })
}

const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

fn finding(level: Level, found: impl Into<String>, advice: &str) -> Finding {
    Finding::new(level, found).advise(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_are_noted() {
        assert_eq!(check_clock(0).map(|finding| finding.level()), Some(Note));
        assert_eq!(check_clock(-1), None);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = i64::try_from(now.unwrap_or_default().as_micros()).unwrap_or_default();
        assert_eq!(check_clock(now), None);
    }

    #[test]
    fn tables_of_another_version_are_reported() {
        for (version, level) in [
            (None, Note),
            (Some(VERSION - 1), Problem),
            (Some(VERSION), Fine),
            (Some(VERSION + 1), Note),
        ] {
            assert_eq!(check_version(version).level(), level, "{version:?}");
        }
    }

    #[test]
    fn a_long_backlog_is_reported() {
        assert_eq!(check_backlog(MANY - 1).level(), Fine);
        assert_eq!(check_backlog(MANY).level(), Note);
    }
}
