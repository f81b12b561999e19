//! Group commit in a simulated process: the real engine of batches, and connections that lose, delay and cut whole batches.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Mutant;
use super::dice::Dice;
use super::history::{Kind, Sends, digest_of};
use super::message::{Message, Reply};
use super::net::Net;
use super::op::{Answer, Op};
use super::source;
use crate::batch::{self, BatchTypes, Batches, Limits, Operation, Route, Transport};
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

    /// The connection of an operation, and its route there.
    fn route(&self, sends: Sends) -> (usize, Route<'_, Connection>) {
        let [operations, renewals] = &self.connections;
        let is_renewal =
            sends == Sends::Renewal && !source::runs_mutant(Mutant::BatchMixesRenewals);
        match operations.route() {
            route if !is_renewal => (0, route),
            lone @ Route::Inline(_) if self.mixes_renewals => (0, lone),
            _ => (1, renewals.route()),
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
        let (connection, route) = self.route(queued.0.sends);
        let is_single = queued.0.sends == Sends::Look;
        let reply = match route {
            Route::Queued(sender) if !is_single => match sender.submit(queued).await {
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
pub(super) struct Queued(pub(super) Arc<Message>, pub(super) Arc<AtomicBool>);

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

impl BatchTypes for Connection {
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
