//! What a batch must keep. Each rule has a broken variant of the engine, and its test must find the mistake.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle, yield_now};
use tokio::time::{Instant, advance, sleep, timeout};

use super::{Answer, Batched, Batches, Limits, Operation, Transport, Way};
use crate::broken;
use crate::store::{StoreError, StoreErrorKind};

/// An engine with one mistake.
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "some mistakes are in Redis")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A lone operation is queued.
    QueuesAlone,
    /// An operation is sent although its caller was dropped before.
    SendsDropped,
    /// A batch has two operations of a key.
    RepeatsKeys,
    /// An operation that waits for its key goes behind later operations.
    Reorders,
    /// The queue has no limit.
    Unbounded,
    /// Only one batch is in flight.
    OneBatchAtATime,
    /// Many operations go in one batch.
    SendsAllAtOnce,
    /// A batch is kept although all its callers are gone.
    KeepsAbandoned,
    /// A batch ends with any of its callers.
    DropsBatchWithCaller,
    /// A caller gets the answer to another operation.
    ShiftsAnswers,
    /// An operation that was sent counts as not applied when its runtime ends.
    DeniesSent,
    /// What waits stays in the queue when its runtime ends.
    LeavesQueue,
    /// A task ends after an answer, although operations wait and no other task takes them.
    ForgetsQueue,
    /// All runtimes share a queue.
    SharesLanes,
    /// Overdue batches hold up the queue.
    CountsOverdue,
    /// A server that does not answer gathers more and more overdue batches.
    GathersOverdue,
    /// Each operation that meets a full queue looks at the whole queue.
    LooksAtAllAgain,
    /// The bytes in flight have no limit.
    IgnoresBytesInFlight,
    /// Large batches count as small batches do.
    CountsLarge,
    /// An operation right after a batch waits for the answer to the batch, also on a slow network.
    WaitsInGap,
    /// Redis: an operation gets the reply to the next command.
    ShiftsReplies,
    /// Redis: the error of one removal is the answer to all removals.
    SharesError,
    /// Redis: a removal by an unknown script is not repeated.
    ForgetsSource,
    /// Redis: the reply to a notification is the answer to the next operation.
    ReadsNotification,
    /// Redis: writes are acknowledged without a wait for the replicas.
    AcknowledgesAtOnce,
}

thread_local! {
    static TASKS: RefCell<Vec<AbortHandle>> = const { RefCell::new(Vec::new()) };
}

/// Notes a task that sends batches, on the thread that started the task.
#[cfg_attr(shuttle, expect(dead_code, reason = "the tasks are shuttle's"))]
pub(super) fn note_task(task: &JoinHandle<()>) {
    TASKS.with_borrow_mut(|tasks| {
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.abort_handle());
    });
}

/// Drops all tasks of this thread that send batches, as the end of their runtime does.
pub(crate) fn end_tasks() {
    for task in TASKS.take() {
        task.abort();
    }
}

/// Checks that the engine keeps a rule and that its broken variant does not.
pub(crate) fn assert_kept<F: Future<Output = bool>>(rule: impl Fn() -> F, broken: Broken) {
    let in_runtime = || {
        paused().block_on(async {
            // A broken variant may wait forever.
            timeout(HOUR, rule()).await.unwrap_or(false)
        })
    };
    broken::assert_kept(in_runtime, &[broken]);
}

fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_time().start_paused(true);
    builder.build().unwrap()
}

const HOUR: Duration = Duration::from_hours(1);
/// The time between a request and its reply.
const TRIP: Duration = Duration::from_millis(10);
/// How long a caller with the default deadline waits for its first try.
const FIRST_TRY: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Op {
    number: usize,
    key: Option<u64>,
    size: usize,
    /// The server asks for the operation again.
    is_refused: bool,
}

fn op(number: usize) -> Op {
    Op {
        number,
        key: None,
        size: 1,
        is_refused: false,
    }
}

fn op_of(key: u64, number: usize) -> Op {
    Op {
        key: Some(key),
        ..op(number)
    }
}

thread_local! {
    /// How often the size of an operation was read.
    static SIZES: Cell<usize> = const { Cell::new(0) };
}

impl Operation for Op {
    fn size(&self) -> usize {
        SIZES.set(SIZES.get() + 1);
        self.size
    }

