//! A batch on its way to the store and back: delays, losses, and connections that break in the middle of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::batching::Queued;
use super::history::{Kind, Sends, digest_of};
use super::incidents::Outage;
use super::message::{Message, Reply};
use super::net::{Inside, Next};
use crate::store::StoreErrorKind;

/// A batch on its way.
pub(super) struct Batch {
    pub(super) process: usize,
    pub(super) connection: usize,
    pub(super) operations: Vec<Queued>,
    /// Sent by a task, not by a caller.
    pub(super) by_task: bool,
    pub(super) sent: u64,
    pub(super) answer: oneshot::Sender<Vec<Option<Reply>>>,
}

impl Inside {
    pub(super) fn note_handed_over(&mut self, now: u64, batch: &Batch) {
        self.entries += 1;
        for Queued(message, _) in &batch.operations {
            let handed_over = Kind::HandedOver {
                message: message.number,
                process: batch.process,
                connection: batch.connection,
                batch: self.entries,
            };
            self.note(now, Some(message.key), handed_over);
        }
    }

    fn note_lost(&mut self, now: u64, message: &Message, reply: bool) {
        let lost = Kind::Lost {
            message: message.number,
            reply,
        };
        self.note(now, Some(message.key), lost);
    }

    pub(super) fn depart(&mut self, now: u64, batch: Batch) {
        if self.dice.chance(self.message_faults.loses_requests) {
            for Queued(message, _) in &batch.operations {
                self.note_lost(now, message, false);
            }
            return;
        }
        let (process, connection) = (batch.process, batch.connection);
        let in_flight = &mut self.processes[process].connections[connection];
        in_flight.push_back(batch);
        let is_first = in_flight.len() == 1;
        match self.delay() {
            0 if is_first => self.deliver(now, process, connection),
            delay => self.plan(now + delay, Next::Deliver(process, connection)),
        }
    }

    /// The oldest batch of a connection arrives.
    pub(super) fn deliver(&mut self, now: u64, process: usize, connection: usize) {
        let outage = self.outage;
        if let Some((until, Outage::Delays)) = outage {
            let delay = self.delay();
            return self.plan(until + delay, Next::Deliver(process, connection));
        }
        let in_flight = &mut self.processes[process].connections[connection];
        let Some(batch) = in_flight.pop_front() else {
            return;
        };
        let messages: Vec<_> = batch
            .operations
            .iter()
            .map(|op| Arc::clone(&op.0))
            .collect();
        match outage {
            Some((_, Outage::Loses)) => {
                for message in &messages {
                    self.note_lost(now, message, false);
                }
                return;
            }
            Some((_, Outage::Refuses)) => {
                let refused = messages.iter().map(|message| {
                    Some(self.note_refused(now, message, StoreErrorKind::NotApplied))
                });
                let replies = refused.collect();
                return self.reply_batch(now, batch, replies);
            }
            _ => {}
        }
        if self.dice.chance(self.batches.map_or(0, |plan| plan.cuts)) {
            return self.cut(now, batch, &messages);
        }
        let applied = messages
            .iter()
            .map(|message| self.apply_in_batch(now, message));
        let replies = applied.collect();
        self.reply_batch(now, batch, replies);
    }

    fn apply_in_batch(&mut self, now: u64, message: &Message) -> Option<Reply> {
        let flushes = self.batches.map_or(0, |plan| plan.flushes);
        let is_script = !matches!(message.sends, Sends::Claim | Sends::Look);
        if is_script && self.dice.chance(flushes) {
            let number = message.number;
            self.note(now, Some(message.key), Kind::Repeated { message: number });
            return None;
        }
        Some(self.apply(now, message))
    }

    /// The connection breaks: the beginning of a batch is applied, the beginning of that is answered, and the batches behind it
    /// are lost.
    fn cut(&mut self, now: u64, batch: Batch, messages: &[Arc<Message>]) {
        let length = messages.len() as u64;
        let applied = self.dice.within(0, length);
        let answered = self.dice.within(0, applied);
        let mut replies = Vec::new();
        for (at, message) in (0..).zip(messages) {
            let mut reply = None;
            if at < applied {
                reply = self.apply_in_batch(now, message);
            }
            if at >= answered {
                self.note_lost(now, message, at < applied);
                reply = Some(Err(StoreErrorKind::Unknown));
            }
            replies.push(reply);
        }
        let in_flight = &mut self.processes[batch.process].connections[batch.connection];
        let behind = std::mem::take(in_flight);
        self.reply_batch(now, batch, replies);
        for batch in behind {
            for Queued(message, _) in &batch.operations {
                self.note_lost(now, message, false);
            }
            let replies = batch
                .operations
                .iter()
                .map(|_| Some(Err(StoreErrorKind::Unknown)));
            let replies = replies.collect();
            self.reply_batch(now, batch, replies);
        }
    }

    fn reply_batch(&mut self, now: u64, batch: Batch, replies: Vec<Option<Reply>>) {
        if self.dice.chance(self.message_faults.loses_replies) {
            for Queued(message, _) in &batch.operations {
                self.note_lost(now, message, true);
            }
            return;
        }
        match self.delay() {
            0 => self.answer_batch(now, batch, replies),
            delay => self.plan(now + delay, Next::BatchReply(batch, replies)),
        }
    }

    pub(super) fn answer_batch(&mut self, now: u64, batch: Batch, replies: Vec<Option<Reply>>) {
        let process = &mut self.processes[batch.process];
        if process.crashed {
            return;
        }
        if process.paused {
            return process.held_up.push(Next::BatchReply(batch, replies));
        }
        if batch.by_task && self.tasks_ended_at >= Some(batch.sent) {
            // The task that sent the batch has ended.
            for Queued(message, _) in &batch.operations {
                self.note_lost(now, message, true);
            }
            return;
        }
        for (queued, reply) in batch.operations.iter().zip(&replies) {
            let Queued(message, given_up) = queued;
            if let Some(reply) = reply
                && !given_up.load(Ordering::Relaxed)
            {
                let (number, fine) = (message.number, reply.is_ok());
                let got = Kind::Replied {
                    message: number,
                    reply: digest_of(reply),
                };
                self.note(now, Some(message.key), got);
                // A renewal may have reached its limit at this moment, so its sender notes the answer.
                if message.sends == Sends::Renewal {
                    continue;
                }
                let answered = Kind::Answered {
                    message: number,
                    fine,
                };
                self.note(now, Some(message.key), answered);
            }
        }
        let _ = batch.answer.send(replies);
    }
}
