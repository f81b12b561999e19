//! A member that nobody may have been told of, on its way out of its set.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::member::Member;
use crate::observe::{Event, EventKind};
use crate::protocol::background;
use crate::protocol::background::Job;
use crate::protocol::scheduler::Scheduler;
use crate::protocol::shared::Shared;
use crate::store::Swap;

/// A member that leaves its set in the background when this is dropped: its caller was, before an answer.
pub(super) struct RemovalGuard(Option<Member>);

impl RemovalGuard {
    pub(super) fn new(member: Member) -> Self {
        Self(Some(member))
    }

    /// The answer is known.
    pub(super) fn defuse(mut self) {
        self.0 = None;
    }

    /// The answer is known. Unless it is about the only request there was, one is perhaps on its way that adds the member
    /// again, for nobody: it is looked for in the background.
    pub(super) fn defuse_if(self, certain: bool) {
        if certain {
            self.defuse();
        } else {
            self.remove_in_background();
        }
    }

    /// There will be no answer.
    pub(super) fn remove_in_background(mut self) {
        if let Some(member) = self.0.take() {
            start_removal(member);
        }
    }
}

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        if let Some(member) = self.0.take() {
            start_removal(member);
        }
    }
}

fn start_removal(member: Member) {
    background::start_cleanup(member, Scheduler::current());
}

impl Job for Member {
    fn shared(&self) -> &Arc<Shared> {
        &self.set.shared
    }

    async fn run(&mut self) -> Result<(), &'static str> {
        let (key, limit) = (self.key(), self.set.shared.deadline());
        let until = Instant::now() + self.set.retention.min(LONGEST).max(limit);
        let send = || self.remove(&key);
        if background::retry_until(until, limit, send).await? == Swap::Absent {
            // On another connection it may have overtaken what it is to undo: so it looks a second time.
            sleep(limit).await;
            background::retry_until(until, limit, send).await?;
        }
        Ok(())
    }

    fn end(&mut self, undone: Option<&'static str>) {
        if let Some(why) = undone {
            let site = self.site();
            let event = Event::new(&site, EventKind::NotWithdrawn).because(why);
            self.set.shared.observers().emit(&event);
        }
    }
}

const LONGEST: Duration = Duration::from_mins(1);
