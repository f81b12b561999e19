//! The network between the processes and the store: messages in flight, and incidents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::Mutant;
use super::batch_in_flight::Batch;
use super::batching::{BatchPlan, Queued};
use super::dice::Dice;
use super::history::{CallId, Event, Kind};
use super::incidents::{Incident, Outage};
use super::knobs::{MessageFaults, Plan};
use super::message::{Message, Reply};
use super::op::Op;
use super::server::{Change, Server};
use super::slots::Process;
use super::tokens::TOKENS;

/// The state of one run.
pub(super) struct Net {
    pub(super) plan: Plan,
    pub(super) mutant: Option<Mutant>,
    began: Instant,
    inside: Mutex<Inside>,
    pub(super) changed: Notify,
}

pub(super) struct Inside {
    pub(super) dice: Dice,
    pub(super) message_faults: MessageFaults,
    pub(super) batches: Option<BatchPlan>,
    pub(super) server: Server,
    pub(super) outage: Option<(u64, Outage)>,
    /// When the tasks that send batches were last dropped.
    pub(super) tasks_ended_at: Option<u64>,
    /// What happens next, by time. A random number orders what happens at the same time.
    pub(super) agenda: BTreeMap<(u64, u64, u64), Next>,
    pub(super) entries: u64,
    pub(super) messages: u64,
    pub(super) processes: Vec<Process>,
    pub(super) listeners: Vec<(usize, watch::Sender<()>)>,
    pub(super) history: Vec<Event>,
    pub(super) log: Vec<Change>,
}

pub(super) enum Next {
    Arrive(Message),
    Reply(Message, Reply),
    Depart(Batch),
    /// The next batch of this process and connection arrives.
    Deliver(usize, usize),
    BatchReply(Batch, Vec<Option<Reply>>),
    Nudge {
        process: usize,
        call: CallId,
    },
    Hint(usize),
    Incident(Incident),
    Resume(usize),
    OutageEnds,
    HasRoom,
}

/// What a process may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    Paused,
    Crashed,
}

impl Net {
    pub(super) fn new(plan: Plan, seed: u64, mutant: Option<Mutant>) -> Arc<Self> {
        let mut inside = Inside {
            dice: Dice::new(seed, 2),
            message_faults: plan.message_faults,
            batches: plan.batches,
            server: Server::default(),
            outage: None,
            tasks_ended_at: None,
            agenda: BTreeMap::new(),
            entries: 0,
            messages: 0,
            processes: Vec::new(),
            listeners: Vec::new(),
            history: Vec::new(),
            log: Vec::new(),
        };
        for (token, ttl) in plan.tokens.iter().enumerate() {
            let ttl = Duration::from_millis(*ttl);
            inside.server.issue(KEYS + token, 0, ttl);
        }
        for (at, incident) in &plan.incidents {
            inside.plan(*at, Next::Incident(*incident));
        }
        Arc::new(Self {
            plan,
            mutant,
            began: Instant::now(),
            inside: Mutex::new(inside),
            changed: Notify::new(),
        })
    }

