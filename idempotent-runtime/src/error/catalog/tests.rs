use super::super::duplicate::DuplicateState;
use super::*;

#[test]
fn every_kind_has_its_own_code() {
    let mut codes = Error::samples().map(|error| error.code());
    codes.sort_unstable();
    assert!(codes.windows(2).all(|pair| pair[0] != pair[1]), "{codes:?}");
}

#[test]
fn clients_repeat_only_calls_whose_body_did_not_run() {
    for error in Error::samples() {
        let action = error.client_action();
        let expected = match error.code() {
            "in_progress" | "limit_reached" | "store_unavailable" => "wait",
            "token_used" | "token_unknown" => "new_token",
            "already_done" => "ignore",
            "taken" | "outcome_unknown" | "result_unavailable" | "lease_lost" => "refresh",
            _ => "fix",
        };
        assert_eq!(action.as_str(), expected, "{error}");
    }
}

#[test]
fn errors_that_ask_for_a_wait_have_a_retry_after() {
    for error in Error::samples() {
        let has_retry_after = error.retry_after().is_some();
        match error.client_action() {
            ClientAction::Wait => assert!(has_retry_after, "{error}"),
            _ => assert_eq!(has_retry_after, error.is_duplicate(), "{error}"),
        }
    }
}

#[test]
fn clients_do_not_wait_for_the_key_of_an_ended_call() {
    for error in Error::samples().iter().filter(|error| error.is_duplicate()) {
        let duplicate = error.duplicate().expect("a duplicate");
        if duplicate.state() != DuplicateState::Running {
            assert_eq!(error.retry_after(), duplicate.free_in(), "{error}");
            assert_ne!(error.client_action(), ClientAction::Wait, "{error}");
        }
    }
}

#[test]
fn a_request_that_nobody_does_is_not_silent_and_is_asked_to_come_again() {
    let samples = Error::samples();
    let running = |error: &&Error| matches!(error, Error::InProgress(_));
    let mut error = samples.iter().find(running).expect("a sample").clone();
    assert!(error.is_silent());
    let code = error.code();
    if let Error::InProgress(running) = &mut error {
        running.0.is_equal = false;
    }
    assert!(!error.is_silent() && !error.is_duplicate());
    assert_eq!(
        (error.code(), error.client_action()),
        (code, ClientAction::Wait)
    );
    assert!(error.text(Lang::En).contains("try again"));
}

#[test]
fn every_error_has_a_text_in_both_languages() {
    for error in Error::samples() {
        let (en, zh_hans) = (error.text(Lang::En), error.text(Lang::ZhHans));
        assert!(en.is_ascii() && en.ends_with('.'), "{en}");
        // Chinese has its own comma: ，
        assert!(zh_hans.chars().all(|char| !char.is_ascii()), "{zh_hans}");
    }
}

#[test]
fn a_custom_language_uses_english_for_missing_texts() {
    let french = Lang::custom("fr", |code| match code {
        "taken" => Some("Votre demande a déjà été reçue."),
        _ => None,
    });
    for error in Error::samples() {
        let expected = match error.code() {
            "taken" => "Votre demande a déjà été reçue.",
            _ => error.text(Lang::En),
        };
        assert_eq!(error.text(french), expected);
    }
}

#[test]
fn texts_that_ask_for_different_actions_differ() {
    let errors = Error::samples();
    for (a, b) in errors
        .iter()
        .flat_map(|a| errors.iter().map(move |b| (a, b)))
    {
        if a.client_action() != b.client_action() {
            assert_ne!(a.text(Lang::En), b.text(Lang::En));
            assert_ne!(a.text(Lang::ZhHans), b.text(Lang::ZhHans));
        }
    }
}

#[test]
fn the_http_status_says_who_can_help() {
    for error in Error::samples() {
        let expected = match error.code() {
            "token_malformed" => 400,
            "in_progress" | "already_done" | "taken" | "outcome_unknown" | "result_unavailable"
            | "token_used" => 409,
            "token_unknown" => 410,
            "payload_mismatch" => 422,
            "limit_reached" => 429,
            "store_unavailable" => 503,
            _ => 500,
        };
        assert_eq!(error.http_status(), expected, "{error}");
    }
}
