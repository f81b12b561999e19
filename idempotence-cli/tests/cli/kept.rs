//! A key that its call keeps after its end.

use std::time::Duration;

use idempotence::{Error, Release};

use crate::stuck::{IS_FREE, is_refused, release};
use crate::support::{LEASE, Program, redis, run, sqlite};

#[test]
fn a_key_that_at_least_keeps_is_not_late() {
    for url in [redis(), sqlite()] {
        let program = Program::on(&url);
        let call = program.idempotency.call("reports.send").key(&7);
        let call = call
            .ttl(Duration::from_hours(20 * 24))
            .release(Release::Always);
        let call = call.at_least(Duration::from_hours(2 * 24));
        program
            .block_on(call.run(async { Ok::<_, Error>(()) }))
            .unwrap();
        let listed = run(&url, &["ls", "--json"]).json();
        assert_eq!(listed["records"][0]["state"], "taken", "{listed}");
        let late = run(&url, &["ls", "--state", "late"]);
        assert!(!late.err.contains("was killed"), "{}", late.err);
        let shown = run(&url, &["show", "reports.send", "--key", "7"]).ok();
        assert!(
            shown.contains("or `at_least` the call may have ended"),
            "{shown}"
        );
        let args = ["release", "reports.send", "--key", "7", "--yes"];
        let refused = run(&url, &args);
        assert_eq!(refused.code, 4, "{}{}", refused.out, refused.err);
        assert!(refused.err.contains("known in 1day 23h"), "{}", refused.err);
    }
}

#[test]
fn a_key_that_its_call_keeps_is_released_after_two_looks() {
    let is_released = |leases| {
        let url = redis();
        let program = Program::on(&url);
        let call = program.idempotency.call("orders.pay").key(&7);
        let call = call.ttl(leases * LEASE).release(Release::Never);
        program
            .block_on(call.run(async { Ok::<_, Error>(()) }))
            .unwrap();
        let shown = run(&url, &["show", "orders.pay", "--key", "7"]);
        if shown.code == IS_FREE {
            return false;
        }
        let shown = shown.ok();
        assert!(shown.contains("may have ended"), "{shown}");
        assert!(!shown.contains("running"), "{shown}");
        release(&url)
    };
    assert!(
        [2, 8, 32, 96].into_iter().any(is_released),
        "the key became free before the second look"
    );
}

#[test]
fn a_call_that_keeps_its_key_and_runs_is_not_released() {
    let is_kept = |leases| {
        let url = redis();
        let program = Program::on(&url);
        let call = program.idempotency.call("orders.pay").key(&7);
        let call = call.ttl(leases * LEASE);
        program.begin_call(call.release(Release::Never));
        is_refused(&url, "the call is running")
    };
    assert!(
        [4, 16, 64].into_iter().any(is_kept),
        "the key became free while its call ran"
    );
}
