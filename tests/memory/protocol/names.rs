//! Endpoints with names that are made at run time.

use idempotent_runtime::{Error, Idempotency, MemoryStore, Release};

use crate::protocol::guarded::secs;
use support::log_capture::LogCapture;

async fn call(idempotency: &Idempotency, endpoint: String) {
    let call = idempotency.call(endpoint).key(&()).ttl(secs(60));
    let call = call.release(Release::Always);
    call.run(async { Ok::<_, Error>(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_names_made_at_run_time_keep_the_latest_and_warn_once() {
    let log = LogCapture::start();
    let idempotency = Idempotency::new(MemoryStore::new());
    let named = || idempotency.call("orders.pay").key(&()).ttl(secs(60));
    named().run(async { Ok::<_, Error>(()) }).await.unwrap();
    for number in 0..30_000 {
        call(&idempotency, format!("data.{number}")).await;
    }
    let endpoints = idempotency.endpoints();
    let count = endpoints.len() as u64;
    assert!(count <= 10_001, "{count}");
    assert_eq!(count + endpoints.forgotten(), 30_001);
    for name in ["orders.pay", "data.29999", "data.25001"] {
        assert!(endpoints.iter().any(|info| info.name() == name), "{name}");
    }
    let text = endpoints.to_string();
    let last = format!(
        "… and {} more with names made at run time, which are not kept",
        endpoints.forgotten()
    );
    assert_eq!(text.lines().last(), Some(&*last));
    let warnings = log.events();
    let warnings: Vec<_> = warnings
        .iter()
        .filter(|event| event.starts_with("WARN"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("put what varies into the key"),
        "{warnings:?}"
    );
}
