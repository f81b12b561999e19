//! Batches without an answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::server::{FIRST_TRY, QUEUED, Setup, TRIP, op, settle};
use super::{assert_kept, paused};
use crate::mutation::Mutation;

#[test]
fn batches_without_an_answer_do_not_hold_up_the_others() {
    let rule = || async {
        let setup = Setup::new(QUEUED);
        setup.hang_on(0);
        let hanging = setup.spawn(op(0));
        settle().await;
        for number in 1..100 {
            let began = Instant::now();
            if setup.submit(op(number)).await.is_err() || began.elapsed() > 2 * TRIP {
                return false;
            }
        }
        !hanging.is_finished()
    };
    assert_kept(rule, Mutation::OneBatchAtATime);
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
    assert_kept(rule, Mutation::KeepsAbandoned);
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
    assert_kept(rule, Mutation::CountsOverdue);
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
    assert_kept(rule, Mutation::CountsOverdue);
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
    assert_kept(rule, Mutation::GathersOverdue);
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