    fn digest(&self) -> Option<u64> {
        self.key
    }
}

/// A server that answers an operation with its number.
#[derive(Default)]
struct Server {
    /// The numbers of each batch, in the order in which they were handed over.
    batches: Mutex<Vec<Vec<usize>>>,
    /// The numbers that this server does not answer before it resumes.
    hangs_on: Mutex<Vec<usize>>,
    resumes: Notify,
    is_away: AtomicBool,
    panics: AtomicBool,
    /// The batches that were dropped without an answer.
    dropped: AtomicUsize,
    overdue: AtomicUsize,
}

/// Counts the drop of a batch.
struct InFlight<'a>(Option<&'a AtomicUsize>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.0 {
            dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Batched for Arc<Server> {
    type Operation = Op;
    type Reply = usize;
}

impl Transport for Arc<Server> {
    async fn ready(&self) {
        while self.is_away.load(Ordering::SeqCst) {
            sleep(TRIP).await;
        }
    }

    async fn send(&self, batch: Vec<Op>) -> Vec<Answer<Op, usize>> {
        let numbers: Vec<_> = batch.iter().map(|op| op.number).collect();
        let hangs = {
            let hangs_on = self.hangs_on.lock().unwrap();
            numbers.iter().any(|number| hangs_on.contains(number))
        };
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants");
        self.batches.lock().unwrap().push(numbers);
        let mut in_flight = InFlight(Some(&self.dropped));
        if hangs {
            self.resumes.notified().await;
        }
        sleep(TRIP).await;
        in_flight.0 = None;
        let answer = |op: Op| {
            if op.is_refused {
                Answer::Again(Op {
                    is_refused: false,
                    ..op
                })
            } else {
                Answer::Reply(op.number)
            }
        };
        batch.into_iter().map(answer).collect()
    }

    fn overdue(&self) {
        self.overdue.fetch_add(1, Ordering::SeqCst);
    }
}

struct Setup {
    server: Arc<Server>,
    batches: Arc<Batches<Arc<Server>>>,
}

/// Without operations that their callers send, so that each operation is queued.
const QUEUED: Limits = Limits {
    inline: 0,
    in_flight: 8,
    tasks: 64,
    bytes_in_flight: 1 << 20,
    gap: Duration::from_micros(200),
    operations: 512,
    parts: 1,
    whole: 16,
    bytes: 256 * 1024,
    waiting: 10_000,
    waiting_bytes: 1 << 20,
};

impl Setup {
    fn new(limits: Limits) -> Self {
        let server = Arc::new(Server::default());
        let batches = Arc::new(Batches::new(Arc::clone(&server), limits));
        Self { server, batches }
    }

    /// Sends an operation as the store does; an operation that is sent inline has the answer of a batch of one.
    fn submit(&self, op: Op) -> impl Future<Output = Result<usize, StoreError>> + Send + 'static {
        let batches = Arc::clone(&self.batches);
        let server = Arc::clone(&self.server);
        async move {
            match batches.way() {
                Way::Inline(_inline) => {
                    let number = op.number;
                    let _ = server.send(vec![op]).await;
                    Ok(number)
                }
                Way::Queue(entrance) => entrance.submit(op).await,
            }
        }
    }

    fn spawn(&self, op: Op) -> JoinHandle<Result<usize, StoreError>> {
        tokio::spawn(self.submit(op))
    }

    fn sent(&self) -> Vec<Vec<usize>> {
        self.server.batches.lock().unwrap().clone()
    }

    fn hang_on(&self, number: usize) {
        self.server.hangs_on.lock().unwrap().push(number);
    }

    /// Submits operations without an answer, and returns how many batches left.
    async fn hang_all_again(&self, operations: usize) -> usize {
        let before = self.sent().len();
        for number in 1000..1000 + operations {
            self.hang_on(number);
            self.spawn(op(number));
            settle().await;
            advance(QUEUED.gap).await;
        }
        self.sent().len() - before
    }

    /// Fills the queue's limit with batches of patient callers, which have no answer.
    async fn hang_all(&self) -> Vec<JoinHandle<Result<usize, StoreError>>> {
        let mut hanging = Vec::new();
        for number in 0..QUEUED.in_flight {
            self.hang_on(number);
            hanging.push(self.spawn(op(number)));
            settle().await;
            advance(QUEUED.gap).await;
        }
        assert_eq!(self.sent().len(), QUEUED.in_flight);
        hanging
    }
}

