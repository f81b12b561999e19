//! A member that nobody may have been told of, on its way out of its set.

use std::mem;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Member;
use crate::observe::{Event, EventKind};
use crate::protocol::retry::Tries;
use crate::protocol::scheduler::Keeper;
use crate::protocol::tracker::{CROWDED, Piece};
use crate::store::Swap;

/// A member that leaves its set in the background when this is dropped: its caller was, before an answer.
pub(super) struct Leaving(Option<Member>);

impl Leaving {
    pub(super) fn unless_answered(member: Member) -> Self {
        Self(Some(member))
    }

    /// The answer is known.
    pub(super) fn stays(mut self) {
        self.0 = None;
    }

    /// The answer is known. Unless it is about the only request there was, one is perhaps on its way that adds the member
    /// again, for nobody: it is looked for in the background.
    pub(super) fn unless_certain(self, certain: bool) {
        if certain {
            self.stays();
        } else {
            self.leaves();
        }
    }

    /// There will be no answer.
    pub(super) fn leaves(mut self) {
        if let Some(member) = self.0.take() {
            take_out(member);
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(member) = self.0.take() {
            take_out(member);
        }
    }
}

fn take_out(member: Member) {
    let shared = &member.set.0.shared;
    if shared.is_crowded() {
        return stuck(&member, CROWDED);
    }
    let left = Left {
        piece: Some(shared.unattended().begin()),
        member,
    };
    if let Some(keeper) = Keeper::current() {
        keeper.run(left.take_out());
    }
}

/// Work that nobody waits for. Dropped before its end, as with its runtime, it says so.
struct Left {
    member: Member,
    piece: Option<Piece>,
}

impl Left {
    async fn take_out(mut self) {
        let set = &*self.member.set.0;
        let (key, limit) = (self.member.key(), set.shared.deadline());
        let worth = set.retention.min(LONGEST).max(limit);
        let mut tries = Tries::until(Instant::now() + worth, limit);
        let mut looked = false;
        loop {
            match tries.once(self.member.take_out(&key)).await {
                // On another connection it may have overtaken what it is to undo: so it looks a second time.
                Ok(Swap::Absent) if !mem::replace(&mut looked, true) => sleep(limit).await,
                Ok(_) => break,
                Err(_) if tries.again().await => {}
                Err(_) => {
                    stuck(&self.member, "the store did not answer in time");
                    break;
                }
            }
        }
        self.piece = None;
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if self.piece.is_some() {
            stuck(&self.member, "it was dropped before it was sent");
        }
    }
}

fn stuck(member: &Member, why: &'static str) {
    let site = member.site();
    let event = Event::new(&site, EventKind::NotWithdrawn).because(why);
    member.set.0.shared.observers().tell(&event);
}

const LONGEST: Duration = Duration::from_mins(1);
