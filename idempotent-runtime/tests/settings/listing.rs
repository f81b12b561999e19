//! What an operator sees of the endpoints.

use idempotent_runtime::private::{Policy, Release, register};
use idempotent_runtime::{Idempotency, MemoryStore, Origin, endpoints};

use crate::heard::Heard;
use crate::{File, call, listed, secs};

/// As the attribute writes it into the body of a function, generic or not.
#[allow(dead_code, clippy::unused_async)]
async fn literal<T: Send>(_: T) {
    register! {
        "listing.literal",
        ::core::option::Option::Some(|| Policy::new(secs(30)).release(Release::Always))
    }
    register! {
        "listing.tx",
        ::core::option::Option::Some(|| Policy::new(secs(30)).tx()),
        tx = true
    }
    register! { "using.pay", ::core::option::Option::Some(|| Policy::new(secs(30))) }
}

struct Service;

impl Service {
    #[allow(dead_code, clippy::unused_self)]
    fn with_an_expression(&self) {
        register! { "listing.expression", ::core::option::Option::None }
    }
}

#[test]
fn a_function_with_a_name_is_listed_before_its_first_call_and_without_a_handle() {
    let listed: Vec<String> = endpoints().iter().map(ToString::to_string).collect();
    assert_eq!(
        listed,
        [
            "listing.expression: by expressions in its attribute, known with its first call",
            "listing.literal: ttl = 30s (attribute), lease = 30s (default), on_store_error = refuse (default)",
            "listing.tx: ttl = 30s (attribute), wait = 5s (default)",
        ]
    );
}

#[test]
fn a_listing_says_what_is_set_and_where() {
    let file = File::new(
        "[all]\non_store_error = \"run\"\nlease = \"9s\"\n[endpoints.\"listing.expression\"]\nwait = \"1h30m\"",
    );
    let handle = file.handle().unwrap();
    assert_eq!(
        listed(&handle, "listing.literal").unwrap(),
        format!(
            "listing.literal: ttl = 30s (attribute), lease = 30s (default), on_store_error = run ({})",
            file.at(2)
        )
    );
    assert_eq!(
        listed(&handle, "listing.expression").unwrap(),
        format!(
            "listing.expression: wait = 1h30m ({}), on_store_error = run ({}), \
             the rest by expressions in its attribute, known with its first call",
            file.at(5),
            file.at(2)
        )
    );

    let endpoints = handle.endpoints();
    let wait = endpoints[0].wait().unwrap();
    assert_eq!(wait.value(), secs(5400));
    let Origin::File { path, line, .. } = wait.origin() else {
        panic!("{:?}", wait.origin());
    };
    assert_eq!((&**path, *line), (file.path(), 5));
}

#[tokio::test(start_paused = true)]
async fn the_scope_decides_whose_listing_it_is() {
    let file = File::new("[endpoints.\"listing.literal\"]\nttl = \"1m\"");
    let handle = file.handle().unwrap();
    let inside = handle.scope(async { endpoints() }).await;
    let ttl = inside.iter().find_map(|info| {
        (info.name() == "listing.literal").then(|| info.ttl().unwrap().to_string())
    });
    assert_eq!(ttl, Some(format!("1m ({})", file.at(2))));
}

#[tokio::test(start_paused = true)]
async fn a_function_becomes_known_with_its_first_call() {
    let handle = Idempotency::new(MemoryStore::new());
    assert_eq!(listed(&handle, "shop.pay"), None);
    let policy = Policy::new(secs(60)).lease(secs(5));
    call(&handle, "shop.pay", policy, 1).await.unwrap();
    assert_eq!(
        listed(&handle, "shop.pay").unwrap(),
        "shop.pay: ttl = 1m (attribute), lease = 5s (attribute), on_store_error = refuse (default)"
    );
    call(&handle, "shop.pay", policy.lease(secs(6)), 2)
        .await
        .unwrap();
    let line = listed(&handle, "shop.pay").unwrap();
    assert!(line.contains("lease = 6s"), "{line}");
}

#[test]
fn a_setting_that_does_not_fit_a_known_endpoint_is_an_error() {
    let file = File::new("[endpoints.\"listing.literal\"]\nlease = \"5s\"");
    assert_eq!(
        file.handle().unwrap_err().to_string(),
        format!(
            "{}: `lease` does not fit the endpoint `listing.literal`: \
             its lease is its ttl unless `release` is \"on_error\"",
            file.at(2)
        )
    );
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_nobody_knows_is_a_warning_until_its_first_call() {
    let file = File::new(
        "[endpoints.\"listing.litteral\"]\nttl = \"1m\"\n[endpoints.\"shop.pay\"]\nttl = \"1m\"",
    );
    let heard = Heard::from_now_on();
    let handle = file.handle().unwrap();
    let hint = "(a function without the option `name` becomes known with its first call)";
    let misspelt = format!(
        "{}: no endpoint `listing.litteral` is known: did you mean `listing.literal`? {hint}",
        file.at(1)
    );
    let unknown = format!(
        "{}: no endpoint `shop.pay` is known: nothing is set by it {hint}",
        file.at(3)
    );
    assert_eq!(
        heard.events(),
        [format!("WARN {misspelt}"), format!("WARN {unknown}")]
    );
    assert_eq!(handle.settings_problems(), [misspelt.clone(), unknown]);

    let policy = Policy::new(secs(30));
    call(&handle, "shop.pay", policy, 1).await.unwrap();
    assert_eq!(handle.settings_problems(), [misspelt]);
}
