//! Group commit in a simulated process: the real engine of batches, and connections that lose, delay and cut whole batches.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Mutant;
use super::dice::Dice;
use super::history::{Kind, Sends, digest_of};
use super::knobs::Outage;
use super::net::{Inside, Message, Net, Next, Reply};
use super::server::{Answer, Op};
use super::source;
use crate::batch::{self, Batched, Batches, Limits, Operation, Transport, Way};
use crate::store::{Claim, StoreErrorKind, Swap};

/// What a seed decides about batches. Chances are in a thousand.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchPlan {
    pub(super) limits: Limits,
    /// The chance that a connection breaks in the middle of a batch.
    pub(super) cuts: u64,
    /// The chance that the store asks for an operation again, as a Redis without its scripts.
    pub(super) flushes: u64,
    /// A renewal goes alone on the connection of the other operations while nothing else is in flight, as on Redis.
    pub(super) mixes_renewals: bool,
}

impl BatchPlan {
    pub(super) fn drawn(dice: &mut Dice, undisturbed: bool) -> Self {
        let mut limits = Limits {
            inline: dice.pick(&[0, 0, 1, 2]),
            in_flight: dice.pick(&[1, 2, 8]),
            tasks: 0,
            bytes_in_flight: 0,
            gap: Duration::from_micros(dice.pick(&[0, 200, 1000, 5000])),
            operations: dice.pick(&[2, 512]),
            parts: dice.pick(&[1, 2, 4]),
            whole: dice.pick(&[1, 16]),
            bytes: dice.pick(&[3 * SIZE, 256 * 1024]),
            waiting: if undisturbed {
                WAITING
            } else {
                dice.pick(&[3, WAITING])
            },
            waiting_bytes: 1 << 20,
        };
        limits.tasks = 8 * limits.in_flight;
        limits.bytes_in_flight = 2 * limits.bytes;
        Self {
            limits,
            cuts: if undisturbed {
                0
            } else {
                dice.pick(&[0, 50, 200])
            },
            flushes: if undisturbed {
                0
            } else {
                dice.pick(&[0, 0, 100])
            },
            mixes_renewals: false,
        }
    }
}

/// A queue for so many operations is never full.
pub(super) const WAITING: usize = 1000;
/// The size of every operation.
const SIZE: usize = 100;

/// The engines of one process: records and renewals have a connection each.
pub(super) struct Engines {
    net: Arc<Net>,
    process: usize,
    connections: [Batches<Connection>; 2],
    mixes_renewals: bool,
}

impl Engines {
    pub(super) fn new(net: &Arc<Net>, process: usize, plan: BatchPlan) -> Self {
        let connections = [0, 1].map(|connection| {
            let connection = Connection {
                net: Arc::clone(net),
                process,
                number: connection,
                by_task: true,
            };
            Batches::new(connection, plan.limits)
        });
        Self {
            net: Arc::clone(net),
            process,
            connections,
            mixes_renewals: plan.mixes_renewals,
        }
    }

    /// The connection of an operation, and its way there.
    fn way(&self, sends: Sends) -> (usize, Way<'_, Connection>) {
        let [operations, renewals] = &self.connections;
        let is_renewal =
            sends == Sends::Renewal && !source::runs_mutant(Mutant::BatchMixesRenewals);
        match operations.way() {
            way if !is_renewal => (0, way),
            lone @ Way::Inline(_) if self.mixes_renewals => (0, lone),
            _ => (1, renewals.way()),
        }
    }

    /// Checks the queues after an operation is over.
    fn note_stuck(&self, key: usize) {
        if self.connections.iter().any(Batches::is_stuck) {
            self.net.record(Some(key), Kind::Stuck);
        }
    }

