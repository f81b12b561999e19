//! The end of a call with steps: after a success nobody needs their record.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::mutation::mutation;
use crate::protocol::background;
use crate::protocol::background::Job;
use crate::protocol::lease::Lease;
use crate::protocol::shared::Shared;
use crate::protocol::step;
use crate::protocol::steps::Steps;
use crate::record::call::Record;
use crate::store::{Key, Swap};

/// Removes the steps of a call whose end is stored, in the background. `end` is the record of that end, if the key has one.
///
/// A record that is not removed does no harm: it expires before the record of the end.
pub(crate) fn remove_after(lease: &Lease, end: Option<&Bytes>) {
    let Some(steps) = lease.steps_if_used() else {
        return;
    };
    let succeeded = end.is_some_and(|end| !Record::may_be_claim(end));
    let removes = succeeded || mutation!(RemovesAfterError);
    let stays = mutation!(StaysAfterSuccess);
    if removes && !stays {
        let shared = Arc::clone(&lease.call().shared);
        let job = Removal {
            until: Instant::now() + shared.deadline(),
            shared,
            key: step::key_of(lease),
            steps: Arc::clone(steps),
        };
        background::start_cleanup(job, lease.scheduler());
    }
}

struct Removal {
    shared: Arc<Shared>,
    key: Key,
    steps: Arc<Steps>,
    until: Instant,
}

impl Job for Removal {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    async fn run(&mut self) -> Result<(), &'static str> {
        let mut stored = self.steps.stored().await;
        stored.is_closed = true;
        if stored.may_come_late && !mutation!(RemovesBeforeLate) {
            // While the record stays, a late first record is refused. After a removal it would outlive the record of the end.
            return Ok(());
        }
        // A record whose write got no answer may be in the place of the last one.
        let unanswered = std::mem::take(&mut stored.unanswered).into_iter();
        let may_be_stored = stored.record.take().into_iter();
        for record in may_be_stored.chain(unanswered.map(|(record, _)| record)) {
            let removal = background::retry_until(&self.shared, self.until, || {
                self.shared.store().remove(&self.key, &record)
            });
            if removal.await? == Swap::Done {
                break;
            }
        }
        Ok(())
    }

    fn on_end(&mut self, _: Option<&'static str>) {}
}
