//! The attempts at one operation: by which connection, and whether there is another one.

use sqlx::{Connection, Pool};

use crate::sql::database::Database;
use crate::sql::failure;
use crate::sql::lent::Lent;
use crate::sql::retryable::is_retryable;
use crate::store::{StoreError, StoreErrorKind};

pub(super) struct Attempts<'a, DB: Database> {
    pool: &'a Pool<DB>,
    left: u32,
    /// An attempt had no answer, so no later one can say that nothing was changed.
    perhaps_applied: bool,
    /// A connection that is not given back yet.
    kept: Option<Lent<DB>>,
    /// Whether connections are kept for the next who does the same.
    keeps: bool,
}

impl<'a, DB: Database> Attempts<'a, DB> {
    pub(super) fn new(pool: &'a Pool<DB>) -> Self {
        Self {
            pool,
            left: DB::MOST_SENDS,
            perhaps_applied: false,
            kept: None,
            keeps: false,
        }
    }

    /// By the connection of the one before, and then for the next one.
    pub(super) fn after(pool: &'a Pool<DB>, kept: Option<Lent<DB>>) -> Self {
        Self {
            kept,
            keeps: true,
            ..Self::new(pool)
        }
    }

    /// The connection, unless others of the pool may wait for it: then it is given back, and they have it first.
    pub(super) fn for_the_next(self) -> Option<Lent<DB>> {
        let exhausted = self.pool.size() >= self.pool.options().get_max_connections();
        self.kept.filter(|_| !exhausted || self.pool.num_idle() > 0)
    }

    /// A connection for the next attempt: the kept one, or one of the pool.
    pub(super) async fn acquire(&mut self) -> Result<Lent<DB>, StoreError> {
        loop {
            let mut connection = match self.kept.take() {
                Some(kept) => kept.for_further_statements(),
                None => match self.pool.acquire().await {
                    Ok(acquired) => Lent::for_statements(acquired),
                    Err(error) => return Err(self.failed(failure::unsent(error))),
                },
            };
            // Where one was broken, those that were idle meanwhile may be, too: after a restart all of them are.
            if !self.perhaps_applied || connection.ping().await.is_ok() {
                return Ok(connection);
            }
        }
    }

    /// The answer, if there is one; `None` if the operation is to be sent again.
    pub(super) fn ended<T>(
        &mut self,
        connection: Lent<DB>,
        answer: sqlx::Result<Option<T>>,
    ) -> Result<Option<T>, StoreError> {
        self.left -= 1;
        let error = match answer {
            Ok(Some(answer)) => {
                self.rests(connection);
                return Ok(Some(answer));
            }
            Ok(None) => {
                self.rests(connection);
                StoreError::new(StoreErrorKind::NotApplied, "too many others want this key")
            }
            Err(error) => {
                let again = is_retryable(&error);
                let error = failure::of(error);
                match error.kind() {
                    StoreErrorKind::Unknown => self.perhaps_applied = true,
                    _ => connection.give_back(),
                }
                if !again && error.kind() != StoreErrorKind::Unknown {
                    return Err(self.failed(error));
                }
                error
            }
        };
        if self.left > 0 {
            Ok(None)
        } else {
            Err(self.failed(error))
        }
    }

    fn rests(&mut self, connection: Lent<DB>) {
        if self.keeps {
            self.kept = Some(connection.at_rest());
        } else {
            connection.give_back();
        }
    }

    fn failed(&self, error: StoreError) -> StoreError {
        if self.perhaps_applied && error.kind() != StoreErrorKind::Unknown {
            return StoreError::new(StoreErrorKind::Unknown, error);
        }
        error
    }
}
