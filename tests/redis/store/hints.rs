//! Notifications of changes, and their cost for the server.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{Cmd, cmd};
use idempotent_runtime::Store;
use idempotent_runtime::store::Swap;
use support::log_capture::LogCapture;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::store::servers::{
    DONE, MAX_WAIT, TTL, VALUE, becomes, by_script, connection_to, key, listening_to, next,
    removes_natively, send, shared, subscribed, url_of_user,
};

async fn notified(listener: &mut watch::Receiver<()>) {
    let changed = timeout(MAX_WAIT, listener.changed()).await;
    changed.expect("a notification must arrive").unwrap();
}

async fn ended(listener: &mut watch::Receiver<()>) {
    let closed = async { while listener.changed().await.is_ok() {} };
    timeout(MAX_WAIT, closed)
        .await
        .expect("the subscription must end");
}

/// Subscribes at once, and again until all subscriptions hold: one that comes too late on a busy machine ends all others.
async fn subscribed_at_once<F, I>(subscribe: impl Fn() -> I) -> Vec<watch::Receiver<()>>
where
    F: Future<Output = Option<watch::Receiver<()>>>,
    I: Iterator<Item = F>,
{
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let listeners = join_all(subscribe()).await.into_iter().flatten();
        let listeners = listeners.filter(|listener| listener.has_changed().is_ok());
        let listeners: Vec<_> = listeners.collect();
        if listeners.len() == subscribe().count() {
            return listeners;
        }
        assert!(Instant::now() < deadline, "{} hold", listeners.len());
    }
}

fn channels() -> Cmd {
    cmd("PUBSUB").arg("CHANNELS").clone()
}

fn listening_connections() -> Cmd {
    cmd("CLIENT").arg(&["LIST", "TYPE", "pubsub"]).clone()
}

#[tokio::test]
async fn another_store_is_notified_within_a_second() {
    let (waiting, settling, key) = (shared().await, shared().await, key());
    let mut listener = subscribed(&waiting, &key).await;
    let mut latencies = Vec::new();
    for _ in 0..50 {
        settling.claim(&key, &VALUE, TTL).await.unwrap();
        let begun = Instant::now();
        let swap = settling.replace_and_notify(&key, &VALUE, &DONE, TTL).await;
        assert_eq!(swap.unwrap(), Swap::Done);
        notified(&mut listener).await;
        latencies.push(begun.elapsed());
        let begun = Instant::now();
        let swap = settling.remove_and_notify(&key, &DONE).await;
        assert_eq!(swap.unwrap(), Swap::Done);
        notified(&mut listener).await;
        latencies.push(begun.elapsed());
    }
    latencies.sort();
    let median = latencies[latencies.len() / 2];
    let (least, most) = (latencies[0], latencies[latencies.len() - 1]);
    eprintln!("from the settle to the hint: {least:?} to {most:?}, median {median:?}");
    assert!(median < Duration::from_secs(1), "{median:?}");
}

#[tokio::test]
async fn notifications_work_with_both_protocols() {
    let server = RedisServer::shared().unwrap();
    let settling = shared().await;
    for version in [2, 3] {
        let (url, key) = (format!("{}?protocol={version}", server.url()), key());
        let waiting = RedisStore::connect(&url).await.unwrap();
        let mut listener = subscribed(&waiting, &key).await;
        settling.claim(&key, &VALUE, TTL).await.unwrap();
        settling.remove_and_notify(&key, &VALUE).await.unwrap();
        notified(&mut listener).await;
    }
}

