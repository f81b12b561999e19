//! Calls follow the settings.

use idempotent_runtime::private::Release;
use idempotent_runtime::{MemoryStore, Policy};
use tokio::time::{Instant, advance};

use crate::{File, call, call_with, listed, secs, taken_for};
use support::log_capture::LogCapture;

#[tokio::test(start_paused = true)]
async fn a_call_keeps_its_key_for_the_ttl_of_the_file() {
    let file = File::new("[endpoints.\"orders.pay\"]\nttl = \"10m\"");
    let store = MemoryStore::new();
    let handle = file.handle_on(store.clone()).unwrap();
    let policy = Policy::new(secs(30));
    call(&handle, "orders.pay", policy, 1).await.unwrap();
    call(&handle, "files.upload", policy, 1).await.unwrap();
    assert_eq!(taken_for(&store, "orders.pay", 1).await, secs(600));
    assert_eq!(taken_for(&store, "files.upload", 1).await, secs(30));

    advance(secs(599)).await;
    let again = call(&handle, "orders.pay", policy, 1).await.unwrap_err();
    assert_eq!(again.code(), "already_done");
    advance(secs(1)).await;
    call(&handle, "orders.pay", policy, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_has_the_lease_of_the_file() {
    let file = File::new("[all]\nlease = \"4s\"");
    let store = MemoryStore::new();
    let handle = file.handle_on(store.clone()).unwrap();
    let policy = Policy::new(secs(600));
    let body = async {
        let grace = std::time::Duration::from_millis(400);
        assert_eq!(taken_for(&store, "orders.pay", 1).await, secs(4) + grace);
    };
    call_with(&handle, "orders.pay", policy, 1, body)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_zero_switches_waiting_off() {
    let file = File::new("[endpoints.\"orders.pay\"]\nwait = \"0s\"");
    let handle = file.handle().unwrap();
    let policy = Policy::new(secs(600)).wait(secs(5));
    let duplicate = async |endpoint| {
        let began = Instant::now();
        let body = async {
            let ended = call(&handle, endpoint, policy, 1).await;
            assert_eq!(ended.unwrap_err().code(), "in_progress");
        };
        call_with(&handle, endpoint, policy, 1, body).await.unwrap();
        began.elapsed()
    };
    assert_eq!(duplicate("orders.pay").await, secs(0));
    assert_eq!(duplicate("files.upload").await, secs(5));
    let line = listed(&handle, "orders.pay").unwrap();
    assert!(
        line.contains(&format!("wait = 0s ({})", file.at(2))),
        "{line}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_setting_that_does_not_fit_a_new_endpoint_is_ignored_and_reported_once() {
    let file = File::new("[endpoints.\"orders.pay\"]\nttl = \"10m\"\nlease = \"5s\"");
    let store = MemoryStore::new();
    let handle = file.handle_on(store.clone()).unwrap();
    let log = LogCapture::start();
    for id in 0..3 {
        // As if the attribute had an expression for its ttl.
        let policy = Policy::new(secs(30 + id)).release(Release::Never);
        call(&handle, "orders.pay", policy, id).await.unwrap();
    }
    assert_eq!(taken_for(&store, "orders.pay", 0).await, secs(605));

    let why = "`lease` needs `release = \"on_error\"`: with other values the lease is the `ttl`";
    let line = format!(
        "{}: `lease` does not fit the endpoint `orders.pay`: {why}",
        file.at(3)
    );
    assert_eq!(log.events(), [format!("ERROR {line}; it is ignored")]);
    assert_eq!(handle.settings_problems(), std::slice::from_ref(&line));
    assert_eq!(handle.reload().await.unwrap_err().to_string(), line);
    assert_eq!(
        listed(&handle, "orders.pay").unwrap(),
        format!(
            "orders.pay: ttl = 10m ({}), lease = 10m (default), on_store_error = refuse (default); \
             ignored: lease = 5s ({}), because {why}",
            file.at(2),
            file.at(3)
        )
    );
}

#[tokio::test(start_paused = true)]
async fn with_run_in_the_file_bodies_continue_unless_their_attribute_has_stop() {
    use idempotence::testkit::{Fault, FaultyStore};
    use idempotent_runtime::{OnLeaseLost, OnStoreError, StoreErrorKind};
    use tokio::time::sleep;

    let policy = Policy::new(secs(600)).lease(secs(10));
    let attribute_runs = policy.on_store_error(OnStoreError::Run);
    for (set, attribute, end) in [
        ("run", policy, "done"),
        ("run", policy.on_lease_lost(OnLeaseLost::Stop), "lease_lost"),
        ("refuse", attribute_runs, "lease_lost"),
        ("run", policy.on_store_error(OnStoreError::Refuse), "done"),
    ] {
        let file = File::new(&format!("[all]\non_store_error = \"{set}\""));
        let store = FaultyStore::new(MemoryStore::new());
        let handle = file.handle_on(store.clone()).unwrap();
        let body = async {
            store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
            sleep(secs(60)).await;
            store.heal();
        };
        let ended = call_with(&handle, "orders.pay", attribute, 1, body).await;
        let ended = ended.map_or_else(|error| error.code(), |()| "done");
        assert_eq!(ended, end, "{set}, {attribute:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expression_in_an_attribute_gives_each_call_its_own_value() {
    let file = File::new("[all]\nwait = \"1s\"");
    let store = MemoryStore::new();
    let handle = file.handle_on(store.clone()).unwrap();
    for ttl in [10, 20, 10] {
        let policy = Policy::new(secs(ttl));
        call(&handle, "orders.pay", policy, ttl).await.ok();
        assert_eq!(taken_for(&store, "orders.pay", ttl).await, secs(ttl));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_settles_as_the_file_says() {
    use idempotence::testkit::{Fault, FaultyStore, Op};
    use idempotent_runtime::Settle;

    let delay = secs(1) / 10;
    for (set, attribute, lasts) in [
        ("background", Settle::Await, secs(0)),
        ("await", Settle::Background, delay),
    ] {
        let file = File::new(&format!("[all]\nsettle = \"{set}\""));
        let store = FaultyStore::new(MemoryStore::new());
        let handle = file.handle_on(store.clone()).unwrap();
        store.next(Op::Replace, Fault::Delay(delay));
        let began = Instant::now();
        let policy = Policy::new(secs(600)).settle(attribute);
        call(&handle, "orders.pay", policy, 1).await.unwrap();
        assert_eq!(began.elapsed(), lasts);
        let line = listed(&handle, "orders.pay").unwrap();
        let shown = format!("settle = {set} ({})", file.at(2));
        assert!(line.contains(&shown), "{line}");
    }
}