/// Lets all tasks run until they wait for time.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[test]
fn a_lone_operation_is_sent_by_its_caller_without_a_task() {
    let rule = || async {
        let setup = Setup::new(Limits::default());
        let metrics = tokio::runtime::Handle::current().metrics();
        let before = metrics.num_alive_tasks();
        let mut lone = Box::pin(setup.submit(op(1)));
        let is_sent = (&mut lone).now_or_never().is_none() && setup.sent() == [[1]];
        let is_alone = metrics.num_alive_tasks() == before;
        is_sent && is_alone && lone.await.is_ok()
    };
    assert_kept(rule, Broken::QueuesAlone);
}

#[test]
fn operations_that_arrive_together_go_in_one_batch() {
    paused().block_on(async {
        let setup = Setup::new(QUEUED);
        let answers = join_all((0..100).map(|number| setup.submit(op(number)))).await;
        assert_eq!(setup.sent(), [(0..100).collect::<Vec<_>>()]);
        assert!(answers.into_iter().map(Result::unwrap).eq(0..100));
    });
}

#[test]
fn each_caller_gets_its_own_answer() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let answers = join_all((0..10).map(|number| setup.submit(op(number)))).await;
        answers.into_iter().map(Result::unwrap).eq(0..10)
    };
    assert_kept(rule, Broken::ShiftsAnswers);
}

#[test]
fn an_operation_whose_caller_is_gone_before_is_not_sent() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let mut gone = Box::pin(setup.submit(op(1)));
        let kept = setup.spawn(op(2));
        assert!((&mut gone).now_or_never().is_none());
        drop(gone);
        kept.await.unwrap().is_ok() && setup.sent() == [[2]]
    };
    assert_kept(rule, Broken::SendsDropped);
}

#[test]
fn nothing_is_sent_and_no_task_stays_if_all_callers_are_gone_before() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let mut gone = Box::pin(setup.submit(op(1)));
        assert!((&mut gone).now_or_never().is_none());
        drop(gone);
        settle().await;
        let metrics = tokio::runtime::Handle::current().metrics();
        setup.sent().is_empty() && metrics.num_alive_tasks() == 0
    };
    assert_kept(rule, Broken::SendsDropped);
}

#[test]
fn a_caller_that_is_gone_while_connecting_sends_nothing() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        setup.server.is_away.store(true, Ordering::SeqCst);
        let gone = setup.spawn(op(1));
        let kept = setup.spawn(op(2));
        sleep(3 * TRIP).await;
        gone.abort();
        settle().await;
        setup.server.is_away.store(false, Ordering::SeqCst);
        kept.await.unwrap().is_ok() && setup.sent() == [[2]]
    };
    assert_kept(rule, Broken::SendsDropped);
}

#[test]
fn a_caller_that_leaves_does_not_change_the_answers_of_its_batch() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let mut gone = Box::pin(setup.submit(op(1)));
        assert!((&mut gone).now_or_never().is_none());
        let kept = setup.spawn(op(2));
        settle().await;
        assert_eq!(setup.sent(), [[1, 2]]);
        // The task was started for the first caller.
        drop(gone);
        let is_answered = kept.await.unwrap().is_ok_and(|number| number == 2);
        is_answered && setup.server.overdue.load(Ordering::SeqCst) == 1
    };
    assert_kept(rule, Broken::DropsBatchWithCaller);
}

#[test]
fn a_batch_whose_callers_are_all_gone_is_dropped() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        setup.hang_on(1);
        let callers = [setup.spawn(op(1)), setup.spawn(op(2))];
        settle().await;
        callers[0].abort();
        settle().await;
        assert_eq!(setup.server.dropped.load(Ordering::SeqCst), 0);
        callers[1].abort();
        settle().await;
        let metrics = tokio::runtime::Handle::current().metrics();
        setup.server.dropped.load(Ordering::SeqCst) == 1 && metrics.num_alive_tasks() == 0
    };
    assert_kept(rule, Broken::KeepsAbandoned);
}