#[tokio::test]
async fn only_a_successful_change_is_published() {
    let (store, key) = (shared().await, key());
    let server = RedisServer::shared().unwrap();
    let silent = RedisStore::from_connection(connection_to(server).await)
        .await
        .unwrap();
    assert!(silent.subscribe(&key).await.is_none());
    let mut listener = subscribed(&store, &key).await;

    store.claim(&key, &VALUE, TTL).await.unwrap();
    store.replace(&key, &VALUE, &DONE, TTL).await.unwrap();
    store.remove(&key, &DONE).await.unwrap();
    store.claim(&key, &VALUE, TTL).await.unwrap();
    let renewal = store.replace_and_notify(&key, &VALUE, &VALUE, TTL).await;
    assert_eq!(renewal.unwrap(), Swap::Done);
    let refused = store.replace_and_notify(&key, &DONE, &DONE, TTL).await;
    assert_eq!(refused.unwrap(), Swap::Other(VALUE));
    // The server's own removal command always publishes, so its notification may be spurious.
    let keeps_back = !removes_natively(&store);
    if keeps_back {
        let refused = store.remove_and_notify(&key, &DONE).await;
        assert_eq!(refused.unwrap(), Swap::Other(VALUE));
    }
    let done = silent.replace_and_notify(&key, &VALUE, &DONE, TTL).await;
    assert_eq!(done.unwrap(), Swap::Done);
    let done = silent.remove_and_notify(&key, &DONE).await;
    assert_eq!(done.unwrap(), Swap::Done);
    if keeps_back {
        let absent = store.remove_and_notify(&key, &DONE).await;
        assert_eq!(absent.unwrap(), Swap::Absent);
    }

    // Notifications arrive in the order of publication: a separate key marks the end.
    let mark = format!("{key}:mark");
    let mut marked = subscribed(&store, &mark).await;
    store.claim(&mark, &VALUE, TTL).await.unwrap();
    store.remove_and_notify(&mark, &VALUE).await.unwrap();
    notified(&mut marked).await;
    assert!(!listener.has_changed().unwrap());

    store.claim(&key, &VALUE, TTL).await.unwrap();
    store.remove_and_notify(&key, &VALUE).await.unwrap();
    notified(&mut listener).await;
}

#[tokio::test]
async fn receivers_of_one_key_share_a_subscription_until_the_last_is_dropped() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let clone = store.clone();
    let mut listeners = subscribed_at_once(|| {
        let stores = [&store, &clone].into_iter().cycle().take(20);
        stores.map(|store| store.subscribe("key"))
    })
    .await;
    becomes(&server, &listening_to("key"), ("key".to_owned(), 1)).await;
    let mut connection = connection_to(&server).await;
    let list: String = listening_connections()
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");

    store.claim("key", &VALUE, TTL).await.unwrap();
    store
        .replace_and_notify("key", &VALUE, &DONE, TTL)
        .await
        .unwrap();
    for listener in &mut listeners {
        notified(listener).await;
    }
    listeners.truncate(1);
    store.remove_and_notify("key", &DONE).await.unwrap();
    notified(&mut listeners[0]).await;
    listeners.clear();
    becomes(&server, &channels(), Vec::<String>::new()).await;

    let mut back = subscribed(&store, "key").await;
    store.claim("key", &VALUE, TTL).await.unwrap();
    store.remove_and_notify("key", &VALUE).await.unwrap();
    notified(&mut back).await;
}

#[tokio::test]
async fn a_thousand_keys_leave_no_subscription_behind() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let keys: Vec<_> = (0..1000).map(|number| format!("key:{number}")).collect();
    let names = || keys.iter().map(String::as_str).chain(["stays"]);
    let mut listeners = subscribed_at_once(|| names().map(|key| store.subscribe(key))).await;
    let mut connection = connection_to(&server).await;
    let all: Vec<String> = channels().query_async(&mut connection).await.unwrap();
    assert_eq!(all.len(), 1001);
    let mut stays = listeners.pop().unwrap();
    drop(listeners);
    becomes(&server, &channels(), vec!["stays".to_owned()]).await;
    // One subscription after the other. Some are dropped before their confirmation.
    for key in &keys {
        drop(subscribed(&store, key).await);
        if stays.has_changed().is_err() {
            stays = subscribed(&store, "stays").await;
        }
        let _ = timeout(Duration::ZERO, store.subscribe(&format!("{key}:dropped"))).await;
    }
    becomes(&server, &channels(), vec!["stays".to_owned()]).await;
    assert!(!stays.has_changed().unwrap());
}

