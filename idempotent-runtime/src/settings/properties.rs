//! Any text in a file or the environment is read, or each mistake is reported.

use std::path::Path;

use arbtest::arbitrary::{Result, Unstructured};

use super::overrides::NAMES;
use super::table::SettingsTable;
use super::{env, file};
use crate::cases::cases;
use crate::policy::{Policy, duration};

/// Text made of `pieces` and of arbitrary text.
fn text(u: &mut Unstructured<'_>, pieces: &[&str]) -> Result<String> {
    let mut text = String::new();
    for _ in 0..u.int_in_range(0..=12)? {
        if u.ratio(1, 6)? {
            text.push_str(u.arbitrary()?);
        } else {
            text.push_str(u.choose(pieces)?);
        }
    }
    Ok(text)
}

/// Besides the names of the settings.
const IN_A_FILE: [&str; 22] = [
    "[all]\n",
    "[endpoints.\"a.b\"]\n",
    "[endpoints]\n",
    "[",
    "]",
    "\n",
    "\r\n",
    " = ",
    "\"30s\"\n",
    "\"refuse\"\n",
    "'",
    "\"",
    "\"\"\"",
    "\\u{0}",
    "1",
    "true\n",
    "{",
    "}",
    ".",
    "é",
    "\u{feff}",
    "#",
];
const IN_A_DURATION: [&str; 16] = [
    "1",
    "0",
    "30",
    "00",
    "18446744073709551616",
    "36500",
    "ms",
    "s",
    "m",
    "h",
    "d",
    " ",
    "-",
    ".",
    "é",
    "\0",
];
const IN_A_NAME: [&str; 12] = [
    "IDEMPOTENCE_",
    "_",
    "__",
    "TTL",
    "LEASE",
    "WAIT",
    "ON_STORE_ERROR",
    "DISABLED",
    "A_B",
    "ttl",
    "PORT",
    "é",
];

#[test]
fn any_file_is_read_or_its_mistakes_are_reported() {
    let path = Path::new("settings.toml");
    let pieces = [&IN_A_FILE, NAMES].concat();
    cases(200, |u| {
        let text = text(u, &pieces)?;
        let mut problems = Vec::new();
        let layer = file::parse(path, &text, &mut problems);
        for problem in &problems {
            assert!(problem.starts_with("settings.toml:"), "{problem}");
            assert!(!problem.contains(char::is_control), "{problem:?}");
        }
        let table = SettingsTable::new(layer, env::read(std::iter::empty(), &mut problems));
        let _ = (table.unknown_endpoints(&["a.b"]), table.resolve("a.b"));
        Ok(())
    });
}

#[test]
fn any_variable_is_read_or_its_mistake_is_reported() {
    cases(200, |u| {
        let variables = [(); 3].map(|()| Ok((text(u, &IN_A_NAME)?, text(u, &IN_A_DURATION)?)));
        let variables: Vec<_> = variables.into_iter().collect::<Result<_>>()?;
        let mut problems = Vec::new();
        env::read(variables.into_iter(), &mut problems);
        for problem in &problems {
            assert!(!problem.contains(char::is_control), "{problem:?}");
        }
        Ok(())
    });
}

#[test]
fn any_duration_fits_a_policy_or_its_mistake_is_reported() {
    let mut read = 0;
    cases(100, |u| {
        let written = text(u, &IN_A_DURATION)?;
        match duration::read(&written) {
            Ok(duration) => {
                read += 1;
                assert!(Policy::new(duration).times().is_ok(), "{written}");
                let printed = duration::Written(duration).to_string();
                assert_eq!(
                    duration::read(&printed),
                    Ok(duration),
                    "{written} as {printed}"
                );
            }
            Err(problem) => assert!(!problem.contains(char::is_control), "{problem:?}"),
        }
        Ok(())
    });
    assert!(read > 50, "only {read} of the texts were durations");
}
