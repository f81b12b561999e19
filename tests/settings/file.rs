//! Settings from a file.

use crate::File;

#[test]
fn a_file_that_is_missing_is_an_error() {
    let file = File::new("");
    let name = file.path().display().to_string();
    std::fs::remove_file(file.path()).unwrap();
    let error = file.handle().unwrap_err().to_string();
    let begin = format!("cannot read the settings file {name}: ");
    assert!(error.starts_with(&begin), "{error}");
}

#[test]
fn an_empty_file_sets_nothing() {
    let handle = File::new("").handle().unwrap();
    assert_eq!(handle.settings_problems(), [""; 0]);
}

#[test]
fn all_mistakes_are_reported_at_once_a_line_each() {
    let file =
        File::new("[all]\ntll = \"1m\"\nwait = 2\n[endpoints.\"orders.pay\"]\nlease = \"5x\"\n");
    let error = file.handle().unwrap_err();
    let text = error.to_string();
    assert_eq!(text, format!("{error:?}").replace('\n', "; "));
    assert_eq!(
        format!("{error:?}"),
        format!(
            "{}:1: unknown setting `tll`: did you mean `ttl`?\n\
             {}:1: `wait` in `[all]`: a duration needs a unit: write `\"2s\"`\n\
             {}:1: `lease` of `orders.pay`: `5x` is not a duration: write whole numbers with a unit of `ms`, `s`, `m`, `h` or `d`, \
             the larger unit first, as in `30s` or `1h30m`",
            file.at(2),
            file.at(3),
            file.at(5)
        )
    );
}

#[test]
fn a_mistake_in_the_name_of_a_route_is_reported() {
    for (text, line, what) in [
        (
            "[endpoints.\"post /a\"]",
            1,
            "`post /a` cannot name an endpoint: it has the method `post`; write the method in capitals, as in `POST /orders`",
        ),
        (
            "[endpoints.\"POST /a\"]\n[endpoints.\"POST./a\"]",
            2,
            "`POST./a` and `POST /a` are the same endpoint: write one of them",
        ),
    ] {
        let file = File::new(text);
        let error = file.handle().unwrap_err().to_string();
        assert_eq!(error, format!("{}:12: {what}", file.at(line)));
    }
}
