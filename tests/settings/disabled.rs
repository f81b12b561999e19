//! The setting `disabled`: bodies run unguarded, and everybody sees it.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use idempotence::testkit::CountingStore;
use idempotent_runtime::store::Level;
use idempotent_runtime::{Error, Event, Idempotency, MemoryStore, Policy, Settings};
use tokio::sync::Notify;

use crate::{File, call, call_with, listed, secs};
use support::log_capture::LogCapture;

const UNGUARDED: &str = "bodies run unguarded, so equal calls run at the same time and again (calls with a one-time token stay guarded; \
     a call with `fence = true` still draws its number, but gets 0 without an answer of the store, which its resource refuses)";
const UNKNOWN: &str = " (no call has had this name yet: is it misspelled?)";
const FOR_ALL: &str = "[all]\ndisabled = true";

/// A handle with the settings of the file, its store and its events.
struct Shop {
    store: CountingStore<MemoryStore>,
    handle: Idempotency,
    events: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    fn open(file: &File) -> Self {
        let store = CountingStore::new(MemoryStore::new());
        let events = Arc::<Mutex<Vec<String>>>::default();
        let sink = Arc::clone(&events);
        let handle = Idempotency::builder(store.clone())
            .settings(Settings::file(file.path()))
            .observer(move |event: &Event<'_>| {
                sink.lock().unwrap().push(event.kind().to_string());
            });
        let handle = handle.build().unwrap();
        Self {
            store,
            handle,
            events,
        }
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().drain(..).collect()
    }

    /// Makes a call of the builder that replays its result.
    async fn pay(&self, result: u64) -> Result<u64, Error> {
        let call = self.handle.call("orders.pay").key(&1).ttl(secs(60));
        call.replay().run(async { Ok(result) }).await
    }
}

