//! Settings that are reloaded.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures_util::FutureExt as _;
use idempotent_runtime::{Idempotency, MemoryStore, Policy};

use crate::{File, call, listed, secs, taken_for};

#[tokio::test(start_paused = true)]
async fn calls_after_a_reload_follow_the_new_file() {
    let file = File::new("[endpoints.\"orders.pay\"]\nttl = \"10m\"");
    let store = MemoryStore::new();
    let handle = file.handle_on(store.clone()).unwrap();
    let policy = Policy::new(secs(30));
    call(&handle, "orders.pay", policy, 1).await.unwrap();

    file.write("[all]\nttl = \"20m\"");
    call(&handle, "orders.pay", policy, 2).await.unwrap();
    handle.reload().await.unwrap();
    call(&handle, "orders.pay", policy, 3).await.unwrap();
    call(&handle, "files.upload", policy, 3).await.unwrap();
    assert_eq!(taken_for(&store, "orders.pay", 2).await, secs(600));
    assert_eq!(taken_for(&store, "orders.pay", 3).await, secs(1200));
    assert_eq!(taken_for(&store, "files.upload", 3).await, secs(1200));

    file.write("");
    handle.reload().await.unwrap();
    call(&handle, "orders.pay", policy, 4).await.unwrap();
    assert_eq!(taken_for(&store, "orders.pay", 4).await, secs(30));
}

/// A thread remembers what it has looked up. It must not give one handle the settings of another, or old settings after a reload.
#[tokio::test(start_paused = true)]
async fn each_handle_follows_its_own_settings_on_every_thread() {
    let files = ["10m", "20m"].map(|ttl| File::new(&format!("[all]\nttl = \"{ttl}\"")));
    let stores = [MemoryStore::new(), MemoryStore::new()];
    let handles = [0, 1].map(|index| files[index].handle_on(stores[index].clone()).unwrap());
    let expect = async |id, policy, seconds: [u64; 2]| {
        for (index, handle) in handles.iter().enumerate() {
            call(handle, "orders.pay", policy, id).await.unwrap();
            let taken = taken_for(&stores[index], "orders.pay", id).await;
            assert_eq!(taken, secs(seconds[index]), "call {id} on handle {index}");
        }
    };
    let policy = Policy::new(secs(30));
    expect(1, policy, [600, 1200]).await;
    expect(2, policy, [600, 1200]).await;

    files[1].write("");
    thread::scope(|scope| {
        let reload = || handles[1].reload().now_or_never();
        scope.spawn(reload).join().unwrap().unwrap().unwrap();
    });
    expect(3, policy, [600, 30]).await;
    // Another function with the same name, or an expression in the attribute.
    expect(4, Policy::new(secs(40)), [600, 40]).await;
    expect(5, policy, [600, 30]).await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_with_mistakes_reports_them_and_changes_nothing() {
    let file = File::new("[endpoints.\"orders.pay\"]\nttl = \"10m\"");
    let store = MemoryStore::new();
    let handle = file.handle_on(store.clone()).unwrap();
    file.write("[endpoints.\"orders.pay\"]\nttl = \"20m\"\nlease = \"20\"\nwiat = \"1s\"");
    assert_eq!(
        handle.reload().await.unwrap_err().to_string(),
        format!(
            "{}:1: `lease` of `orders.pay`: a duration needs a unit: write `20s`; \
             {}:1: unknown setting `wiat`: did you mean `wait`?",
            file.at(3),
            file.at(4)
        )
    );
    std::fs::remove_file(file.path()).unwrap();
    handle.reload().await.unwrap_err();

    call(&handle, "orders.pay", Policy::new(secs(30)), 1)
        .await
        .unwrap();
    assert_eq!(taken_for(&store, "orders.pay", 1).await, secs(600));
}

#[tokio::test]
async fn a_handle_without_settings_has_nothing_to_reload() {
    let handle = Idempotency::new(MemoryStore::new());
    assert!(handle.reload().await.is_err());
}

#[test]
fn during_a_reload_all_settings_come_from_one_file() {
    let text = |time: &str| {
        format!("[all]\nwait = \"{time}\"\n[endpoints.\"reload.race\"]\nttl = \"{time}\"")
    };
    let file = File::new(&text("1m"));
    let handle = file.handle().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    let policy = Policy::new(secs(30));
    runtime
        .block_on(call(&handle, "reload.race", policy, 1))
        .unwrap();

    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for time in ["2m", "1m"].into_iter().cycle() {
                file.write(&text(time));
                let reloaded = handle.reload().now_or_never();
                reloaded.expect("no runtime, so it reads in place").unwrap();
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let mut seen = BTreeSet::new();
        for round in 0.. {
            let line = listed(&handle, "reload.race").unwrap();
            let times = ["1m", "2m"].map(|time| line.matches(&format!("= {time} ")).count());
            seen.insert(times);
            if seen.len() > 1 && round > 1000 {
                break;
            }
        }
        stopped.store(true, Ordering::Relaxed);
        assert_eq!(seen, [[0, 2], [2, 0]].into());
    });
}
