//! The network between the processes and the store: messages in flight, and incidents.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::Mutant;
use super::batching::{Batch, BatchPlan, Queued};
use super::dice::Dice;
use super::history::{CallId, Event, Kind, OPERATOR, RemovalCause, Sends};
use super::knobs::{Incident, MessageFaults, Outage, Plan};
use super::server::{Answer, Change, Op, Server, call_of};
use super::source;
use super::tokens::TOKENS;
use crate::store::StoreErrorKind;

/// The state of one run.
pub(super) struct Net {
    pub(super) plan: Plan,
    pub(super) mutant: Option<Mutant>,
    began: Instant,
    inside: Mutex<Inside>,
    changed: Notify,
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

#[derive(Default)]
pub(super) struct Process {
    pub(super) crashed: bool,
    pub(super) paused: bool,
    /// Messages from it and to it that wait until the pause ends.
    pub(super) held_up: Vec<Next>,
    pub(super) tasks: BTreeMap<(CallId, bool), Waker>,
    /// The batches on their way to the store, by connection. They arrive in their order.
    pub(super) connections: [VecDeque<Batch>; 2],
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

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    pub(super) fn note(&mut self, at: u64, key: Option<usize>, kind: Kind) {
        self.history.push(Event { at, key, kind });
    }

    /// Makes a message, and notes that it is sent.
    fn message(&mut self, now: u64, process: usize, key: usize, op: Op, notifies: bool) -> Message {
        let (sends, record) = match &op {
            Op::Claim { value, .. }
            | Op::ClaimFenced { value, .. }
            | Op::Set { value, ttl: None } => (Sends::Claim, Some(value)),
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

    fn apply_incident(&mut self, now: u64, incident: Incident) {
        match incident {
            // `run` does these, because it has the handles.
            Incident::Crash { .. }
            | Incident::Pause { .. }
            | Incident::Free { .. }
            | Incident::TasksEnd => {}
            Incident::Outage { lasts, how } => {
                self.note(now, None, Kind::StoreFault("the store is unavailable"));
                self.outage = Some((now + lasts, how));
                self.plan(now + lasts, Next::OutageEnds);
            }
            Incident::Full { lasts } => {
                self.note(now, None, Kind::StoreFault("the store is full"));
                self.server.full = true;
                self.plan(now + lasts, Next::HasRoom);
            }
            Incident::Evict { key } => {
                self.server
                    .lose(key, now, RemovalCause::Forgotten, &mut self.log);
            }
            Incident::ForgetAll => {
                for key in 0..KEYS + TOKENS {
                    self.server
                        .lose(key, now, RemovalCause::Forgotten, &mut self.log);
                }
            }
            Incident::Step { by } => {
                self.note(now, None, Kind::StoreFault("the store's clock jumps"));
                self.server.step(by, now, &mut self.log);
            }
        }
        self.note_log();
    }
}

/// Incidents of processes.
impl Net {
    /// Ends a process: its messages in flight still arrive, but no later message.
    pub(super) fn crash(&self, process: usize) {
        let mut inside = self.inside();
        inside.note(self.now(), None, Kind::Crashed { process });
        let crashed = &mut inside.processes[process];
        crashed.crashed = true;
        let (held_up, tasks) = (
            std::mem::take(&mut crashed.held_up),
            std::mem::take(&mut crashed.tasks),
        );
        drop(inside);
        drop(held_up);
        tasks.into_values().for_each(Waker::wake);
    }

    /// Stops polling the calls of a process for a while.
    pub(super) fn pause(&self, process: usize, lasts: u64) {
        let now = self.now();
        let mut inside = self.inside();
        if inside.processes[process].paused || inside.processes[process].crashed {
            return;
        }
        inside.note(now, None, Kind::Paused { process });
        inside.processes[process].paused = true;
        inside.plan(now + lasts, Next::Resume(process));
        drop(inside);
        self.changed.notify_one();
    }
}

/// The largest number of keys of calls in a run. The numbers of the tokens' keys follow.
pub(super) const KEYS: usize = 6;

/// The number of the first key of a fence.
pub(super) const FENCES: usize = KEYS + TOKENS;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