#[tokio::test(start_paused = true)]
async fn every_body_of_a_disabled_endpoint_runs_and_nothing_is_sent() {
    let file = File::new(FOR_ALL);
    let shop = Shop::open(&file);
    for result in 1..=3 {
        assert_eq!(shop.pay(result).await.unwrap(), result);
    }
    assert_eq!(shop.store.counts().total(), 0);
    assert_eq!(shop.events(), ["disabled"; 3]);

    // The negative control: without the setting one of the equal calls runs.
    file.write("");
    shop.handle.reload().await.unwrap();
    for result in 4..=6 {
        assert_eq!(shop.pay(result).await.unwrap(), 4);
    }
    assert_eq!(shop.events(), ["executed", "replayed", "replayed"]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_decides_before_all_and_only_about_itself() {
    let pay = "[endpoints.\"orders.pay\"]\ndisabled =";
    for (text, ends) in [
        (format!("{pay} true"), ["disabled", "executed"]),
        (format!("{FOR_ALL}\n{pay} false"), ["executed", "disabled"]),
        (format!("{pay} false"), ["executed", "executed"]),
    ] {
        let shop = Shop::open(&File::new(&text));
        for endpoint in ["orders.pay", "files.upload"] {
            let policy = Policy::new(secs(60));
            call(&shop.handle, endpoint, policy, 1).await.unwrap();
        }
        assert_eq!(shop.events(), ends, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_its_key_keeps_it_when_a_reload_disables_its_endpoint() {
    let file = File::new("");
    let shop = Shop::open(&file);
    let policy = Policy::new(secs(60)).lease(secs(3));
    let (running, go_on) = (Notify::new(), Notify::new());
    let holder = call_with(&shop.handle, "orders.pay", policy, 1, async {
        running.notify_one();
        go_on.notified().await;
        tokio::time::sleep(secs(30)).await; // longer than the lease, so renewals must continue
    });
    let operator = async {
        running.notified().await;
        file.write(FOR_ALL);
        shop.handle.reload().await.unwrap();
        // An equal call runs beside the holder.
        call(&shop.handle, "orders.pay", policy, 1).await.unwrap();
        assert_eq!(shop.events(), ["disabled"]);
        go_on.notify_one();
    };
    let (held, ()) = tokio::join!(holder, operator);
    held.unwrap();
    assert_eq!(shop.events(), ["executed"]);

    // The holder has recorded its end, so after the switch is removed the call is done.
    file.write("");
    shop.handle.reload().await.unwrap();
    let again = call(&shop.handle, "orders.pay", policy, 1).await;
    assert_eq!(again.unwrap_err().code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn results_from_before_are_replayed_again_after_the_switch_is_removed() {
    let file = File::new("");
    let shop = Shop::open(&file);
    assert_eq!(shop.pay(1).await.unwrap(), 1);
    file.write(FOR_ALL);
    shop.handle.reload().await.unwrap();
    assert_eq!(shop.pay(2).await.unwrap(), 2);
    file.write("");
    shop.handle.reload().await.unwrap();
    assert_eq!(shop.pay(3).await.unwrap(), 1);
    assert_eq!(shop.events(), ["executed", "disabled", "replayed"]);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_call_is_logged_and_the_switch_is_logged_at_the_start_and_at_each_reload() {
    let log = LogCapture::start();
    let file = File::new(FOR_ALL);
    let shop = Shop::open(&file);
    let for_all = format!(
        "{}: `disabled = true` for every endpoint: {UNGUARDED}",
        file.at(2)
    );
    assert_eq!(log.warnings(), std::slice::from_ref(&for_all));
    shop.pay(1).await.unwrap();
    let call = "the body ran unguarded, because the setting `disabled` is true";
    assert_eq!(log.warnings()[1..], [call]);

    file.write("[endpoints.\"POST /orders\"]\ndisabled = true\n[all]\ndisabled = false");
    shop.handle.reload().await.unwrap();
    let route = format!(
        "{}: `disabled = true` for `POST /orders`{UNKNOWN}: {UNGUARDED}",
        file.at(2)
    );
    assert_eq!(log.warnings()[2], route);
}

#[tokio::test(start_paused = true)]
async fn the_doctor_reports_the_switch_until_it_is_removed() {
    let file = File::new("[endpoints.\"orders.pay\"]\ndisabled = true");
    let shop = Shop::open(&file);
    let problems = async || {
        let diagnosis = shop.handle.doctor().await;
        let problems = diagnosis.findings().iter();
        let problems = problems.filter(|finding| finding.level() == Level::Problem);
        problems
            .map(|finding| finding.found().to_owned())
            .collect::<Vec<_>>()
    };
    let pay = |unknown| {
        let origin = file.at(2);
        format!("{origin}: `disabled = true` for `orders.pay`{unknown}: {UNGUARDED}")
    };
    let found = problems().await;
    assert!(found.contains(&pay(UNKNOWN)), "{found:?}");
    shop.pay(1).await.unwrap();
    let found = problems().await;
    assert!(found.contains(&pay("")), "{found:?}");
    file.write("[endpoints.\"orders.pay\"]\ndisabled = false");
    shop.handle.reload().await.unwrap();
    let problems = problems().await;
    assert!(
        !problems.iter().any(|found| found.contains("disabled")),
        "{problems:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_list_of_endpoints_names_the_switch_first() {
    let file = File::new(FOR_ALL);
    let shop = Shop::open(&file);
    shop.pay(1).await.unwrap();
    let line = listed(&shop.handle, "orders.pay").unwrap();
    let begin = format!(
        "orders.pay: disabled = true ({}), ttl = 1m (attribute), ",
        file.at(2)
    );
    assert!(line.starts_with(&begin), "{line}");
    let endpoints = shop.handle.endpoints();
    let disabled = endpoints.iter().find_map(|info| info.disabled()).unwrap();
    assert!(disabled.value());
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_token_stays_guarded() {
    let file = File::new(FOR_ALL);
    let shop = Shop::open(&file);
    let submit = |token: String| {
        let call = shop.handle.call("orders.submit").ttl(secs(60));
        let call = call.token(&token, &7, "orders.submit");
        call.run(async { Ok::<_, Error>(()) })
    };
    let tokens = shop.handle.tokens();
    let token = tokens.issue(&7, "orders.submit", secs(60)).await;
    let token = token.unwrap().to_string();
    submit(token.clone()).await.unwrap();
    let again = submit(token.clone()).await.unwrap_err();
    assert_eq!(again.code(), "already_done");
    assert_eq!(
        shop.events(),
        ["token_issued", "token_redeemed", "executed", "done"]
    );

    // Named for this endpoint, the setting is a mistake.
    file.write("[endpoints.\"orders.submit\"]\ndisabled = true");
    let refused = shop.handle.reload().await.unwrap_err();
    let why = "a call with a one-time token is always guarded, because an unguarded body would run without a token";
    let what = "`disabled` does not fit the endpoint `orders.submit`";
    assert_eq!(
        refused.to_string(),
        format!("{}: {what}: {why}", file.at(2))
    );
    submit(token).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_wrong_in_themselves_are_refused_as_always() {
    let shop = Shop::open(&File::new(FOR_ALL));
    let policy = Policy::new(secs(0));
    let refused = call(&shop.handle, "orders.pay", policy, 1).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_policy");
    assert_eq!(shop.events(), ["invalid"]);
}

#[test]
fn other_values_are_mistakes() {
    for (value, problem) in [
        ("\"true\"", " must be `true` or `false`, without quotes"),
        ("1", " must be `true` or `false`, without quotes"),
    ] {
        let file = File::new(&format!("[all]\ndisabled = {value}"));
        let error = file.handle().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{}:1: `disabled` in `[all]`{problem}", file.at(2))
        );
    }
    // Only the switch is a boolean.
    let file = File::new("[all]\nwait = true");
    assert!(file.handle().is_err());
    let file = File::new("[all]\ndisabled = true\n[endpoints.a]\ndisabled = false");
    let handle = file.handle().unwrap();
    assert!(handle.reload().now_or_never().is_some());
}
