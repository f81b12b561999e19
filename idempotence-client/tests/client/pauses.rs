//! When a request is sent again, and when no more.

use std::time::Duration;

use idempotence_client::{Answer, Unanswered};
use tokio::time::{Instant, timeout};

use crate::script::{Script, Step, URL, answer, problem, requests};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn the_server_names_the_pause_in_seconds_milliseconds_or_by_a_date() {
    let date = "Sun, 06 Nov 1994 08:49:30 GMT";
    let until = "Sun, 06 Nov 1994 08:49:37 GMT";
    let json = ("content-type", "application/problem+json");
    let wait = r#"{"client_action": "wait", "retry_after_ms": 2500}"#;
    let script = Script::new([
        answer(409, &[("retry-after", "3")], ""),
        answer(503, &[("retry-after", until), ("date", date)], ""),
        answer(409, &[("retry-after", "3"), json], wait),
        answer(503, &[("retry-after", date), ("date", until)], ""),
    ]);
    let response = script.client(requests()).post(URL).send().await.unwrap();
    assert_eq!(Answer::of(&response).unwrap().tries(), 5);
    for (pause, named) in script.pauses().into_iter().zip([3.0, 7.0, 2.5, 0.0]) {
        assert!((named..=named + 1.1).contains(&pause), "{pause} {named}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_named_pause_the_pauses_grow_up_to_their_ceilings() {
    let script = Script::new((0..6).map(|_| Step::Lost));
    let client = script.client(requests().deadline(SECOND * 100));
    client.post(URL).send().await.unwrap();
    let pauses = script.pauses();
    assert_eq!(pauses.len(), 6);
    for (pause, ceiling) in pauses.into_iter().zip([1.0, 2.0, 4.0, 8.0, 10.0, 10.0]) {
        assert!(pause <= ceiling + 0.01, "{pause} {ceiling}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_gets_the_same_request_again_after_the_limit_of_a_try() {
    let script = Script::new([Step::Silence, Step::Silence]);
    let client = script.client(requests().try_timeout(SECOND * 5));
    let response = client.post(URL).send().await.unwrap();
    assert_eq!(Answer::of(&response).unwrap().tries(), 3);
    let pauses = script.pauses();
    assert!(
        (5.0..=6.1).contains(&pauses[0]) && (5.0..=7.1).contains(&pauses[1]),
        "{pauses:?}"
    );
    let keys = script.keys();
    assert!(
        keys[0].is_some() && keys.iter().all(|key| *key == keys[0]),
        "{keys:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_the_error_has_the_key_and_says_that_the_request_may_have_run() {
    let script = Script::new((0..1000).map(|_| Step::Silence));
    let client = script.client(requests().deadline(SECOND * 30));
    let begin = Instant::now();
    let error = client.post(URL).send().await.unwrap_err();
    assert!(
        begin.elapsed() <= SECOND * 30 + Duration::from_millis(10),
        "{:?}",
        begin.elapsed()
    );
    let unanswered = Unanswered::of(&error).expect("an unanswered request");
    assert!(unanswered.last_error().is_none());
    assert_eq!(unanswered.tries() as usize, script.tries());
    assert!((3..=4).contains(&script.tries()), "{}", script.tries());
    let sent = format!("\"{}\"", unanswered.key().as_str());
    assert_eq!(script.keys()[0].as_deref(), Some(&*sent));
    let text = error.to_string();
    assert!(
        text.contains("POST to http://shop.example got no answer"),
        "{text}"
    );
    assert!(
        text.contains("only with the same idempotency key"),
        "{text}"
    );
    assert!(
        !text.contains(unanswered.key().as_str()) && !text.contains("/orders"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_does_not_fit_in_the_deadline_returns_the_answer_at_once() {
    let script = Script::new([answer(429, &[("retry-after", "3600")], "tomorrow")]);
    let begin = Instant::now();
    let response = script.client(requests()).post(URL).send().await.unwrap();
    assert!(begin.elapsed() < SECOND);
    let answer = Answer::of(&response).unwrap();
    assert_eq!(answer.retry_after(), Some(SECOND * 3600));
    assert!(!answer.ends_key());
    assert_eq!((response.status().as_u16(), script.tries()), (429, 1));
    assert_eq!(response.text().await.unwrap(), "tomorrow");
}

/// The rest of the deadline after a named pause, and how often the request is sent. The second try gets no answer.
#[tokio::test(start_paused = true)]
async fn a_try_without_enough_time_for_an_answer_does_not_replace_the_last_answer() {
    let deadline = SECOND * 30;
    for (deadline, rest, tries) in [
        (deadline, Duration::from_millis(5), 1),
        (deadline, Duration::from_millis(990), 1),
        (deadline, Duration::from_millis(1100), 2),
        (SECOND, Duration::from_millis(90), 1),
        (SECOND, Duration::from_millis(110), 2),
    ] {
        let named = deadline.saturating_sub(rest).as_millis();
        let body = format!(
            r#"{{"code": "store_unavailable", "client_action": "wait", "retry_after_ms": {named}}}"#
        );
        let json = ("content-type", "application/problem+json");
        let script = Script::new([answer(503, &[json], &body), Step::Silence]);
        let no_jitter = requests().backoff(Duration::ZERO, Duration::ZERO);
        let client = script.client(no_jitter.deadline(deadline));
        let result = client.post(URL).send().await;
        assert_eq!(script.tries(), tries, "{deadline:?} {rest:?}");
        assert_eq!(result.is_ok(), tries == 1, "{deadline:?} {rest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_nothing_allows_one_try() {
    let script = Script::new([answer(503, &[("retry-after", "0")], "")]);
    let hurried = requests().backoff(Duration::ZERO, Duration::ZERO);
    let client = script.client(hurried.deadline(Duration::ZERO).try_timeout(SECOND));
    assert_eq!(client.post(URL).send().await.unwrap().status(), 503);
    assert_eq!(script.tries(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_runs_until_the_deadline_returns_in_progress_and_keeps_its_key() {
    let script = Script::new((0..1000).map(|_| problem(409, "in_progress", "wait")));
    let response = script.client(requests()).post(URL).send().await.unwrap();
    let answer = Answer::of(&response).unwrap();
    assert_eq!(answer.problem().unwrap().code(), Some("in_progress"));
    assert!(!answer.ends_key() && answer.tries() > 5, "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_another_middleware_ends_the_tries_and_the_caller_has_the_key() {
    let script = Script::new([Step::Lost, Step::Failure]);
    let error = script
        .client(requests())
        .post(URL)
        .send()
        .await
        .unwrap_err();
    let unanswered = Unanswered::of(&error).unwrap();
    assert_eq!((unanswered.tries(), script.tries()), (2, 2));
    assert!(unanswered.last_error().unwrap().is_middleware());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_not_sent_again() {
    let script = Script::new((0..1000).map(|_| answer(503, &[("retry-after", "5")], "")));
    let client = script.client(requests());
    timeout(SECOND, client.post(URL).send()).await.unwrap_err();
    tokio::time::sleep(SECOND * 100).await;
    assert_eq!(script.tries(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_longest_times_do_not_overflow() {
    let script = Script::new([answer(
        503,
        &[("retry-after", "99999999999999999999999")],
        "",
    )]);
    let longest = requests()
        .deadline(Duration::MAX)
        .try_timeout(Duration::MAX)
        .backoff(Duration::MAX, Duration::MAX);
    let client = script.client(longest);
    let response = timeout(SECOND, client.post(URL).send()).await;
    assert!(response.is_ok_and(|response| response.unwrap().status() == 503));
    assert_eq!(script.tries(), 1);
}