#[tokio::test]
async fn subscriptions_end_with_the_store() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let mut listener = subscribed(&store, "key").await;
    let clone = store.clone();
    drop(store);
    clone.claim("key", &VALUE, TTL).await.unwrap();
    clone.remove_and_notify("key", &VALUE).await.unwrap();
    notified(&mut listener).await;
    drop(clone);
    ended(&mut listener).await;
    becomes(&server, &listening_connections(), String::new()).await;
}

#[tokio::test]
async fn subscriptions_end_with_the_connection_and_can_start_again() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let mut listener = subscribed(&store, "key").await;
    server.kill().unwrap();
    ended(&mut listener).await;
    assert!(store.subscribe("key").await.is_none());
    server.restart().unwrap();
    let mut listener = subscribed(&store, "key").await;
    let settling = RedisStore::connect(&server.url()).await.unwrap();
    settling.claim("key", &VALUE, TTL).await.unwrap();
    settling.remove_and_notify("key", &VALUE).await.unwrap();
    notified(&mut listener).await;

    let kill = cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).clone();
    send(&server, &kill).await;
    ended(&mut listener).await;
    subscribed(&store, "key").await;
}

#[tokio::test]
async fn an_outage_and_a_missing_permission_have_their_own_warnings() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let log = LogCapture::start();
    server.kill().unwrap();
    for _ in 0..3 {
        assert!(store.subscribe("key").await.is_none());
    }
    let outage = log.at("WARN");
    assert_eq!(outage.len(), 1, "{outage:?}");
    assert!(outage[0].starts_with("idempotence: "), "{outage:?}");
    assert!(outage[0].contains("is the server running?"), "{outage:?}");
    assert!(!outage[0].contains("+subscribe"), "{outage:?}");

    server.restart().unwrap();
    let forbid = ["SETUSER", "default", "resetchannels"];
    send(&server, cmd("ACL").arg(&forbid)).await;
    for _ in 0..3 {
        assert!(store.subscribe("key").await.is_none());
    }
    let both = log.at("WARN");
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[1].starts_with("idempotence: "), "{both:?}");
    assert!(both[1].contains("allow `+subscribe"), "{both:?}");
}

#[tokio::test]
async fn subscribing_to_a_silent_server_fails_within_seconds() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let mut listener = subscribed(&store, "key").await;
    server.pause().unwrap();
    // First on the existing connection, then on a new one.
    for _ in 0..2 {
        let begun = Instant::now();
        assert!(store.subscribe("other").await.is_none());
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
    }
    // Notifications may have been missed.
    ended(&mut listener).await;
    server.resume().unwrap();
    subscribed(&store, "key").await;
}

#[test]
fn subscribing_works_after_the_first_runtime_ended() {
    let server = RedisServer::shared().unwrap();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let first = runtime();
    let (store, mut orphan) = first.block_on(async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let orphan = subscribed(&store, "orphan").await;
        (store, orphan)
    });
    drop(first);
    let key = key();
    let subscribes_again = async || {
        let mut listener = subscribed(&store, &key).await;
        let settling = shared().await;
        settling.claim(&key, &VALUE, TTL).await.unwrap();
        settling.remove_and_notify(&key, &VALUE).await.unwrap();
        notified(&mut listener).await;
    };
    let second = runtime();
    second.block_on(async {
        ended(&mut orphan).await;
        subscribes_again().await;
    });
    // The second runtime still exists, but runs no task.
    runtime().block_on(async {
        assert!(store.subscribe(&key).await.is_none());
        subscribes_again().await;
    });
    drop(second);
}

