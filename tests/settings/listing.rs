//! The list of endpoints for operators.

use idempotent_runtime::private::{Policy, Release, register};
use idempotent_runtime::store::{Finding, Level};
use idempotent_runtime::{Idempotency, MemoryStore, Origin, Settings, endpoints};

use crate::{File, call, listed, secs};
use support::log_capture::LogCapture;

/// The registration that the attribute writes into the body of a function.
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
    let listed = endpoints().into_iter();
    let listed = listed.filter(|info| info.name().starts_with("listing."));
    let listed: Vec<String> = listed.map(|info| info.to_string()).collect();
    assert_eq!(
        listed,
        [
            "listing.expression: set by expressions in its attribute, unknown before its first call",
            "listing.literal: ttl = 30s (attribute), lease = 30s (default), on_store_error = refuse (default)",
            "listing.tx: ttl = 30s (attribute), wait = 5s (default)",
        ]
    );
}

#[test]
fn a_listing_shows_each_setting_with_its_origin() {
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
             the rest set by expressions in its attribute, unknown before its first call",
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
async fn in_a_scope_the_list_is_of_the_handle_of_the_scope() {
    let file = File::new("[endpoints.\"listing.literal\"]\nttl = \"1m\"");
    let handle = file.handle().unwrap();
    let inside = handle.scope(async { endpoints() }).await;
    let ttl = inside.iter().find_map(|info| {
        (info.name() == "listing.literal").then(|| info.ttl().unwrap().to_string())
    });
    assert_eq!(ttl, Some(format!("1m ({})", file.at(2))));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_listed_once_for_each_handle_that_called_it() {
    let file = File::new("[endpoints.\"using.pay\"]\nttl = \"10m\"");
    let of_a_field = Idempotency::builder(MemoryStore::new())
        .prefix("field")
        .settings(Settings::file(file.path()));
    let of_a_field = of_a_field.build().unwrap();
    let current = Idempotency::new(MemoryStore::new());
    let lines = async || {
        let all = current.scope(async { endpoints() }).await.into_iter();
        let ours = all.filter(|info| info.name() == "using.pay");
        ours.map(|info| info.to_string()).collect::<Vec<_>>()
    };
    let rest = "lease = 30s (default), on_store_error = refuse (default)";
    let by_attribute = format!("using.pay: ttl = 30s (attribute), {rest}");
    let by_file = format!(
        "using.pay (on the handle with the prefix `field`): ttl = 10m ({}), {rest}",
        file.at(2)
    );
    let policy = Policy::new(secs(30));

    assert_eq!(
        lines().await,
        [&*by_attribute],
        "as the current handle would run it"
    );
    call(&of_a_field, "using.pay", policy, 1).await.unwrap();
    assert_eq!(lines().await, [&*by_file], "as the other handle runs it");
    call(&current, "using.pay", policy, 1).await.unwrap();
    assert_eq!(lines().await, [&*by_attribute, &*by_file]);
    let outside = endpoints().into_iter().filter_map(|info| {
        let found = info.name() == "using.pay";
        found.then(|| info.prefix().map(ToOwned::to_owned))
    });
    let outside: Vec<_> = outside.flatten().collect();
    assert_eq!(
        outside,
        ["field", "idem"],
        "outside of a scope there is no current handle"
    );

    // A handle lists its own endpoints without a prefix.
    let own = listed(&of_a_field, "using.pay").unwrap();
    assert!(own.starts_with("using.pay: ttl = 10m"), "{own}");
    drop(of_a_field);
    assert_eq!(
        lines().await,
        [by_attribute],
        "a dropped handle is not listed"
    );
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
             `lease` needs `release = \"on_error\"`: with other values the lease is the `ttl`",
            file.at(2)
        )
    );
}

#[tokio::test]
async fn a_setting_that_does_not_fit_is_reported_together_with_the_other_mistakes() {
    let file = File::new("[all]\ntll = \"1m\"\n[endpoints.\"listing.literal\"]\nlease = \"5s\"");
    let mistakes = [
        format!(
            "{}:1: unknown setting `tll`: did you mean `ttl`?",
            file.at(2)
        ),
        format!(
            "{}: `lease` does not fit the endpoint `listing.literal`: \
             `lease` needs `release = \"on_error\"`: with other values the lease is the `ttl`",
            file.at(4)
        ),
    ]
    .join("; ");
    assert_eq!(file.handle().unwrap_err().to_string(), mistakes);

    let text = std::fs::read_to_string(file.path()).unwrap();
    file.write("");
    let handle = file.handle().unwrap();
    file.write(&text);
    assert_eq!(handle.reload().await.unwrap_err().to_string(), mistakes);
}