#[test]
fn an_operation_waits_for_no_reply_on_a_slow_network() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let first = setup.spawn(op(1));
        settle().await;
        advance(TRIP / 2).await;
        let began = Instant::now();
        setup.submit(op(2)).await.unwrap();
        first.await.unwrap().unwrap();
        began.elapsed() < TRIP + TRIP / 4
    };
    assert_kept(rule, Broken::OneBatchAtATime);
}

#[test]
fn operations_right_after_a_batch_gather_until_its_answer() {
    paused().block_on(async {
        let setup = Setup::new(QUEUED);
        let first = setup.spawn(op(1));
        settle().await;
        let second = setup.spawn(op(2));
        settle().await;
        advance(QUEUED.gap / 2).await;
        let third = setup.spawn(op(3));
        for caller in [first, second, third] {
            caller.await.unwrap().unwrap();
        }
        assert_eq!(setup.sent(), [vec![1], vec![2, 3]]);
    });
}

#[test]
fn batches_without_an_answer_do_not_hold_up_the_others() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        setup.hang_on(0);
        let hanging = setup.spawn(op(0));
        settle().await;
        for number in 1..100 {
            advance(QUEUED.gap).await;
            let began = Instant::now();
            if setup.submit(op(number)).await.is_err() || began.elapsed() > 2 * TRIP {
                return false;
            }
        }
        !hanging.is_finished()
    };
    assert_kept(rule, Broken::OneBatchAtATime);
}

#[test]
fn a_full_set_of_hung_batches_is_released_when_its_callers_give_up() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let hanging = setup.hang_all().await;
        let waiting = setup.spawn(op(100));
        settle().await;
        assert_eq!(setup.sent().len(), QUEUED.in_flight, "the operation waits");
        hanging[3].abort();
        timeout(2 * TRIP, waiting).await.is_ok()
    };
    assert_kept(rule, Broken::KeepsAbandoned);
}

#[test]
fn a_caller_that_gives_up_in_the_queue_starts_a_probe_of_the_hung_batches() {
    paused().block_on(async {
        let setup = Setup::new(QUEUED);
        let hanging = setup.hang_all().await;
        let waiting = setup.spawn(op(100));
        settle().await;
        sleep(Duration::from_millis(150)).await;
        assert_eq!(setup.server.overdue.load(Ordering::SeqCst), 0);
        waiting.abort();
        settle().await;
        let probed = setup.server.overdue.load(Ordering::SeqCst);
        assert_eq!(probed, QUEUED.in_flight, "each hung batch is suspicious");
        assert!(hanging.iter().all(|caller| !caller.is_finished()));
    });
}

#[test]
fn hung_batches_of_patient_callers_do_not_hold_up_the_queue_after_a_first_try() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let hanging = setup.hang_all().await;
        // Nobody stops waiting, and no other operation arrives.
        let answer = timeout(FIRST_TRY + 2 * TRIP, setup.submit(op(100))).await;
        answer.is_ok() && hanging.iter().all(|caller| !caller.is_finished())
    };
    assert_kept(rule, Broken::CountsOverdue);
}

#[test]
fn an_impatient_caller_that_gives_up_makes_way_for_the_next() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let hanging = setup.hang_all().await;
        let short = Duration::from_millis(150);
        assert!(timeout(short, setup.submit(op(100))).await.is_err());
        let answer = timeout(2 * TRIP, setup.submit(op(101))).await;
        let is_answered = answer.is_ok_and(|answer| answer.is_ok_and(|number| number == 101));
        is_answered && hanging.iter().all(|caller| !caller.is_finished())
    };
    assert_kept(rule, Broken::CountsOverdue);
}

#[test]
fn a_caller_that_leaves_at_once_does_not_make_its_batch_overdue() {
    paused().block_on(async {
        let setup = Setup::new(QUEUED);
        let hanging = setup.hang_all().await;
        let waiting = setup.spawn(op(100));
        settle().await;
        hanging[1].abort();
        drop(setup.submit(op(101)).now_or_never());
        settle().await;
        // The only caller of a batch is gone, so its task sends what waits. The others still count.
        assert_eq!(waiting.await.unwrap().unwrap(), 100);
        let hung = setup.hang_all_again(QUEUED.in_flight).await;
        assert_eq!(hung, 1);
    });
}

