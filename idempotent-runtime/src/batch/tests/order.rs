//! Which operations go together, and in which order.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

use super::server::{Op, QUEUED, Setup, TRIP, op, op_of, settle};
use super::{assert_kept, paused};
use crate::batch::Limits;
use crate::mutation::Mutation;

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
    assert_kept(rule, Mutation::QueuesAlone);
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
    assert_kept(rule, Mutation::ShiftsAnswers);
}

#[test]
fn an_operation_right_after_a_batch_waits_for_no_reply() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        let first = setup.spawn(op(1));
        settle().await;
        let began = Instant::now();
        setup.submit(op(2)).await.unwrap();
        first.await.unwrap().unwrap();
        began.elapsed() < TRIP + TRIP / 4
    };
    assert_kept(rule, Mutation::OneBatchAtATime);
}

#[test]
fn operations_gather_while_as_many_batches_as_allowed_have_no_answer() {
    paused().block_on(async {
        let limits = Limits {
            in_flight: 1,
            ..QUEUED
        };
        let setup = Setup::new(limits);
        let first = setup.spawn(op(1));
        settle().await;
        let second = setup.spawn(op(2));
        settle().await;
        let third = setup.spawn(op(3));
        for caller in [first, second, third] {
            caller.await.unwrap().unwrap();
        }
        assert_eq!(setup.sent(), [vec![1], vec![2, 3]]);
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
    assert_kept(rule, Mutation::RepeatsKeys);
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
    assert_kept(rule, Mutation::Reorders);
}

#[test]
fn an_operation_that_was_not_applied_goes_again_before_the_queue() {
    paused().block_on(async {
        let limits = Limits {
            in_flight: 1,
            ..QUEUED
        };
        let setup = Setup::new(limits);
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
