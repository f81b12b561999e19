//! Which answers are final, and what they say.

use std::time::Duration;

use idempotence_client::{Answer, ClientAction, Profile};
use reqwest::Response;

use crate::script::{Script, Step, URL, answer, problem, requests};

async fn send(first: Step) -> (Response, usize) {
    let script = Script::new([first]);
    let response = script.client(requests()).post(URL).send().await.unwrap();
    (response, script.tries())
}

#[tokio::test(start_paused = true)]
async fn only_a_redirect_of_the_work_ends_the_key() {
    for (status, ends) in [(302, false), (303, true), (307, false)] {
        let script = Script::new([answer(status, &[], "")]);
        let response = script.client(requests()).post(URL).send().await.unwrap();
        assert_eq!(Answer::of(&response).unwrap().ends_key(), ends, "{status}");
    }
    let replay = [("idempotency-replayed", "true")];
    let script = Script::new([answer(302, &replay, "")]);
    let response = script.client(requests()).post(URL).send().await.unwrap();
    assert!(Answer::of(&response).unwrap().ends_key());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_waiting_does_not_help_is_final() {
    for (status, code, action, ends_key) in [
        // Another request with this key was sent. It may have done the work.
        (422, "payload_mismatch", "fix", false),
        (400, "idempotency_key_malformed", "fix", true),
        (409, "result_unavailable", "refresh", true),
        (409, "already_done", "ignore", true),
        (409, "outcome_unknown", "refresh", false),
        (500, "lease_lost", "refresh", false),
        (409, "taken", "refresh", false),
        (409, "token_used", "new_token", false),
        (500, "store_misconfigured", "fix", false),
        (401, "scope_missing", "fix", false),
        (412, "first_sent_outside_window", "fix", false),
        // The action counts, not the status.
        (503, "store_misconfigured", "fix", false),
    ] {
        let (response, tries) = send(problem(status, code, action)).await;
        let answer = Answer::of(&response).unwrap();
        assert_eq!((tries, answer.tries()), (1, 1), "{code}");
        assert_eq!(answer.problem().unwrap().code(), Some(code));
        assert_eq!(answer.ends_key(), ends_key, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_asks_for_a_wait_is_repeated_whatever_its_status() {
    for (status, code) in [
        (400, "request_unreadable"),
        (409, "in_progress"),
        (429, "limit_reached"),
        (503, "store_unavailable"),
    ] {
        let (response, tries) = send(problem(status, code, "wait")).await;
        assert_eq!((response.status().as_u16(), tries), (200, 2), "{code}");
        assert!(Answer::of(&response).unwrap().ends_key());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_read_whatever_the_limit_of_responses_is() {
    let script = Script::new([problem(400, "request_unreadable", "wait")]);
    let client = script.client(requests().response_limit(0));
    assert_eq!(client.post(URL).send().await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_repeated_only_if_the_server_asks_for_it() {
    for (headers, tries) in [
        (&[][..], 1),
        (&[("retry-after", "1")], 2),
        (&[("stripe-should-retry", "true")], 2),
        (&[("retry-after", "1"), ("stripe-should-retry", "false")], 1),
    ] {
        assert_eq!(send(answer(409, headers, "")).await.1, tries, "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_handler_is_final_and_keeps_the_key() {
    for status in [400, 402, 404, 500, 501] {
        let (response, tries) = send(answer(status, &[], "no")).await;
        assert_eq!(tries, 1, "{status}");
        assert!(!Answer::of(&response).unwrap().ends_key(), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_final_with_each_status_that_its_convention_stores() {
    for (profile, status, mark, ends_key) in [
        (Profile::Ietf, 201, "true", true),
        (Profile::Ietf, 409, "True", true),
        (Profile::Ietf, 500, "true", false),
        (Profile::Acp, 429, "true", true),
        // The card may be charged.
        (Profile::Stripe, 503, "true", false),
    ] {
        let name = match profile {
            Profile::Ietf => "idempotency-replayed",
            _ => "idempotent-replayed",
        };
        let headers = [(name, mark), ("retry-after", "1")];
        let script = Script::new([answer(status, &headers, "stored")]);
        let client = script.client(requests().profile(profile));
        let response = client.post(URL).send().await.unwrap();
        let answer = Answer::of(&response).unwrap();
        assert!(answer.is_replay() && script.tries() == 1, "{status}");
        assert_eq!(answer.ends_key(), ends_key, "{status}");
    }
    let (response, tries) = send(answer(503, &[("idempotency-replayed", "false")], "")).await;
    assert!(tries == 2 && !Answer::of(&response).unwrap().is_replay());
}

/// No layer stores such a response: a gateway has forwarded the mark.
#[tokio::test(start_paused = true)]
async fn a_forwarded_mark_does_not_end_the_tries() {
    for status in [429, 502, 503, 504] {
        let mark = [("idempotency-replayed", "true")];
        let (response, tries) = send(answer(status, &mark, "busy")).await;
        assert_eq!((tries, response.status().as_u16()), (2, 200), "{status}");
        assert!(!Answer::of(&response).unwrap().is_replay(), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_problem_is_read_and_the_caller_still_has_the_body() {
    let body = r#"{"type": "urn:idempotence:outcome_unknown", "title": "T", "status": 409, "detail": "D",
        "code": "outcome_unknown", "client_action": "refresh", "silent": true, "retry_after_ms": 1500}"#;
    let headers = [
        ("content-type", "application/Problem+JSON; charset=utf-8"),
        ("x", "y"),
    ];
    let (response, _) = send(answer(409, &headers, body)).await;
    let answer = Answer::of(&response).unwrap().clone();
    let problem = answer.problem().unwrap();
    assert_eq!(problem.kind(), Some("urn:idempotence:outcome_unknown"));
    assert_eq!((problem.title(), problem.detail()), (Some("T"), Some("D")));
    assert_eq!(problem.client_action(), Some(ClientAction::Refresh));
    assert!(problem.is_silent());
    assert_eq!(problem.retry_after(), Some(Duration::from_millis(1500)));
    assert_eq!(answer.retry_after(), problem.retry_after());
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x"]),
        (409, &"y".parse().unwrap())
    );
    assert_eq!(response.text().await.unwrap(), body);
}

#[tokio::test(start_paused = true)]
async fn problems_of_stripe_and_acp_are_read() {
    let json = [("content-type", "application/json")];
    for body in [
        r#"{"error": {"type": "idempotency_error", "code": "c", "message": "M"}}"#,
        r#"{"type": "idempotency_error", "code": "c", "message": "M"}"#,
    ] {
        let (response, _) = send(answer(400, &json, body)).await;
        let problem = Answer::of(&response).unwrap().problem().cloned().unwrap();
        let members = (
            problem.kind(),
            problem.code(),
            problem.detail(),
            problem.client_action(),
        );
        assert_eq!(
            members,
            (Some("idempotency_error"), Some("c"), Some("M"), None)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_bodies_are_no_problems_and_reach_the_caller() {
    let deep = format!("{{\"code\":{}", "[".repeat(10_000));
    let long = format!("{{\"code\": \"{}\"}}", "x".repeat(100_000));
    for (content_type, body) in [
        ("application/problem+json", "[1, 2]"),
        ("application/problem+json", "\"text\""),
        ("application/problem+json", ""),
        ("application/problem+json", "{\"code\":"),
        ("application/problem+json", &deep),
        ("application/problem+json", &long),
        (
            "text/html",
            "{\"code\": \"in_progress\", \"client_action\": \"wait\"}",
        ),
        (
            "text/problem+json",
            "{\"code\": \"in_progress\", \"client_action\": \"wait\"}",
        ),
    ] {
        let (response, tries) = send(answer(409, &[("content-type", content_type)], body)).await;
        assert!(tries == 1 && Answer::of(&response).unwrap().problem().is_none());
        assert_eq!(response.text().await.unwrap(), body);
    }
    let odd = r#"{"code": 7, "client_action": "explode", "retry_after_ms": -1, "detail": null}"#;
    let (response, _) = send(answer(409, &[("content-type", "application/json")], odd)).await;
    let problem = Answer::of(&response).unwrap().problem().cloned().unwrap();
    assert_eq!(
        (
            problem.code(),
            problem.client_action(),
            problem.retry_after()
        ),
        (None, None, None)
    );
}
