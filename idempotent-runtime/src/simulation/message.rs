//! One message from a process to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::history::{CallId, Kind, OPERATOR, Sends, call_of};
use super::net::{FENCES, Inside};
use super::op::{Answer, Op};
use super::source;
use crate::store::StoreErrorKind;

pub(super) struct Message {
    pub(super) number: u64,
    pub(super) process: usize,
    pub(super) key: usize,
    pub(super) op: Op,
    pub(super) sends: Sends,
    pub(super) call: CallId,
    pub(super) sent: u64,
    pub(super) notifies: bool,
    /// The message arrives twice.
    pub(super) repeated: bool,
    pub(super) answer: Option<oneshot::Sender<Reply>>,
    /// Whether the caller of a message in a batch has given up.
    pub(super) given_up: Option<Arc<AtomicBool>>,
}

impl Message {
    pub(super) fn is_given_up(&self) -> bool {
        match &self.given_up {
            Some(given_up) => given_up.load(Ordering::Relaxed),
            None => self.answer.as_ref().is_none_or(oneshot::Sender::is_closed),
        }
    }
}

pub(super) type Reply = Result<Answer, StoreErrorKind>;

impl Inside {
    /// Makes a message, and notes that it is sent.
    pub(super) fn message(
        &mut self,
        now: u64,
        process: usize,
        key: usize,
        op: Op,
        notifies: bool,
    ) -> Message {
        let (sends, record) = match &op {
            Op::Claim { value, .. }
            | Op::ClaimFenced { value, .. }
            | Op::Set { value, ttl: None } => (Sends::Claim, Some(value)),
            Op::ClaimAll { claims, .. } | Op::ClaimAny { claims, .. } => {
                (Sends::Claim, claims.first().map(|(_, value)| value))
            }
            Op::Replace {
                expected, value, ..
            } if expected == value => (Sends::Renewal, Some(value)),
            Op::Touch { claimed, .. } => (Sends::Renewal, Some(claimed)),
            Op::Replace { value, .. } | Op::Set { value, .. } => (Sends::Completion, Some(value)),
            Op::Remove { expected } => (Sends::Removal, Some(expected)),
            Op::Delete { claimed } => (Sends::Removal, Some(claimed)),
            Op::Exchange { value, .. } | Op::Overwrite { value, .. } => {
                (Sends::Exchange, Some(value))
            }
            Op::Draw { value } => (Sends::Fence, Some(value)),
            Op::Get => (Sends::Look, None),
        };
        let sends = if key >= FENCES { Sends::Fence } else { sends };
        // The scheduler polls no call of this simulation. Its messages belong to the call of their record.
        let call = source::polled().map(|polled| polled.call);
        let call = call
            .or_else(|| record.and_then(call_of))
            .unwrap_or(OPERATOR);
        self.messages += 1;
        let number = self.messages;
        self.note(
            now,
            Some(key),
            Kind::Sent {
                message: number,
                call,
                op: sends,
            },
        );
        Message {
            number,
            process,
            key,
            op,
            sends,
            call,
            sent: now,
            notifies,
            repeated: false,
            answer: None,
            given_up: None,
        }
    }
}
