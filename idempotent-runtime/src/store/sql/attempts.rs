//! The attempts at one operation: by which connection, and whether there is another one.

use sqlx::{Connection, Pool};

use crate::sql::lent::Lent;
use crate::sql::{Database, failure};
use crate::store::{StoreError, StoreErrorKind};

/// How often an operation is sent at most.
const MOST: u32 = 3;

pub(super) struct Attempts<'a, DB: Database> {
    pool: &'a Pool<DB>,
    left: u32,
    /// An attempt had no answer, so no later one can say that nothing was changed.
    perhaps_applied: bool,
}

impl<'a, DB: Database> Attempts<'a, DB> {
    pub(super) fn new(pool: &'a Pool<DB>) -> Self {
        Self {
            pool,
            left: MOST,
            perhaps_applied: false,
        }
    }

    pub(super) async fn connection(&self) -> Result<Lent<DB>, StoreError> {
        loop {
            let acquired = self.pool.acquire().await;
            let acquired = acquired.map_err(|error| self.failed(failure::unsent(error)));
            let mut connection = Lent::for_statements(acquired?);
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
                connection.give_back();
                return Ok(Some(answer));
            }
            Ok(None) => {
                connection.give_back();
                StoreError::new(StoreErrorKind::NotApplied, "too many others want this key")
            }
            Err(error) => {
                let again = failure::is_retryable(&error);
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

    fn failed(&self, error: StoreError) -> StoreError {
        if self.perhaps_applied && error.kind() != StoreErrorKind::Unknown {
            return StoreError::new(StoreErrorKind::Unknown, error);
        }
        error
    }
}