    pub(super) fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }

    pub(super) fn at(&self, millis: u64) -> Instant {
        self.began + Duration::from_millis(millis)
    }

    /// Starts another process, and returns its number.
    pub(super) fn process(&self) -> usize {
        let mut inside = self.inside();
        inside.processes.push(Process::default());
        inside.processes.len() - 1
    }

    pub(super) fn record(&self, key: Option<usize>, kind: Kind) {
        let now = self.now();
        let mut inside = self.inside();
        inside.expire(now);
        inside.history.push(Event { at: now, key, kind });
    }

    pub(super) fn history(&self) -> Vec<Event> {
        let mut inside = self.inside();
        inside.expire(self.now());
        inside.history.clone()
    }

    /// Whether the process may continue. The end of a pause wakes `task`.
    pub(super) fn gate(&self, process: usize, task: (CallId, bool), waker: &Waker) -> Gate {
        let mut inside = self.inside();
        let process = &mut inside.processes[process];
        if process.crashed {
            return Gate::Crashed;
        }
        match process.tasks.get_mut(&task) {
            Some(known) => known.clone_from(waker),
            None => drop(process.tasks.insert(task, waker.clone())),
        }
        if process.paused {
            Gate::Paused
        } else {
            Gate::Open
        }
    }

    /// Wakes a call at this time.
    pub(super) fn nudge(&self, at: u64, process: usize, call: CallId) {
        self.inside().plan(at, Next::Nudge { process, call });
        self.changed.notify_one();
    }

    pub(super) fn delays_polls(&self) -> bool {
        let mut inside = self.inside();
        let chance = inside.message_faults.delays_polls;
        inside.dice.chance(chance)
    }

    /// Ends all faults of messages.
    pub(super) fn heal(&self) {
        let mut inside = self.inside();
        inside.message_faults = MessageFaults::default();
        if let Some(batches) = &mut inside.batches {
            (batches.cuts, batches.flushes) = (0, 0);
        }
        inside.outage = None;
        inside.server.full = false;
    }

    pub(super) fn immortal(&self) -> Vec<usize> {
        self.inside().server.immortal()
    }

    /// When the last record expires.
    pub(super) fn empty_at(&self) -> u64 {
        self.inside().server.empty_at()
    }

    /// Whether no message and no incident is pending.
    pub(super) fn idle(&self) -> bool {
        self.inside().agenda.is_empty()
    }

    /// Subscribes to hints for a key.
    pub(super) fn listen(&self, key: usize) -> Option<watch::Receiver<()>> {
        let mut inside = self.inside();
        inside.message_faults.hints?;
        let (sender, receiver) = watch::channel(());
        inside
            .listeners
            .retain(|(_, listener)| !listener.is_closed());
        inside.listeners.push((key, sender));
        Some(receiver)
    }

    /// Sends a request. If the request or its reply is lost, the receiver gets nothing.
    pub(super) fn send(
        &self,
        process: usize,
        key: usize,
        op: Op,
        notifies: bool,
    ) -> oneshot::Receiver<Reply> {
        let (answer, answered) = oneshot::channel();
        let now = self.now();
        let mut inside = self.inside();
        if inside.processes[process].crashed {
            return answered;
        }
        let message = Message {
            answer: Some(answer),
            ..inside.message(now, process, key, op, notifies)
        };
        if inside.processes[process].paused {
            inside.processes[process]
                .held_up
                .push(Next::Arrive(message));
        } else {
            inside.dispatch(now, message);
        }
        drop(inside);
        self.changed.notify_one();
        answered
    }

    /// Sends a request that goes in a batch. A crashed process sends nothing.
    pub(super) fn queue(
        &self,
        process: usize,
        key: usize,
        op: Op,
        notifies: bool,
    ) -> Option<Queued> {
        let mut inside = self.inside();
        if inside.processes[process].crashed {
            return None;
        }
        Some(Queued::new(inside.message(
            self.now(),
            process,
            key,
            op,
            notifies,
        )))
    }

    /// From now on no reply arrives to a batch that a task has sent until now.
    pub(super) fn lose_replies_to_tasks(&self) {
        self.inside().tasks_ended_at = Some(self.now());
    }

    /// Hands a batch over to a connection. If the batch or its replies are lost, the receiver gets nothing.
    pub(super) fn send_batch(
        &self,
        process: usize,
        connection: usize,
        operations: Vec<Queued>,
        by_task: bool,
    ) -> oneshot::Receiver<Vec<Option<Reply>>> {
        let (answer, answered) = oneshot::channel();
        let now = self.now();
        let mut inside = self.inside();
        if inside.processes[process].crashed {
            return answered;
        }
        let batch = Batch {
            process,
            connection,
            operations,
            by_task,
            sent: now,
            answer,
        };
        inside.note_handed_over(now, &batch);
        if inside.processes[process].paused {
            inside.processes[process].held_up.push(Next::Depart(batch));
        } else {
            inside.depart(now, batch);
        }
        drop(inside);
        self.changed.notify_one();
        answered
    }

    /// Makes everything happen at its time. Never returns.
    pub(super) async fn run(&self) {
        loop {
            let now = self.now();
            let next = {
                let mut inside = self.inside();
                while let Some(entry) = inside
                    .agenda
                    .first_entry()
                    .filter(|first| first.key().0 <= now)
                {
                    let next = entry.remove();
                    inside.happen(now, next);
                }
                inside.agenda.first_key_value().map(|(at, _)| at.0)
            };
            match next {
                Some(next) => drop(timeout_at(self.at(next), self.changed.notified()).await),
                None => self.changed.notified().await,
            }
        }
    }

    pub(super) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    pub(super) fn note(&mut self, at: u64, key: Option<usize>, kind: Kind) {
        self.history.push(Event { at, key, kind });
    }

    fn expire(&mut self, now: u64) {
        self.server.expire(now, &mut self.log);
        self.note_log();
    }

    pub(super) fn note_log(&mut self) {
        let changes = self.log.drain(..);
        self.history.extend(changes.map(|(key, at, kind)| Event {
            at,
            key: Some(key),
            kind,
        }));
    }

    pub(super) fn plan(&mut self, at: u64, next: Next) {
        self.entries += 1;
        let order = self.dice.bits();
        self.agenda.insert((at, order, self.entries), next);
    }

    fn happen(&mut self, now: u64, next: Next) {
        match next {
            Next::Arrive(message) => self.arrive(now, message),
            Next::Reply(message, reply) => self.answer(now, message, reply),
            Next::Depart(batch) => self.depart(now, batch),
            Next::Deliver(process, connection) => self.deliver(now, process, connection),
            Next::BatchReply(batch, replies) => self.answer_batch(now, batch, replies),
            Next::Nudge { process, call } => {
                let task = self.processes[process].tasks.remove(&(call, false));
                task.into_iter().for_each(Waker::wake);
            }
            Next::Hint(key) => {
                for (_, listener) in self.listeners.iter().filter(|listener| listener.0 == key) {
                    let _ = listener.send(());
                }
            }
            Next::Incident(incident) => self.apply_incident(now, incident),
            Next::Resume(process) => {
                self.note(now, None, Kind::Resumed { process });
                let resumed = &mut self.processes[process];
                resumed.paused = false;
                let held_up = std::mem::take(&mut resumed.held_up);
                let tasks = std::mem::take(&mut resumed.tasks);
                for next in held_up {
                    match next {
                        Next::Arrive(message) => self.dispatch(now, message),
                        next => self.happen(now, next),
                    }
                }
                tasks.into_values().for_each(Waker::wake);
            }
            Next::OutageEnds => self.outage = None,
            Next::HasRoom => self.server.full = false,
        }
    }
}

/// The largest number of keys of calls in a run. The numbers of the tokens' keys follow.
pub(super) const KEYS: usize = 6;

/// The number of the first key of a fence.
pub(super) const FENCES: usize = KEYS + TOKENS;
/// The number of the first key of steps.
pub(super) const STEPS: usize = 2 * FENCES;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
