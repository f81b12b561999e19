//! What the command says about itself.

use std::fs;
use std::path::Path;

use crate::support::run;

#[test]
fn the_help_is_the_expected_text() {
    let help = run("", &["--help"]).ok();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help.txt");
    if std::env::var_os("UPDATE_HELP").is_some() {
        fs::write(&path, &help).unwrap();
    }
    assert_eq!(
        help,
        fs::read_to_string(path).unwrap(),
        "run this with UPDATE_HELP=1, and read the difference"
    );
}

#[test]
fn every_command_has_help_and_the_shells_have_completions() {
    for command in [
        "ls", "show", "release", "tail", "doctor", "config", "probe", "bench", "migrate", "purge",
    ] {
        let help = run("", &[command, "--help"]).ok();
        assert!(help.contains("Usage: idempotence "), "{help}");
    }
    let completions = run("", &["completions", "bash"]).ok();
    assert!(completions.contains("release"));
    assert!(run("", &["man"]).ok().contains(".SH SYNOPSIS"));
}
