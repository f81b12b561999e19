//! The list of the guarded functions of a program.

use std::time::Duration;

use idempotence::{EndpointInfo, Error, Idempotency, MemoryStore, Origin, endpoints, idempotent};

use crate::replay::Done;

#[idempotent(
    key = "id",
    ttl = "1h",
    wait = "2s",
    replay = true,
    name = "endpoints.named"
)]
async fn named(id: u64) -> Done<u64> {
    Ok(id)
}

#[idempotent(key = "id", ttl = ttl, name = "endpoints.expression")]
async fn expression(id: u64, ttl: Duration) -> Done<u64> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "1m", replay = true)]
async fn unnamed(id: u64) -> Done<u64> {
    Ok(id)
}

struct Repo<T>(T);

impl<T> Repo<T> {
    /// The endpoint is listed although no `T` is chosen.
    #[expect(dead_code)]
    #[idempotent(key = "id", ttl = "1m", name = "endpoints.generic")]
    async fn save(&self, id: u64) -> Done<&T> {
        let _ = id;
        Ok(&self.0)
    }
}

trait Job {
    #[expect(dead_code)]
    #[idempotent(key = "id", ttl = "1m", name = "endpoints.by_default")]
    async fn run(&self, id: u64) -> Done<u64> {
        Ok(id)
    }
}

impl Job for u8 {}

fn listed(handle: &Idempotency, name: &str) -> Option<EndpointInfo> {
    let mut listed = handle.endpoints().into_iter();
    listed.find(|info| info.name() == name)
}

fn line(handle: &Idempotency, name: &str) -> String {
    listed(handle, name).unwrap().to_string()
}

#[test]
fn functions_with_a_name_are_listed_before_their_first_call() {
    // A separate handle, because the list of all handles contains the calls of other tests.
    let listed = Idempotency::new(MemoryStore::new()).endpoints();
    let names: Vec<&str> = listed.iter().map(EndpointInfo::name).collect();
    for name in [
        "endpoints.by_default",
        "endpoints.expression",
        "endpoints.generic",
        "endpoints.named",
        "traits.named",
        "hygiene.by_macro",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    assert!(names.is_sorted());
    assert!(!names.iter().any(|name| name.contains("unnamed")));
}

#[tokio::test]
async fn a_list_shows_the_policy_of_the_attribute() {
    let handle = Idempotency::new(MemoryStore::new());
    let literal = "endpoints.named: ttl = 1h (attribute), lease = 30s (default), \
                   wait = 2s (attribute), on_store_error = refuse (default)";
    assert_eq!(line(&handle, "endpoints.named"), literal);
    handle.scope(named(1)).await.unwrap();
    assert_eq!(line(&handle, "endpoints.named"), literal);

    let unknown = listed(&handle, "endpoints.expression").unwrap();
    assert!(unknown.ttl().is_none());
    let ttl = Duration::from_secs(7);
    handle.scope(expression(1, ttl)).await.unwrap();
    let known = listed(&handle, "endpoints.expression").unwrap();
    assert_eq!(known.ttl().unwrap().value(), ttl);
    assert_eq!(*known.ttl().unwrap().origin(), Origin::Attribute);
}

#[idempotent(key = "id", ttl = "1m", name = "endpoints.using", using = handle)]
async fn using(handle: &Idempotency, id: u64) -> Done<u64> {
    Ok(id)
}

#[tokio::test]
async fn a_function_with_the_option_using_is_listed_for_that_handle() {
    let handle = Idempotency::builder(MemoryStore::new()).prefix("field");
    let handle = handle.build().unwrap();
    let prefixes = || {
        let listed = endpoints().into_iter();
        let ours = listed.filter(|info| info.name() == "endpoints.using");
        ours.map(|info| info.prefix().map(ToOwned::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(prefixes(), [None]);
    using(&handle, 1).await.unwrap();
    assert_eq!(prefixes(), [Some("field".to_owned())]);
}

#[tokio::test]
async fn functions_without_a_name_are_listed_after_their_first_call_on_the_handle() {
    let name = "attribute.replay.endpoints.unnamed";
    let handle = Idempotency::new(MemoryStore::new());
    assert!(listed(&handle, name).is_none());
    handle.scope(unnamed(1)).await.unwrap();
    assert!(listed(&handle, name).is_some());
    assert!(listed(&Idempotency::new(MemoryStore::new()), name).is_none());
}

/// Two functions in two blocks have one path.
async fn in_blocks(id: u64, refund: bool) -> Result<&'static str, Error> {
    if refund {
        #[idempotent(key = "id", ttl = "1d")]
        async fn submit(id: u64) -> Result<&'static str, Error> {
            Ok("refunded")
        }
        submit(id).await
    } else {
        #[idempotent(key = "id", ttl = "1d")]
        async fn submit(id: u64) -> Result<&'static str, Error> {
            Ok("charged")
        }
        submit(id).await
    }
}

#[tokio::test]
async fn of_two_unnamed_functions_with_one_path_the_second_is_refused_at_its_first_call() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let calls = async {
        assert_eq!(in_blocks(1, false).await.unwrap(), "charged");
        for id in [1, 2] {
            let refused = in_blocks(id, true).await.unwrap_err();
            assert_eq!(refused.code(), "invalid_policy");
            let says = "two functions have the path `attribute.replay.endpoints.in_blocks.submit`";
            assert!(refused.to_string().contains(says), "{refused}");
            assert!(refused.to_string().contains(file!()), "{refused}");
        }
        // The first keeps its name, so its keys are found again.
        assert_eq!(in_blocks(2, false).await.unwrap(), "charged");
        assert!(in_blocks(1, false).await.unwrap_err().is_duplicate());
    };
    idempotency.scope(calls).await;
    let diagnosis = idempotency.doctor().await;
    let mut findings = diagnosis.findings().iter();
    let says = "`attribute.replay.endpoints.in_blocks.submit`";
    assert!(findings.any(|finding| finding.found().contains(says)));
}
