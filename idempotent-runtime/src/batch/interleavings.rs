//! Every order of a few steps: operations arrive, tasks run, batches are answered, callers are dropped, and the runtime ends.
//!
//! All decisions of a task happen under one lock, so the orders of whole polls contain every order of decisions. `schedules.rs`
//! tries the orders of threads within a poll.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::tests::end_tasks;
use super::{Answer, BatchTypes, Batches, Limits, Operation, Route, Transport};
use crate::mutation::{self, Mutation};
use crate::store::{StoreError, StoreErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The next operation arrives.
    Submit,
    /// Each task that can continue is polled.
    Run,
    /// The oldest batch without an answer is answered.
    Reply,
    /// This caller stops waiting.
    Drop(usize),
    /// The runtime begins to drop its tasks.
    End,
}

/// An operation. The even ones have one key.
struct Op(usize);

impl Operation for Op {
    fn size(&self) -> usize {
        1
    }

    fn digest(&self) -> Option<u64> {
        self.0.is_multiple_of(2).then_some(7)
    }
}

#[derive(Default)]
struct Server {
    sent: Vec<usize>,
    unanswered: VecDeque<oneshot::Sender<()>>,
    /// Whether the server has asked for the first operation again.
    has_refused: bool,
}

#[derive(Clone, Default)]
struct Line(Arc<Mutex<Server>>);

impl Line {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap()
    }

    fn has_sent(&self, number: usize) -> bool {
        self.server().sent.contains(&number)
    }
}

impl BatchTypes for Line {
    type Operation = Op;
    type Reply = usize;
}

impl Transport for Line {
    async fn send(&self, batch: Vec<Op>) -> Vec<Answer<Op, usize>> {
        let (answer, answered) = oneshot::channel();
        {
            let mut server = self.server();
            server.sent.extend(batch.iter().map(|op| op.0));
            server.unanswered.push_back(answer);
        }
        if answered.await.is_err() {
            return pending().await;
        }
        let mut server = self.server();
        let answer = |op: Op| {
            if op.0 == 0 && !std::mem::replace(&mut server.has_refused, true) {
                server.sent.retain(|sent| *sent != 0);
                Answer::Again(op)
            } else {
                Answer::Reply(op.0)
            }
        };
        batch.into_iter().map(answer).collect()
    }
}

type Submitting = Pin<Box<dyn Future<Output = Result<usize, StoreError>>>>;

struct World {
    line: Line,
    batches: Batches<Line>,
    callers: Vec<Option<Submitting>>,
    /// The operations that must never be sent.
    withdrawn: Vec<usize>,
}

impl World {
    fn new(limits: Limits) -> Self {
        let line = Line::default();
        Self {
            batches: Batches::new(line.clone(), limits),
            line,
            callers: Vec::new(),
            withdrawn: Vec::new(),
        }
    }

    fn can(&self, step: Step, before: &[Step]) -> bool {
        match step {
            Step::Submit => self.callers.len() < CALLERS,
            Step::Run => !before.ends_with(&[Step::Run, Step::Run]),
            Step::Reply => !self.line.server().unanswered.is_empty(),
            Step::Drop(caller) => self.callers.get(caller).is_some_and(Option::is_some),
            Step::End => !self.callers.is_empty() && !before.contains(&Step::End),
        }
    }

    async fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Submit => {
                let number = self.callers.len();
                let Route::Queued(sender) = self.batches.route() else {
                    return Err("the operation is not queued".to_owned());
                };
                self.callers.push(Some(Box::pin(sender.submit(Op(number)))));
            }
            Step::Run => yield_now().await,
            Step::Reply => {
                let answer = self.line.server().unanswered.pop_front();
                answer.map(|answer| answer.send(()));
            }
            Step::Drop(caller) => {
                self.callers[caller] = None;
                if !self.line.has_sent(caller) {
                    self.withdrawn.push(caller);
                }
            }
            Step::End => end_tasks(),
        }
        self.check()
    }

    fn check(&mut self) -> Result<(), String> {
        if self.batches.is_stuck() {
            return Err("operations wait without a task".to_owned());
        }
        for (number, caller) in self.callers.iter_mut().enumerate() {
            let Some(answer) = caller.as_mut().and_then(FutureExt::now_or_never) else {
                continue;
            };
            *caller = None;
            let was_sent = self.line.has_sent(number);
            let is_right = match &answer {
                Ok(reply) => *reply == number && was_sent,
                Err(error) if error.kind() == StoreErrorKind::NotApplied => !was_sent,
                Err(_) => was_sent,
            };
            if !is_right {
                return Err(format!("{number} got {answer:?}"));
            }
        }
        match self.withdrawn.iter().find(|op| self.line.has_sent(**op)) {
            Some(op) => Err(format!("{op} was sent without a caller")),
            None => Ok(()),
        }
    }

    /// Answers everything until all callers have their answers.
    async fn finish(&mut self) -> Result<(), String> {
        for _ in 0..20 {
            self.take(Step::Run).await?;
            self.take(Step::Reply).await?;
            if self.callers.iter().all(Option::is_none) {
                return Ok(());
            }
        }
        Err("a caller has no answer".to_owned())
    }
}

/// Runs `steps` and then everything else.
async fn run(steps: &[Step], limits: Limits) -> Result<Vec<Step>, String> {
    let mut world = World::new(limits);
    for step in steps {
        world.take(*step).await?;
    }
    let all = [Step::Submit, Step::Run, Step::Reply, Step::End];
    let drops = (0..CALLERS).map(Step::Drop);
    let next = all.into_iter().chain(drops);
    let next = next.filter(|step| world.can(*step, steps)).collect();
    let finished = world.finish().await;
    end_tasks();
    yield_now().await;
    finished.map(|()| next)
}

const CALLERS: usize = 3;

/// Runs all orders that begin with `steps` and have `more` steps more. Returns their number, or a bad order.
fn explore(
    runtime: &Runtime,
    steps: &mut Vec<Step>,
    more: usize,
    limits: Limits,
) -> Result<usize, String> {
    let next = runtime.block_on(run(steps, limits));
    let next = next.map_err(|error| format!("{error}: {steps:?}"))?;
    let mut orders = 1;
    if more > 0 {
        for step in next {
            steps.push(step);
            orders += explore(runtime, steps, more - 1, limits)?;
            steps.pop();
        }
    }
    Ok(orders)
}

/// Explores the engine, or a broken variant of it.
fn explore_all(broken: Option<Mutation>) -> Result<usize, String> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    mutation::make(broken);
    let mut orders = 0;
    let mut explored = Ok(0);
    for (in_flight, parts) in [(1, 1), (8, 1), (8, 2)] {
        let limits = Limits {
            inline: 0,
            in_flight,
            parts,
            whole: 1,
            ..Limits::default()
        };
        explored = explore(&runtime, &mut vec![Step::Submit], 8, limits);
        match explored {
            Ok(more) => orders += more,
            Err(_) => break,
        }
    }
    mutation::make(None);
    explored.map(|_| orders)
}

#[test]
fn no_order_of_steps_leaves_an_operation_without_a_task() {
    let orders = explore_all(None).unwrap();
    assert!(orders > 50_000, "only {orders} orders");
    for broken in [
        Mutation::LeavesQueue,
        Mutation::ForgetsQueue,
        Mutation::DeniesSent,
        Mutation::SendsDropped,
        Mutation::ShiftsAnswers,
    ] {
        let found = explore_all(Some(broken));
        assert!(
            found.is_err(),
            "{broken:?} is not found in {found:?} orders"
        );
    }
}
