//! Many changes with one commit in MySQL and MariaDB.
//!
//! A batch is two requests: the changes, and then all statements of the transaction at once. So a process that stops keeps no
//! row locked: the server runs the transaction to its end. Locked rows are skipped, so a batch waits only for a row that is
//! inserted or removed at the same time. Two batches insert in the order of their keys.

mod document;
mod statements;
#[cfg(all(test, unix))]
mod tests;

use futures_util::TryStreamExt as _;
use idempotent_runtime::port::sql::random_bits;
use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::{
    AssertSqlSafe, Either, Executor as _, MySql, MySqlConnection, Row as _, query, raw_sql,
};

use self::document::{ChangeKind, Documents};
use self::statements as sql;
use crate::database::batch::{Batch, Change, ChangeRequest, Failed, Found, Stage};
use crate::database::counting::Counted;
use crate::mutation::mutation;

impl Batch for MySql {
    /// A batch has about twelve statements, which cost as much as eight changes on connections of their own.
    const INLINE: usize = 8;

    /// A server that does not know `JSON_TABLE` or `SKIP LOCKED`, and a proxy that passes on only one statement, answer with a
    /// syntax error.
    fn lacks_batches(error: &sqlx::Error) -> bool {
        let error = error.as_database_error();
        let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
        error.is_some_and(|error| error.number() == SYNTAX_ERROR)
    }

    /// Two round trips.
    async fn change_many(
        connection: &mut MySqlConnection,
        requests: &[&ChangeRequest],
        _: i32,
    ) -> Result<Vec<Option<Found>>, Failed> {
        let documents = Documents::from_requests(requests);
        let mut answers = BatchAnswers::new(requests, &documents);
        if documents.is_empty() {
            return Ok(answers.found);
        }
        let transaction = Transaction::new(&documents);
        let mut set = query(sql::SET).bind(&answers.batch);
        for text in documents.texts() {
            set = set.bind(text);
        }
        let set = connection.execute(set).await;
        set.map_err(|error| Stage::Begin.failed(error))?;
        match transaction.run(connection, &mut answers).await {
            Ok(()) => Ok(answers.found),
            Err(failed) if mutation!(LeavesTransaction) => Err(failed),
            Err(failed) => {
                let ended = connection.execute(raw_sql(sql::ROLL_BACK)).await;
                Err(Failed {
                    // The transaction may be open, or the session may have the timeout of the batch.
                    is_unusable: ended.is_err(),
                    ..failed
                })
            }
        }
    }
}

const SYNTAX_ERROR: u16 = 1064;

/// The statements of a batch.
struct Transaction {
    text: String,
    /// How many statements are before the commit.
    commit: usize,
}

impl Transaction {
    fn new(documents: &Documents) -> Self {
        let kinds = || {
            ChangeKind::ALL
                .into_iter()
                .filter(|kind| documents.has(*kind))
        };
        let changes: String = kinds().map(change).collect();
        let is_early = |kind: &ChangeKind| {
            if *kind == ChangeKind::Count {
                !mutation!(ReadsCountsLate)
            } else {
                mutation!(ReadsInTransaction)
            }
        };
        let early: String = kinds().filter(is_early).map(read).collect();
        let late = kinds().filter(|kind| !is_early(kind));
        let reads: String = late.flat_map(|kind| [sql::COMMITTED, read(kind)]).collect();
        let before = [sql::BEGIN, &changes, &early].concat();
        let text = [&before, sql::COMMIT, sql::DONE, &reads, sql::END].concat();
        #[cfg(all(test, unix))]
        let text = tests::altered(text);
        Self {
            commit: before.matches("; ").count(),
            text,
        }
    }

