use super::super::duplicate::DuplicateState;
use super::*;

#[test]
fn every_kind_has_a_code_of_its_own() {
    let mut codes = Error::samples().map(|error| error.code());
    codes.sort_unstable();
    assert!(codes.windows(2).all(|pair| pair[0] != pair[1]), "{codes:?}");
}

#[test]
fn only_calls_whose_body_did_not_run_are_to_be_repeated() {
    for error in Error::samples() {
        let action = error.client_action();
        let expected = match error.code() {
            "in_progress" | "limit_reached" | "store_unavailable" => "wait",
            "token_used" | "token_unknown" => "new_token",
            "already_done" | "taken" => "ignore",
            "result_unavailable" | "lease_lost" => "refresh",
            _ => "fix",
        };
        assert_eq!(action.as_str(), expected, "{error}");
    }
}

#[test]
fn whoever_should_wait_is_told_for_how_long() {
    for error in Error::samples() {
        let told = error.retry_after().is_some();
        match error.client_action() {
            ClientAction::Wait => assert!(told, "{error}"),
            _ => assert_eq!(told, error.is_duplicate(), "{error}"),
        }
    }
}

#[test]
fn the_key_of_a_call_that_is_over_is_not_worth_a_wait() {
    for error in Error::samples().iter().filter(|error| error.is_duplicate()) {
        let duplicate = error.duplicate().expect("a duplicate");
        if duplicate.state() != DuplicateState::Running {
            assert_eq!(error.retry_after(), duplicate.free_in(), "{error}");
            assert_ne!(error.client_action(), ClientAction::Wait, "{error}");
        }
    }
}

#[test]
fn every_error_has_a_text_in_both_languages() {
    for error in Error::samples() {
        let (en, zh_hans) = (error.text(Lang::En), error.text(Lang::ZhHans));
        assert!(en.is_ascii() && en.ends_with('.'), "{en}");
        assert!(
            zh_hans.chars().all(|char| char == ',' || !char.is_ascii()),
            "{zh_hans}"
        );
    }
}

#[test]
fn a_language_of_the_program_has_its_texts_and_english_for_the_rest() {
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
