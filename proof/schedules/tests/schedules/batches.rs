//! Threads that queue operations while tasks end, under schedules of `shuttle`.

use idempotent_runtime::batch_schedules as schedules;

#[test]
fn every_operation_is_answered_once_while_tasks_end() {
    schedules::every_operation_is_answered_once_while_tasks_end();
}

#[test]
fn an_operation_that_is_dropped_holds_up_no_other() {
    schedules::an_operation_that_is_dropped_holds_up_no_other();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_task_that_ends_before_a_late_operation_is_found() {
    schedules::a_task_that_ends_before_a_late_operation_is_found();
}

#[test]
#[should_panic(expected = "the answer of another")]
fn answers_of_others_are_found() {
    schedules::answers_of_others_are_found();
}
