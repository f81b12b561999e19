//! Which requests have a key, and which key.

use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use http::{Extensions, HeaderName, Method};
use idempotence_client::{Answer, FirstSent, IdempotentRequests, InvalidKey, OutgoingKey, Profile};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Error, Middleware, Next, Result};

use crate::script::{Script, Step, URL, requests};
use crate::shop::until;

fn lost(tries: usize) -> Script {
    Script::new((0..tries).map(|_| Step::Lost))
}

#[tokio::test(start_paused = true)]
async fn all_tries_of_a_request_have_one_key_and_each_request_has_its_own() {
    let script = lost(2);
    let client = script.client(requests());
    for _ in 0..2 {
        let response = client.post(URL).send().await.unwrap();
        let key = Answer::of(&response).unwrap().key().as_str().to_owned();
        assert_eq!(
            script.keys().last().unwrap().as_deref(),
            Some(&*format!("\"{key}\""))
        );
    }
    let keys = script.keys();
    assert!(
        keys[0].is_some() && keys[0] == keys[1] && keys[1] == keys[2],
        "{keys:?}"
    );
    assert!(
        keys.len() == 4 && keys[3].is_some() && keys[3] != keys[2],
        "{keys:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_key_of_the_caller_is_kept() {
    let key: OutgoingKey = r#"order "7""#.parse().unwrap();
    let script = lost(1);
    let client = script.client(requests());
    client
        .post(URL)
        .with_extension(key.clone())
        .send()
        .await
        .unwrap();
    assert_eq!(
        script.keys(),
        [(); 2].map(|()| Some(r#""order \"7\"""#.to_owned()))
    );

    let script = lost(1);
    let client = script.client(requests());
    let request = client
        .post(URL)
        .header("Idempotency-Key", "seven")
        .with_extension(key);
    let response = request.send().await.unwrap();
    assert_eq!(script.keys(), [(); 2].map(|()| Some("seven".to_owned())));
    assert_eq!(Answer::of(&response).unwrap().key().as_str(), "seven");
}

/// With a key that the middleware makes instead, a run after a crash would pay again.
#[tokio::test(start_paused = true)]
async fn a_text_in_the_extensions_is_an_error_that_names_the_type_of_a_key() {
    let script = lost(1);
    let text = "e18bfb23-4ead-820e-80c0-6e0d9a3279a5";
    let client = script.client(requests());
    let request = client.post(URL).with_extension(text.to_owned());
    let error = request.send().await.unwrap_err();
    assert_eq!(script.tries(), 0);
    let says = "the extensions of the request have a `String`, which is no idempotency key: \
                use `.with_extension(OutgoingKey::try_from(text)?)`";
    assert!(error.to_string().contains(says), "{error}");

    let key = OutgoingKey::try_from(text.to_owned()).unwrap();
    let request = client.post(URL).with_extension(text.to_owned());
    request.with_extension(key).send().await.unwrap();
    assert_eq!(script.keys()[0].as_deref(), Some(&*format!("\"{text}\"")));
}

#[tokio::test(start_paused = true)]
async fn only_guarded_requests_get_a_key_and_another_try() {
    let other_host = "http://other.example/orders";
    for (method, url, is_guarded) in [
        (Method::POST, URL, true),
        (Method::PATCH, URL, true),
        (Method::POST, "http://SHOP.example:81/", true),
        (Method::GET, URL, false),
        (Method::PUT, URL, false),
        (Method::POST, other_host, false),
        (Method::POST, "http://shop.example.evil.example/", false),
    ] {
        let script = lost(1);
        let result = script
            .client(requests())
            .request(method.clone(), url)
            .send()
            .await;
        assert_eq!(result.is_ok(), is_guarded, "{method} {url}");
        assert_eq!(script.keys()[0].is_some(), is_guarded, "{method} {url}");
        assert_eq!(script.tries(), 1 + usize::from(is_guarded));
    }
    let script = lost(1);
    let request = script.client(requests()).put(other_host);
    let response = request
        .with_extension(OutgoingKey::random())
        .send()
        .await
        .unwrap();
    assert!(script.tries() == 2 && Answer::of(&response).is_some());

    let script = lost(1);
    let except = IdempotentRequests::to(|request| request.url().path() != "/search");
    let client = script.client(except.methods([Method::POST, Method::PUT]));
    assert!(
        client
            .post("http://shop.example/search")
            .send()
            .await
            .is_err()
    );
    assert!(client.put(URL).send().await.is_ok());
    assert!(script.keys()[0].is_none() && script.keys()[1].is_some());
}

#[tokio::test(start_paused = true)]
async fn a_malformed_key_is_an_error_before_anything_is_sent() {
    let script = Script::default();
    let client = script.client(requests());
    let twice = client
        .post(URL)
        .header("Idempotency-Key", "a")
        .header("Idempotency-Key", "b");
    for request in [client.post(URL).header("Idempotency-Key", "\"open"), twice] {
        let Error::Middleware(error) = request.send().await.unwrap_err() else {
            panic!("an error of the middleware");
        };
        assert!(error.is::<InvalidKey>(), "{error}");
    }
    assert_eq!(script.tries(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_header_of_another_name_carries_the_key() {
    let script = Script::default();
    let name = HeaderName::from_static("paypal-request-id");
    let client = script.client(requests().key_header(name));
    let response = client
        .post(URL)
        .header("PayPal-Request-Id", "7")
        .send()
        .await
        .unwrap();
    assert_eq!(Answer::of(&response).unwrap().key().as_str(), "7");
    assert_eq!(script.keys(), [None]);
}

/// Only the header of the IETF draft is a String of RFC 9651.
#[tokio::test(start_paused = true)]
async fn a_header_of_another_name_has_the_key_without_quotes() {
    for (name, is_quoted) in [
        ("paypal-request-id", false),
        ("cko-idempotency-key", false),
        ("idempotency-key", true),
    ] {
        let script = Script::default();
        let other = HeaderName::from_static("x-request-id");
        let named = requests().key_header(other);
        let client = script.client(named.key_header(HeaderName::from_static(name)));
        let response = client.post(URL).send().await.unwrap();
        let key = Answer::of(&response).unwrap().key().as_str().to_owned();
        let sent = if is_quoted { format!("\"{key}\"") } else { key };
        assert_eq!(script.header(name), [Some(sent)]);
    }
}

#[tokio::test]
async fn a_key_of_the_caller_keeps_the_time_of_its_first_try_over_a_restart() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let stored = UNIX_EPOCH + Duration::from_millis(784_111_777_900);
    let key = OutgoingKey::random();
    let script = lost(1);
    let client = script.client(requests().profile(Profile::Repeatability));
    let request = client.post(URL).with_extension(key.clone());
    let request = request.with_extension(FirstSent::at(stored));
    request.send().await.unwrap();
    let header = client.post(URL).header("Repeatability-First-Sent", date);
    header.with_extension(key).send().await.unwrap();
    let dates = script.header("repeatability-first-sent");
    assert_eq!(dates, [(); 3].map(|()| Some(date.to_owned())));
}

/// A retry middleware of another crate. It waits until the next second of the time of day.
struct Again;

#[async_trait]
impl Middleware for Again {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let first = request.try_clone().unwrap();
        let seconds = || UNIX_EPOCH.elapsed().unwrap().as_secs();
        let begin = seconds();
        match next.clone().run(first, extensions).await {
            Err(Error::Reqwest(_)) => {
                until(|| seconds() > begin).await;
                next.run(request, extensions).await
            }
            result => result,
        }
    }
}

#[tokio::test]
async fn another_retry_middleware_inside_or_outside_keeps_the_key_and_the_time_of_the_first_try() {
    let without_retries = || requests().without_retries();
    for (guard, name, is_outside) in [
        (without_retries(), "idempotency-key", true),
        (without_retries(), "idempotency-key", false),
        (
            without_retries().profile(Profile::Repeatability),
            "repeatability-first-sent",
            true,
        ),
    ] {
        let script = lost(1);
        let client = ClientBuilder::new(reqwest::Client::new());
        let client = if is_outside {
            client.with(Again).with(guard)
        } else {
            client.with(guard).with(Again)
        };
        let client = client.with(script.clone()).build();
        for _ in 0..2 {
            client.post(URL).send().await.unwrap();
        }
        let values = script.header(name);
        assert!(values.len() == 3 && values[0].is_some(), "{values:?}");
        assert!(
            values[0] == values[1] && values[1] != values[2],
            "{values:?}"
        );
    }
}

#[tokio::test]
async fn a_middleware_for_other_servers_changes_nothing() {
    let script = lost(1);
    let other = || IdempotentRequests::to_hosts(["bank.example"]);
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(Again)
        .with(requests().without_retries())
        .with(other().profile(Profile::Repeatability))
        .with(other().profile(Profile::Stripe))
        .with(script.clone())
        .build();
    let response = client.post(URL).send().await.unwrap();
    let keys = script.keys();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    let key = Answer::of(&response).unwrap().key().as_str().to_owned();
    assert_eq!(keys[0], Some(format!("\"{key}\"")));
    assert_eq!(script.header("repeatability-first-sent"), [None, None]);
}

/// Sends another request before each request, with the same extensions.
struct SignsIn;

#[async_trait]
impl Middleware for SignsIn {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut session = request.try_clone().unwrap();
        session.url_mut().set_path("/session");
        next.clone().run(session, extensions).await?;
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn another_request_with_the_same_extensions_has_another_key() {
    let script = Script::default();
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(SignsIn)
        .with(requests())
        .with(script.clone())
        .build();
    client.post(URL).send().await.unwrap();
    let keys = script.keys();
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn without_retries_errors_stay_as_reqwest_returns_them() {
    let script = lost(1);
    let client = script.client(requests().without_retries());
    assert!(matches!(
        client.post(URL).send().await,
        Err(Error::Reqwest(_))
    ));
    assert_eq!(script.tries(), 1);
}

/// The caller uses the extensions of a request for another request, which has its own key.
#[tokio::test]
async fn another_key_has_its_own_first_try() {
    let stored = UNIX_EPOCH + Duration::from_millis(784_111_777_900);
    let script = Script::default();
    let inner = script.client(requests().profile(Profile::Repeatability));
    let (first, second) = (OutgoingKey::random(), OutgoingKey::random());
    let mut extensions = Extensions::new();
    extensions.insert(first);
    extensions.insert(FirstSent::at(stored));
    let request = || inner.post(URL).build().unwrap();
    inner
        .execute_with_extensions(request(), &mut extensions)
        .await
        .unwrap();
    extensions.remove::<FirstSent>();
    extensions.insert(second);
    inner
        .execute_with_extensions(request(), &mut extensions)
        .await
        .unwrap();
    let dates = script.header("repeatability-first-sent");
    assert_eq!(dates.len(), 2);
    assert_ne!(dates[0], dates[1]);
}
