//! The removal of a member whose add has no certain answer.

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

/// Removes a member in the background when it is dropped: if the caller is dropped before an answer.
pub(super) struct RemovalGuard(Option<Member>);

impl RemovalGuard {
    pub(super) fn new(member: Member) -> Self {
        Self(Some(member))
    }

    /// Defuses the guard, because the answer is known. The member stays as it is.
    pub(super) fn defuse(mut self) {
        self.0 = None;
    }

    /// Defuses the guard if the answer is `certain`. If the add was sent more than once, a late copy may add the member
    /// again; the background task then removes it.
    pub(super) fn defuse_if(self, certain: bool) {
        if certain {
            self.defuse();
        } else {
            self.remove_in_background();
        }
    }

    /// Removes the member in the background, because there will be no answer.
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
        if background::retry_until(&self.set.shared, until, send).await? == Swap::Absent {
            // On another connection the removal may have overtaken the add, so it is sent a second time.
            sleep(limit).await;
            background::retry_until(&self.set.shared, until, send).await?;
        }
        Ok(())
    }

    fn on_end(&mut self, undone: Option<&'static str>) {
        if let Some(why) = undone {
            let site = self.site();
            let event = Event::new(&site, EventKind::NotWithdrawn).because(why);
            self.set.shared.observers().emit(&event);
        }
    }
}

const LONGEST: Duration = Duration::from_mins(1);