#[test]
fn a_server_that_does_not_answer_gets_a_limited_number_of_batches() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let mut hanging = Vec::new();
        for number in 0..200 {
            setup.hang_on(number);
            hanging.push(setup.spawn(op(number)));
            sleep(FIRST_TRY).await;
        }
        let metrics = tokio::runtime::Handle::current().metrics();
        let tasks = metrics.num_alive_tasks() - hanging.len();
        if tasks != setup.sent().len() || tasks != QUEUED.tasks {
            return false;
        }
        setup.server.hangs_on.lock().unwrap().clear();
        setup.server.resumes.notify_waiters();
        let answers = join_all(hanging).await;
        answers.into_iter().all(|answer| answer.unwrap().is_ok())
    };
    assert_kept(rule, Broken::GathersOverdue);
}

#[test]
fn overdue_batches_that_are_answered_do_not_raise_the_limit() {
    paused().block_on(async {
        let setup = Setup::new(QUEUED);
        let hanging = setup.hang_all().await;
        sleep(2 * FIRST_TRY).await;
        // The first batch was alone, so it still counts. Seven others take the place of those that are overdue.
        let hung = setup.hang_all_again(20).await;
        assert_eq!(hung, QUEUED.in_flight - 1);
        setup.server.hangs_on.lock().unwrap().clear();
        setup.server.resumes.notify_waiters();
        for caller in hanging {
            caller.await.unwrap().unwrap();
        }
        sleep(2 * TRIP).await;
        let sent = setup.sent().len();
        let hung = setup.hang_all_again(20).await;
        assert_eq!(hung, QUEUED.in_flight);
        assert_eq!(setup.sent().len(), sent + QUEUED.in_flight);
    });
}

#[test]
fn large_batches_are_limited_by_their_bytes_and_not_by_their_number() {
    let rule = || async {
        let limits = Limits {
            in_flight: 2,
            bytes_in_flight: 1000,
            bytes: 100,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        let large = |number| Op {
            size: 100,
            ..op(number)
        };
        let callers = (0..100).map(|number| setup.spawn(large(number)));
        let callers: Vec<_> = callers.collect();
        settle().await;
        let sent = setup.sent().len();
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        sent == 10
    };
    assert_kept(rule, Broken::IgnoresBytesInFlight);
    assert_kept(rule, Broken::CountsLarge);
}

/// While the server works on one part, the callers of another part continue.
#[test]
fn many_operations_leave_in_parts() {
    let rule = || async {
        let limits = Limits {
            parts: 4,
            whole: 3,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        let mut sizes: Vec<Vec<usize>> = Vec::new();
        for operations in [2, 3, 4, 40] {
            let before = setup.sent().len();
            let callers = (0..operations).map(|number| setup.spawn(op(number)));
            let callers: Vec<_> = callers.collect();
            settle().await;
            sizes.push(setup.sent()[before..].iter().map(Vec::len).collect());
            for caller in callers {
                caller.await.unwrap().unwrap();
            }
        }
        sizes == [vec![2], vec![3], vec![3, 1], vec![10; 4]]
    };
    assert_kept(rule, Broken::SendsAllAtOnce);
}

#[test]
fn a_full_queue_looks_at_its_operations_only_after_enough_drops() {
    const WAITING: usize = 1000;
    let rule = || async {
        let limits = Limits {
            waiting: WAITING,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        setup.server.is_away.store(true, Ordering::SeqCst);
        let mut queued: Vec<_> = (0..WAITING).map(|number| setup.spawn(op(number))).collect();
        settle().await;
        SIZES.set(0);
        let mut accepted = 0;
        for number in 0..WAITING {
            // One caller leaves for each that arrives.
            queued[number].abort();
            settle().await;
            let mut late = Box::pin(setup.submit(op(WAITING + number)));
            if (&mut late).now_or_never().is_none() {
                accepted += 1;
                queued.push(tokio::spawn(late));
            }
        }
        let looks = SIZES.get();
        setup.server.is_away.store(false, Ordering::SeqCst);
        let answered = join_all(queued).await;
        let answered = answered.iter().filter(|caller| caller.is_ok()).count();
        assert_eq!(answered, accepted);
        accepted > WAITING * 3 / 4 && looks < 40 * WAITING
    };
    assert_kept(rule, Broken::LooksAtAllAgain);
}

#[test]
fn an_operation_right_after_a_batch_waits_for_no_reply_on_a_slow_network() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        // The queue learns how long a round trip takes.
        setup.submit(op(1)).await.unwrap();
        let first = setup.spawn(op(2));
        settle().await;
        advance(QUEUED.gap / 2).await;
        let began = Instant::now();
        setup.submit(op(3)).await.unwrap();
        first.await.unwrap().unwrap();
        began.elapsed() <= TRIP + Duration::from_millis(2)
    };
    assert_kept(rule, Broken::WaitsInGap);
}

#[test]
fn an_operation_larger_than_the_queue_is_sent_if_nothing_waits() {
    paused().block_on(async {
        let limits = Limits {
            waiting_bytes: 50,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        let large = Op {
            size: 1000,
            ..op(1)
        };
        assert_eq!(setup.submit(large).await.unwrap(), 1);
    });
}

#[test]
fn operations_of_one_key_go_in_different_batches() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let ops = [op_of(7, 1), op_of(8, 2), op_of(7, 3), op_of(7, 4), op(5)];
        join_all(ops.map(|op| setup.submit(op))).await;
        setup.sent() == [vec![1, 2, 5], vec![3], vec![4]]
    };
    assert_kept(rule, Broken::RepeatsKeys);
}

