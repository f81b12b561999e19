//! The page `docs/guide/errors.md` and the script for browsers have the same rules as the middleware.

use idempotence_client::Answer;

use crate::script::{Script, URL, answer, problem, requests};

const PAGE: &str = include_str!("../../../docs/guide/errors.md");
const SCRIPT: &str = include_str!("../../../examples/front_end.js");

/// The cells of the rows of the table for clients.
fn rows() -> Vec<Vec<&'static str>> {
    let lines = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("| `code()` | HTTP |"));
    let lines = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    lines.map(cells).collect()
}

#[tokio::test(start_paused = true)]
async fn each_error_of_the_page_is_repeated_and_ends_its_key_as_the_page_says() {
    let (mut errors, mut compared) = (0, 0);
    for row in rows() {
        let [codes, status, action, _, front_end] = row[..] else {
            panic!("{row:?}");
        };
        let (status, action) = (status.parse().unwrap(), action.trim_matches('`'));
        let says = |words: &[&str]| words.iter().any(|words| front_end.contains(words));
        for code in codes.split(", ").map(|code| code.trim_matches('`')) {
            errors += 1;
            let script = Script::new((0..99).map(|_| problem(status, code, action)));
            let response = script.client(requests()).post(URL).send().await.unwrap();
            let answer = Answer::of(&response).unwrap();
            assert_eq!(answer.tries() > 1, action == "wait", "{code}");
            if says(&["makes a new id"]) {
                assert!(answer.ends_key(), "{code}");
                compared += 1;
            } else if says(&["keeps the id", "with the same id", "operators must fix"]) {
                assert!(!answer.ends_key(), "{code}");
                compared += 1;
            }
        }
    }
    assert_eq!((errors, compared), (17, 15));
}

#[tokio::test(start_paused = true)]
async fn answers_without_a_problem_are_repeated_after_the_statuses_of_the_script() {
    let (_, list) = SCRIPT
        .split_once("const later = ok || [")
        .expect("the list of the script");
    let (list, _) = list.split_once(']').unwrap();
    let later: Vec<u16> = list
        .split(", ")
        .map(|status| status.parse().unwrap())
        .collect();
    for status in 400..600 {
        let script = Script::new([answer(status, &[], "<h1>nginx</h1>")]);
        script.client(requests()).post(URL).send().await.unwrap();
        assert_eq!(script.tries() == 2, later.contains(&status), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_codes_after_which_the_script_keeps_the_id_keep_the_key() {
    let list = |begin: &str, end| {
        let (_, list) = SCRIPT.split_once(begin).expect("the list of the script");
        list.split_once(end).unwrap().0.replace('"', "")
    };
    for (list, status, action) in [
        (list("const UNKNOWN = [", "]"), 409, "refresh"),
        (list("const OF_THIS_TRY = [", "]"), 422, "fix"),
    ] {
        for code in list.split(", ").chain(["another"]) {
            let script = Script::new([problem(status, code, action)]);
            let response = script.client(requests()).post(URL).send().await.unwrap();
            assert_eq!(
                Answer::of(&response).unwrap().ends_key(),
                code == "another",
                "{code}"
            );
        }
    }
}
