//! A line of progress, if a command takes longer than a second.

use std::process::Command;

use crate::support::{command, sqlite};

/// Four rounds of half a second: from the third on there is a line, on a terminal.
const SLOW: [&str; 7] = ["bench", "--for", "1s", "--callers", "2", "--yes", "--json"];

#[test]
fn a_slow_command_prints_no_progress_if_stderr_is_no_terminal() {
    let ran = command(&sqlite(), &SLOW).output().unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{err}");
    assert!(!err.contains("round"), "{err}");
}

/// `script` of util-linux runs a command on a terminal of its own, and prints all that the terminal shows.
#[cfg(target_os = "linux")]
#[test]
fn a_slow_command_prints_its_progress_on_a_terminal() {
    let slow = command(&sqlite(), &SLOW);
    let words = [slow.get_program()].into_iter().chain(slow.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
    let mut terminal = Command::new("script");
    terminal.args([
        "--quiet",
        "--return",
        "--command",
        &words.join(" "),
        "/dev/null",
    ]);
    for (name, value) in slow.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    let shown = terminal.env("TERM", "xterm").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("round 4 of 4"), "{shown}");
    let last = shown.lines().last().unwrap();
    assert!(
        last.contains("[{\"what\":\"call\""),
        "the line of progress is not cleared: {shown}"
    );
}