#[test]
fn operations_of_one_key_keep_their_order() {
    let rule = || async {
        let limits = Limits {
            operations: 2,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        let keys = [7, 7, 8, 7, 8, 8, 9, 7, 9, 7];
        let ops = keys
            .iter()
            .enumerate()
            .map(|(number, key)| op_of(*key, number));
        join_all(ops.map(|op| setup.submit(op))).await;
        let sent = setup.sent().concat();
        let of_key = |key| sent.iter().filter(move |number| keys[**number] == key);
        sent.len() == keys.len() && [7, 8, 9].into_iter().all(|key| of_key(key).is_sorted())
    };
    assert_kept(rule, Broken::Reorders);
}

#[test]
fn a_batch_has_limits_and_the_rest_follows_at_once() {
    paused().block_on(async {
        let limits = Limits {
            operations: 3,
            bytes: 10,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        let sizes = [1, 1, 1, 1, 9, 1, 25, 5, 5];
        let ops = sizes.iter().enumerate().map(|(number, size)| Op {
            size: *size,
            ..op(number)
        });
        let began = Instant::now();
        join_all(ops.map(|op| setup.submit(op))).await;
        let expected = [vec![0, 1, 2], vec![3, 4], vec![5], vec![6], vec![7, 8]];
        assert_eq!(setup.sent(), expected);
        assert_eq!(began.elapsed(), TRIP, "no batch waits for another");
    });
}

#[test]
fn a_full_queue_refuses_and_drops_what_nobody_waits_for() {
    let rule = || async {
        let limits = Limits {
            waiting: 5,
            waiting_bytes: 50,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        setup.server.is_away.store(true, Ordering::SeqCst);
        let mut queued: Vec<_> = (0..5).map(|number| setup.spawn(op(number))).collect();
        settle().await;
        let refused = |refused: Option<Result<usize, StoreError>>| {
            refused.is_some_and(|answer| {
                answer.is_err_and(|error| error.kind() == StoreErrorKind::NotApplied)
            })
        };
        if !refused(setup.submit(op(5)).now_or_never()) {
            return false;
        }
        queued.remove(2).abort();
        settle().await;
        let large = Op { size: 47, ..op(6) };
        if !refused(setup.submit(large.clone()).now_or_never()) {
            return false;
        }
        queued.push(setup.spawn(Op { size: 46, ..large }));
        settle().await;
        setup.server.is_away.store(false, Ordering::SeqCst);
        for caller in queued {
            caller.await.unwrap().unwrap();
        }
        setup.sent().concat() == [0, 1, 3, 4, 6]
    };
    assert_kept(rule, Broken::Unbounded);
}

#[test]
fn an_operation_that_was_not_applied_goes_again_alone_and_first() {
    paused().block_on(async {
        let setup = Setup::new(QUEUED);
        let refused = Op {
            is_refused: true,
            ..op_of(7, 1)
        };
        let first = [setup.spawn(op(0)), setup.spawn(refused.clone())];
        settle().await;
        let later = setup.spawn(op_of(7, 2));
        for caller in first {
            caller.await.unwrap().unwrap();
        }
        later.await.unwrap().unwrap();
        assert_eq!(setup.sent(), [vec![0, 1], vec![1], vec![2]]);

        // Not again if nobody waits for it.
        let gone = setup.spawn(refused);
        settle().await;
        gone.abort();
        sleep(2 * TRIP).await;
        assert_eq!(setup.sent().len(), 4);
    });
}

#[test]
fn a_runtime_that_ends_answers_what_it_has_sent_and_what_it_has_not() {
    let rule = || {
        let setup = Setup::new(QUEUED);
        let ends = paused();
        let (sent, unsent) = ends.block_on(async {
            let mut sent = Box::pin(setup.submit(op(1)));
            assert!((&mut sent).now_or_never().is_none());
            settle().await;
            let mut unsent = Box::pin(setup.submit(op(2)));
            assert!((&mut unsent).now_or_never().is_none());
            (sent, unsent)
        });
        assert_eq!(setup.sent(), [[1]]);
        drop(ends);
        paused().block_on(async {
            let kinds = [sent.await, unsent.await].map(|answer| answer.unwrap_err().kind());
            assert!(setup.submit(op(3)).await.is_ok());
            kinds == [StoreErrorKind::Unknown, StoreErrorKind::NotApplied]
        })
    };
    broken::assert_kept(rule, &[Broken::DeniesSent]);
}

#[test]
fn a_runtime_that_nobody_drives_does_not_hold_up_another() {
    let rule = || {
        let setup = Setup::new(QUEUED);
        let frozen = paused();
        let mut left = Box::pin(setup.submit(op(1)));
        frozen.block_on(async { assert!((&mut left).now_or_never().is_none()) });
        let is_answered = paused().block_on(async {
            let answer = timeout(HOUR, setup.submit(op(2))).await;
            answer.is_ok_and(|answer| answer.is_ok())
        });
        drop(left);
        is_answered
    };
    broken::assert_kept(rule, &[Broken::SharesLanes]);
}

#[test]
fn a_panic_of_the_transport_answers_its_callers_and_later_callers_go_on() {
    paused().block_on(async {
        let setup = Setup::new(QUEUED);
        setup.server.panics.store(true, Ordering::SeqCst);
        let answers = join_all([1, 2].map(|number| setup.submit(op(number)))).await;
        for answer in answers {
            assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Unknown);
        }
        setup.server.panics.store(false, Ordering::SeqCst);
        assert_eq!(setup.submit(op(3)).await.unwrap(), 3);
    });
}

#[test]
fn outside_of_a_runtime_each_caller_sends_its_operation() {
    let setup = Setup::new(QUEUED);
    let ways = [setup.batches.way(), setup.batches.way()];
    assert!(ways.iter().all(|way| matches!(way, Way::Inline(None))));
}

#[test]
fn callers_send_only_a_few_operations_themselves() {
    paused().block_on(async {
        let limits = Limits {
            inline: 2,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        let answers = join_all((0..5).map(|number| setup.submit(op(number)))).await;
        assert!(answers.into_iter().all(|answer| answer.is_ok()));
        assert_eq!(setup.sent(), [vec![0], vec![1], vec![2, 3, 4]]);
        settle().await;
        setup.submit(op(5)).await.unwrap();
        let metrics = tokio::runtime::Handle::current().metrics();
        assert_eq!(metrics.num_alive_tasks(), 0, "the last one was alone");
    });
}

/// Threads of one runtime that send one after the other: every operation has its answer, and those of a key stay in order.
#[test]
fn threads_share_the_batches() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let setup = Arc::new(Setup::new(Limits::default()));
    runtime.block_on(async {
        let callers = (0..64_usize).map(|caller| {
            let setup = Arc::clone(&setup);
            tokio::spawn(async move {
                for round in 0..20 {
                    let number = round * 64 + caller;
                    let answer = setup.submit(op_of(caller as u64, number)).await;
                    assert_eq!(answer.unwrap(), number);
                }
            })
        });
        let callers: Vec<_> = callers.collect();
        for caller in callers {
            timeout(Duration::from_mins(1), caller)
                .await
                .unwrap()
                .unwrap();
        }
    });
    let sent = setup.sent().concat();
    assert_eq!(sent.len(), 64 * 20);
    for caller in 0..64 {
        assert!(
            sent.iter()
                .filter(|number| **number % 64 == caller)
                .is_sorted()
        );
    }
}
