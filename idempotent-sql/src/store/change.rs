//! Makes a change of a record, together with other changes or alone.

use idempotent_runtime::port::sql::{Route, Unsent};
use idempotent_runtime::store::StoreError;

use super::SqlStore;
use super::attempts::Attempts;
use crate::batching::{ChangeReply, most_bytes};
use crate::database::Database;
use crate::database::batch::{Change, ChangeRequest, Found};

impl<DB: Database> SqlStore<DB> {
    pub(super) fn start_purging(&self) {
        if let Some(purging) = &self.purging {
            purging.start();
        }
    }

    /// Makes a change, together with other changes or alone.
    pub(super) async fn change(&self, key: &str, change: Change) -> Result<Found, StoreError> {
        self.change_noting(key, change, &mut Unsent::other()).await
    }

    /// Does the same as [`change`](Self::change). Ends `unsent` before the change is sent.
    pub(super) async fn change_noting(
        &self,
        key: &str,
        change: Change,
        unsent: &mut Unsent<'_>,
    ) -> Result<Found, StoreError> {
        self.start_purging();
        let request = ChangeRequest::new(key, change);
        let batching = self.batching.as_ref();
        let Some(batching) = batching.filter(|batching| batching.is_usable()) else {
            return self.change_alone(&request, false, unsent).await;
        };
        match batching.route(&request) {
            Route::Inline(_inline) => self.change_alone(&request, false, unsent).await,
            Route::Queued(sender) => match batching.submit(sender, request, unsent).await? {
                ChangeReply::Found(found) => Ok(found),
                ChangeReply::Alone {
                    request,
                    may_be_applied,
                } => self.change_alone(&request, may_be_applied, unsent).await,
            },
        }
    }

    /// Makes a change by its own statement. `may_be_applied`: it was in a batch without an answer.
    async fn change_alone(
        &self,
        request: &ChangeRequest,
        may_be_applied: bool,
        unsent: &mut Unsent<'_>,
    ) -> Result<Found, StoreError> {
        let mut turn = None;
        let mut attempts = Attempts::new(&self.pool);
        if let Change::Count { .. } = request.change {
            let turn = turn.insert(self.counting.wait_turn(request.key.to_string()).await);
            attempts = Attempts::with_connection(&self.pool, turn.take());
        }
        attempts.after_batch(may_be_applied);
        loop {
            let mut connection = attempts.acquire().await?;
            unsent.end();
            let found = request.send::<DB>(&mut connection, most_bytes(&self.longest));
            let found = found.await;
            if let Some(found) = attempts.resolve(connection, found)? {
                if let Some(turn) = &mut turn {
                    turn.pass_on(attempts.into_connection());
                }
                return Ok(found);
            }
        }
    }
}
