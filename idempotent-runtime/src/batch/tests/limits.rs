//! The limits of a batch, of the queue, and of what is in flight.

use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::server::{Op, QUEUED, SIZES, Setup, TRIP, op, settle};
use super::{assert_kept, paused};
use crate::batch::Limits;
use crate::mutation::Mutation;
use crate::store::{StoreError, StoreErrorKind};

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
    assert_kept(rule, Mutation::IgnoresBytesInFlight);
    assert_kept(rule, Mutation::CountsLarge);
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
    assert_kept(rule, Mutation::SendsAllAtOnce);
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
    assert_kept(rule, Mutation::LooksAtAllAgain);
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
    assert_kept(rule, Mutation::Unbounded);
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