/// With the `ttl` that was meant, it fits.
#[test]
fn a_setting_beside_one_that_cannot_be_read_is_not_said_not_to_fit() {
    let file = File::new("[endpoints.\"using.pay\"]\nttl = \"1hh\"\nat_least = \"5m\"");
    let mistakes = file.handle().unwrap_err().to_string();
    assert!(mistakes.contains("`ttl` of `using.pay`"), "{mistakes}");
    assert!(!mistakes.contains("does not fit"), "{mistakes}");
}

/// The parser guesses values, and nobody wrote them.
#[test]
fn a_setting_of_a_file_that_is_not_toml_is_not_said_to_fit_or_not() {
    let file = File::new("[endpoints.\"listing.literal\"]\nlease = \"5s\"\n[all");
    let mistakes = file.handle().unwrap_err().to_string();
    assert!(mistakes.contains("this is not TOML"), "{mistakes}");
    assert!(!mistakes.contains("does not fit"), "{mistakes}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_endpoint_is_a_warning_until_its_first_call() {
    let file = File::new(
        "[endpoints.\"listing.litteral\"]\nttl = \"1m\"\n[endpoints.\"shop.pay\"]\nttl = \"1m\"",
    );
    let log = LogCapture::start();
    let handle = file.handle().unwrap();
    let hint = "(a function without the option `name` becomes known with its first call)";
    let misspelt = format!(
        "{}: unknown endpoint `listing.litteral`: did you mean `listing.literal`? {hint}",
        file.at(1)
    );
    let unknown = format!(
        "{}: unknown endpoint `shop.pay`: its settings have no effect {hint}",
        file.at(3)
    );
    assert_eq!(
        log.events(),
        [format!("WARN {misspelt}"), format!("WARN {unknown}")]
    );
    assert_eq!(handle.settings_problems(), [misspelt.clone(), unknown]);

    let policy = Policy::new(secs(30));
    call(&handle, "shop.pay", policy, 1).await.unwrap();
    assert_eq!(handle.settings_problems(), [misspelt]);
}

/// Each route is like this at each start.
#[tokio::test(start_paused = true)]
async fn a_route_without_a_request_is_a_note_of_the_doctor_and_no_warning() {
    let file = File::new("[endpoints.\"POST /parcels\"]\nttl = \"1m\"");
    let log = LogCapture::start();
    let handle = file.handle().unwrap();
    assert_eq!(log.events(), [""; 0]);
    let diagnosis = handle.doctor().await;
    let mut findings = diagnosis.findings().iter();
    let note = findings.find(|finding| finding.found().contains("`POST /parcels`"));
    assert_eq!(note.map(Finding::level), Some(Level::Note));
}

#[tokio::test(start_paused = true)]
async fn a_ttl_below_a_second_is_a_warning_of_the_log_and_of_the_doctor() {
    let file = File::new(
        "[all]\nttl = \"1ms\"\n[endpoints.\"POST /parcels\"]\nttl = \"999ms\"\n[endpoints.\"POST /notes\"]\nttl = \"1s\"",
    );
    let log = LogCapture::start();
    let handle = file.handle().unwrap();
    let why = "an equal call that begins later runs again (is the unit right?)";
    let all = format!("{}: `ttl = 1ms` for every endpoint: {why}", file.at(2));
    let parcels = format!("{}: `ttl = 999ms` for `POST /parcels`: {why}", file.at(4));
    assert_eq!(
        log.events(),
        [format!("WARN {all}"), format!("WARN {parcels}")]
    );
    let diagnosis = handle.doctor().await;
    for line in [all, parcels] {
        let mut findings = diagnosis.findings().iter();
        let found = findings.find(|finding| finding.found() == line);
        assert_eq!(found.map(Finding::level), Some(Level::Warning));
    }
}
