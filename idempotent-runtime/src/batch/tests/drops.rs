//! Callers that leave, and runtimes that end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::server::{QUEUED, Setup, TRIP, op, settle};
use super::{HOUR, assert_kept, paused};
use crate::batch::Route;
use crate::mutation::{self, Mutation};
use crate::store::StoreErrorKind;

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
    assert_kept(rule, Mutation::SendsDropped);
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
    assert_kept(rule, Mutation::SendsDropped);
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
    assert_kept(rule, Mutation::SendsDropped);
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
    assert_kept(rule, Mutation::DropsBatchWithCaller);
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
    assert_kept(rule, Mutation::KeepsAbandoned);
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
    mutation::assert_kept(rule, &[Mutation::DeniesSent]);
}

#[test]
fn a_runtime_that_nobody_drives_does_not_hold_up_another() {
    let rule = || {
        loop {
            let setup = Setup::new(QUEUED);
            // The clocks of the two runtimes stop one after the other. To a later clock the first operation is overdue, and holds up
            // nobody: so a slow run says nothing, and is repeated.
            let began = Instant::now();
            let (frozen, driven) = (paused(), paused());
            let is_slow = began.elapsed() > Duration::from_millis(100);
            let mut left = Box::pin(setup.submit(op(1)));
            frozen.block_on(async { assert!((&mut left).now_or_never().is_none()) });
            let is_answered = driven.block_on(async {
                let answer = timeout(HOUR, setup.submit(op(2))).await;
                answer.is_ok_and(|answer| answer.is_ok())
            });
            drop(left);
            if !is_slow {
                return is_answered;
            }
        }
    };
    mutation::assert_kept(rule, &[Mutation::SharesQueues]);
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
    let routes = [setup.batches.route(), setup.batches.route()];
    assert!(
        routes
            .iter()
            .all(|route| matches!(route, Route::Inline(None)))
    );
}
