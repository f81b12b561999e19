//! Threads that queue operations while tasks end, under schedules of `shuttle`: at every lock another thread may continue. An
//! operation that no task takes becomes a deadlock.
//!
//! `proof/schedules/tests/batches.rs` runs them.

use std::sync::{Arc, Mutex, PoisonError};
use std::{env, mem};

use shuttle::future::{block_on, yield_now};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Runner, thread};

use super::{Answer, BatchTypes, Batches, Limits, Operation, Route, Transport};
use crate::mutation::{self, Mutation};

const THREADS: usize = 3;
/// The operations of each thread, one after another.
const OPERATIONS: usize = 2;

/// An operation of a key of its own.
struct Number(usize);

impl Operation for Number {
    fn size(&self) -> usize {
        1
    }

    fn digest(&self) -> Option<u64> {
        Some(self.0 as u64)
    }
}

/// A server that answers each number with itself.
#[derive(Default)]
struct Echo(Mutex<Vec<usize>>);

impl Echo {
    /// The numbers that were sent, sorted.
    fn sent(&self) -> Vec<usize> {
        let mut sent = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        sent.sort_unstable();
        sent
    }
}

/// The connection to the server.
struct Wire(Arc<Echo>);

impl BatchTypes for Wire {
    type Operation = Number;
    type Reply = usize;
}

impl Transport for Wire {
    async fn send(&self, batch: Vec<Number>) -> Vec<Answer<Number, usize>> {
        let numbers = batch.iter().map(|number| number.0);
        let sent = &self.0.0;
        sent.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(numbers);
        yield_now().await;
        let reply = |number: Number| Answer::Reply(number.0);
        batch.into_iter().map(reply).collect()
    }
}

/// Runs `test` under many schedules of an engine, or of a broken variant of it.
fn under_many_schedules(broken: Option<Mutation>, test: impl Fn() + Copy + Send + Sync + 'static) {
    let schedules = env::var("IDEMPOTENCE_SCHEDULES");
    let schedules = schedules.map_or(2_000, |number| number.parse().expect("a number"));
    // The clock is paused, so no timer fires: only another thread can continue a task.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    mutation::make(broken);
    let mut config = shuttle::Config::new();
    // The default stack is too small for a debug build.
    config.stack_size = 1 << 20;
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(test);
    Runner::new(PctScheduler::new(3, schedules), config).run(test);
    mutation::make(None);
}

fn batches(in_flight: usize) -> (Arc<Batches<Wire>>, Arc<Echo>) {
    let limits = Limits {
        inline: 0,
        in_flight,
        ..Limits::default()
    };
    let echo = Arc::new(Echo::default());
    let wire = Wire(Arc::clone(&echo));
    (Arc::new(Batches::new(wire, limits)), echo)
}

fn submit(batches: &Batches<Wire>, number: usize) -> super::Submitted<Wire> {
    match batches.route() {
        Route::Queued(sender) => sender.submit(Number(number)),
        Route::Inline(_) => panic!("no operation goes alone"),
    }
}

/// Several threads wait for each of their operations.
fn all_are_answered(in_flight: usize) {
    let (batches, echo) = batches(in_flight);
    let threads = (0..THREADS).map(|thread| {
        let batches = Arc::clone(&batches);
        thread::spawn(move || {
            for operation in 0..OPERATIONS {
                let number = thread * OPERATIONS + operation;
                let reply = block_on(submit(&batches, number));
                assert_eq!(reply.expect("an answer"), number, "the answer of another");
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert!(!batches.is_stuck(), "an operation waits without a task");
    let all: Vec<_> = (0..THREADS * OPERATIONS).collect();
    assert_eq!(echo.sent(), all, "each operation is sent once");
}

pub fn every_operation_is_answered_once_while_tasks_end() {
    under_many_schedules(None, || all_are_answered(1));
    under_many_schedules(None, || all_are_answered(8));
}

pub fn an_operation_that_is_dropped_holds_up_no_other() {
    under_many_schedules(None, || {
        let (batches, echo) = batches(1);
        let threads = (0..THREADS).map(|number| {
            let batches = Arc::clone(&batches);
            thread::spawn(move || {
                let submitted = submit(&batches, number);
                if number == 0 {
                    return drop(submitted);
                }
                assert_eq!(block_on(submitted).expect("an answer"), number);
            })
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert!(!batches.is_stuck(), "an operation waits without a task");
        let sent = echo.sent();
        assert!(sent == [0, 1, 2] || sent == [1, 2], "{sent:?}");
    });
}

pub fn a_task_that_ends_before_a_late_operation_is_found() {
    under_many_schedules(Some(Mutation::ForgetsQueue), || all_are_answered(1));
}

pub fn answers_of_others_are_found() {
    under_many_schedules(Some(Mutation::ShiftsAnswers), || all_are_answered(1));
}