#[tokio::test]
async fn a_forbidden_publish_changes_no_answer() {
    let server = RedisServer::start().unwrap();
    let listening = RedisStore::connect(&server.url()).await.unwrap();
    for rules in [
        ["~*", "+@all", "-publish", "&*"],
        ["~*", "+@all", "resetchannels", "&elsewhere:*"],
    ] {
        let mut listener = subscribed(&listening, "key").await;
        let mut set = cmd("ACL");
        set.arg(&["SETUSER", "mute", "reset", "on", ">s3cret"]);
        send(&server, set.arg(&rules)).await;
        let store = RedisStore::connect(&url_of_user(&server, "mute"))
            .await
            .unwrap();
        // First by source, because the server does not have the scripts, then by hash.
        send(&server, cmd("SCRIPT").arg("FLUSH")).await;
        for _ in 0..2 {
            store.claim("key", &VALUE, TTL).await.unwrap();
            let swap = store.replace_and_notify("key", &VALUE, &DONE, TTL).await;
            assert_eq!(swap.unwrap(), Swap::Done, "{rules:?}");
            assert_eq!(store.get("key").await.unwrap().unwrap().value, DONE);
            let swap = store.remove_and_notify("key", &DONE).await;
            assert_eq!(swap.unwrap(), Swap::Done, "{rules:?}");
            assert_eq!(store.get("key").await.unwrap(), None);
        }
        listening.claim("key", &VALUE, TTL).await.unwrap();
        assert!(!listener.has_changed().unwrap());
        listening.remove_and_notify("key", &VALUE).await.unwrap();
        notified(&mut listener).await;
    }
}

#[tokio::test]
async fn an_unknown_publish_changes_no_answer() {
    let server = RedisServer::start_with(["--rename-command", "PUBLISH", ""]).unwrap();
    let store = by_script(&server).await;
    for _ in 0..2 {
        store.claim("key", &VALUE, TTL).await.unwrap();
        let swap = store.replace_and_notify("key", &VALUE, &DONE, TTL).await;
        assert_eq!(swap.unwrap(), Swap::Done);
        let swap = store.remove_and_notify("key", &DONE).await;
        assert_eq!(swap.unwrap(), Swap::Done);
    }
}

#[tokio::test]
async fn a_forbidden_channel_does_not_affect_other_channels() {
    let server = RedisServer::shared().unwrap();
    let user = format!("listener{}", next());
    let rules = ["on", ">s3cret", "~*", "+@all", "resetchannels", "&mine:*"];
    send(server, cmd("ACL").arg("SETUSER").arg(&user).arg(&rules)).await;
    let store = RedisStore::connect(&url_of_user(server, &user))
        .await
        .unwrap();
    let (mine, theirs) = (format!("mine:{}", key()), key());
    let together = [&*theirs, &mine, &theirs].map(|key| store.subscribe(key));
    let [forbidden, mut allowed, again] = join_all(together).await.try_into().unwrap();
    assert!(forbidden.is_none() && again.is_none());
    assert!(store.subscribe(&theirs).await.is_none());
    store.claim(&mine, &VALUE, TTL).await.unwrap();
    store.remove_and_notify(&mine, &VALUE).await.unwrap();
    notified(allowed.as_mut().unwrap()).await;
}

#[tokio::test]
async fn the_documented_permissions_are_enough_for_hints() {
    let server = RedisServer::shared().unwrap();
    let user = format!("least{}", next());
    let rules = "on >s3cret ~least:* +set +get +pttl +pexpire +del +evalsha +eval +info \
         resetchannels +publish +subscribe +unsubscribe &least:*";
    let rules: Vec<_> = rules.split(' ').collect();
    send(server, cmd("ACL").arg("SETUSER").arg(&user).arg(&rules)).await;
    let store = RedisStore::connect(&url_of_user(server, &user))
        .await
        .unwrap();
    let key = format!("least:{}", key());
    let mut listener = subscribed(&store, &key).await;
    store.claim(&key, &VALUE, TTL).await.unwrap();
    store
        .replace_and_notify(&key, &VALUE, &DONE, TTL)
        .await
        .unwrap();
    notified(&mut listener).await;
    store.remove_and_notify(&key, &DONE).await.unwrap();
    notified(&mut listener).await;
    drop(listener);
    becomes(server, &listening_to(&key), (key.clone(), 0)).await;
    subscribed(&store, &key).await;
}
