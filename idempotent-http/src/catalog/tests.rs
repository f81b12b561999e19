use super::*;

const PAGE: &str = include_str!("../../../docs/guide/http-answers.md");

#[test]
fn the_page_of_answers_has_the_status_and_the_advice_of_each_refusal() {
    for row in ROWS {
        let code = format!("`{}`", row.code);
        let line = PAGE
            .lines()
            .find(|line| {
                line.starts_with('|')
                    && line
                        .split('|')
                        .nth(1)
                        .is_some_and(|codes| codes.contains(&code))
            })
            .unwrap_or_else(|| panic!("no row of {code}"));
        let action = format!("`{}`", row.action.as_str());
        assert!(
            line.contains(row.status.as_str()) && line.contains(&action),
            "{line}"
        );
    }
}

#[test]
fn what_the_request_should_have_is_in_both_languages() {
    for row in ROWS {
        let [en, zh_hans] = row.detail.map(|text| text.matches("{}").count());
        assert_eq!(en, zh_hans, "{}", row.code);
    }
    let problem = REQUEST_TOO_LARGE.problem("64", Lang::ZhHans);
    assert_eq!(problem.detail, "请求体最多 64 字节");
}

#[test]
fn a_language_of_the_program_replaces_the_text() {
    let french = Lang::custom("fr", |code| {
        (code == "payload_malformed").then_some("Corps ambigu.")
    });
    assert_eq!(TOO_DEEP.problem("", french).detail, "Corps ambigu.");
    let other = CALLER_MISSING.problem("", french);
    assert_eq!(other.detail, "Log in, then send the request again.");
}