    pub(super) async fn send(&self, key: usize, op: Op, notifies: bool) -> Reply {
        let Some(queued) = self.net.queue(self.process, key, op, notifies) else {
            return pending().await;
        };
        let mut waits = Waits {
            engines: self,
            queued: queued.clone(),
            has_answer: false,
        };
        let (connection, way) = self.way(queued.0.sends);
        let is_single = queued.0.sends == Sends::Look;
        let reply = match way {
            Way::Queue(entrance) if !is_single => match entrance.submit(queued).await {
                Ok(reply) => reply,
                Err(error) => Err(error.kind()),
            },
            _inline => {
                let alone = Connection {
                    net: Arc::clone(&self.net),
                    process: self.process,
                    number: connection,
                    by_task: false,
                };
                alone.send_alone(queued).await
            }
        };
        waits.has_answer = true;
        let (message, fine) = (waits.queued.0.number, reply.is_ok());
        if waits.queued.0.sends == Sends::Renewal {
            let answered = Kind::Answered { message, fine };
            self.net.record(Some(key), answered);
        }
        let received = Kind::Received {
            message,
            reply: digest_of(&reply),
            fine,
            denied: matches!(reply, Err(StoreErrorKind::NotApplied)),
        };
        self.net.record(Some(key), received);
        self.note_stuck(key);
        reply
    }
}

/// The caller of an operation. Notes when the caller is gone.
struct Waits<'a> {
    engines: &'a Engines,
    queued: Queued,
    has_answer: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.has_answer {
            return;
        }
        let Queued(message, given_up) = &self.queued;
        given_up.store(true, Ordering::Relaxed);
        let number = message.number;
        let given_up = Kind::GivenUp { message: number };
        self.engines.net.record(Some(message.key), given_up);
        self.engines.note_stuck(message.key);
    }
}

/// A message that goes in a batch, and whether its caller has given up.
#[derive(Clone)]
pub(super) struct Queued(Arc<Message>, Arc<AtomicBool>);

impl Queued {
    pub(super) fn new(message: Message) -> Self {
        let given_up = Arc::new(AtomicBool::new(false));
        let message = Message {
            given_up: Some(Arc::clone(&given_up)),
            ..message
        };
        Self(Arc::new(message), given_up)
    }

    /// The answer if the store had done everything.
    fn done(&self) -> Answer {
        match self.0.op {
            Op::Claim { .. } => Answer::Claim(Claim::Claimed),
            Op::Get => Answer::Entry(None),
            _ => Answer::Swap(Swap::Done),
        }
    }
}

impl Operation for Queued {
    fn size(&self) -> usize {
        SIZE
    }

    fn digest(&self) -> Option<u64> {
        Some(self.0.key as u64)
    }
}

/// A connection of a process.
struct Connection {
    net: Arc<Net>,
    process: usize,
    /// The number of the connection in its process.
    number: usize,
    /// Whether tasks send batches, not a caller its operation.
    by_task: bool,
}

impl Connection {
    /// Sends an operation in its caller.
    async fn send_alone(&self, queued: Queued) -> Reply {
        loop {
            match self.send(vec![queued.clone()]).await.pop() {
                Some(batch::Answer::Reply(reply)) => return reply,
                Some(batch::Answer::Again(_)) => {}
                None => return Err(StoreErrorKind::Unknown),
            }
        }
    }
}

impl Batched for Connection {
    type Operation = Queued;
    type Reply = Reply;
}

impl Transport for Connection {
    async fn send(&self, batch: Vec<Queued>) -> Vec<batch::Answer<Queued, Reply>> {
        let sent = batch.clone();
        let answered = self
            .net
            .send_batch(self.process, self.number, sent, self.by_task);
        let Ok(mut replies) = answered.await else {
            return pending().await;
        };
        let first = replies
            .iter()
            .flatten()
            .find_map(|reply| reply.as_ref().err());
        if let Some(fault) = first.copied() {
            for (reply, queued) in replies.iter_mut().zip(&batch) {
                if source::runs_mutant(Mutant::BatchFaultIsDone) {
                    *reply = Some(Ok(queued.done()));
                }
                if source::runs_mutant(Mutant::BatchFaultIsShared) {
                    *reply = Some(Err(fault));
                }
            }
        }
        let answers = replies.into_iter().zip(batch);
        let answer = |(reply, queued): (Option<Reply>, Queued)| match reply {
            Some(reply) => batch::Answer::Reply(reply),
            None => batch::Answer::Again(queued),
        };
        answers.map(answer).collect()
    }
}

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
        let way = &mut self.processes[process].connections[connection];
        way.push_back(batch);
        let is_first = way.len() == 1;
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
        let way = &mut self.processes[process].connections[connection];
        let Some(batch) = way.pop_front() else {
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
        let way = &mut self.processes[batch.process].connections[batch.connection];
        let behind = std::mem::take(way);
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