    async fn run(
        self,
        connection: &mut MySqlConnection,
        answers: &mut BatchAnswers<'_>,
    ) -> Result<(), Failed> {
        let mut ended = 0;
        let failed = |ended: usize, error| match error {
            // The server runs no statement after the failed statement.
            sqlx::Error::Database(_) if ended < self.commit => Stage::Changes.failed(error),
            sqlx::Error::Database(_) if ended > self.commit => {
                Stage::Commit.failed(sqlx::Error::Protocol(error.to_string()))
            }
            error => Stage::Commit.failed(error),
        };
        let mut results = raw_sql(AssertSqlSafe(self.text)).fetch_many(connection);
        loop {
            match results.try_next().await {
                Ok(None) if answers.are_of_batch => return Ok(()),
                Ok(None) => return Err(Stage::Commit.failed(other_session())),
                Ok(Some(Either::Left(_))) => ended += 1,
                Ok(Some(Either::Right(row))) => {
                    answers.read(&row).map_err(|error| failed(ended, error))?;
                }
                Err(error) => return Err(failed(ended, error)),
            }
        }
    }
}

fn change(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Claim => sql::CLAIM,
        ChangeKind::Count => sql::COUNT,
        ChangeKind::Renew => sql::RENEW,
        ChangeKind::Swap => sql::REPLACE,
        ChangeKind::Remove => sql::REMOVE,
    }
}

fn read(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Claim => sql::READ_CLAIMS,
        ChangeKind::Count => sql::READ_COUNTS,
        ChangeKind::Renew => sql::READ_RENEWALS,
        ChangeKind::Swap => sql::READ_SWAPS,
        ChangeKind::Remove => sql::READ_REMOVALS,
    }
}

/// What the changes found.
struct BatchAnswers<'a> {
    requests: &'a [&'a ChangeRequest],
    documents: &'a Documents,
    found: Vec<Option<Found>>,
    /// The number of the batch.
    batch: String,
    /// Whether the session that answers has the changes of this batch.
    are_of_batch: bool,
}

fn other_session() -> sqlx::Error {
    let text = "the changes of a batch and their transaction were in different sessions";
    sqlx::Error::Protocol(text.to_owned())
}

impl<'a> BatchAnswers<'a> {
    fn new(requests: &'a [&'a ChangeRequest], documents: &'a Documents) -> Self {
        Self {
            requests,
            documents,
            found: requests.iter().map(|_| None).collect(),
            batch: format!("{:032x}", random_bits()),
            are_of_batch: false,
        }
    }

    fn read(&mut self, row: &MySqlRow) -> sqlx::Result<()> {
        let Some(kind) = ChangeKind::numbered(row.try_get(0)?) else {
            return self.read_done(row);
        };
        let n: i64 = row.try_get(1)?;
        let at = usize::try_from(n - 1).ok();
        let place = at.and_then(|at| self.documents.places(kind).get(at).copied());
        let Some(place) = place else {
            return Ok(());
        };
        let value: Option<Vec<u8>> = row.try_get(2)?;
        let request = self.requests[place];
        self.found[place] = match (value, &request.change) {
            (Some(line), Change::Count { attempt, .. }) => {
                Counted::find(&line, *attempt, row.try_get(3)?).map(Found::Counted)
            }
            (Some(value), _) => request.find(Some(value.into())),
            // The change goes alone, and reads the record.
            (None, _) => None,
        };
        Ok(())
    }

    /// Reads which changes are done. The others found no live row, unless it is read later.
    fn read_done(&mut self, row: &MySqlRow) -> sqlx::Result<()> {
        let batch: Option<Vec<u8>> = row.try_get(1)?;
        self.are_of_batch = batch.as_deref() == Some(self.batch.as_bytes());
        for (column, kind) in [
            (2, ChangeKind::Renew),
            (3, ChangeKind::Swap),
            (4, ChangeKind::Remove),
        ] {
            let words: Vec<u8> = row.try_get(column)?;
            let words: Vec<u64> = String::from_utf8_lossy(&words)
                .split(',')
                .map(|word| word.parse().unwrap_or_default())
                .collect();
            for (at, place) in self.documents.places(kind).iter().enumerate() {
                let word = words.get(at / 64).copied().unwrap_or_default();
                self.found[*place] = if word >> (at % 64) & 1 == 1 || mutation!(AnswersForAllRows) {
                    Some(Found::Done)
                } else {
                    self.requests[*place].find(None)
                };
            }
        }
        Ok(())
    }
}
