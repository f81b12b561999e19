//! What the command prints: tables for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::exit::Failure;

/// Standard output. Nothing is coloured and no heading is bold, unless it is a terminal and `NO_COLOR` is not set.
pub(crate) struct Output {
    out: io::Stdout,
    json: bool,
    styled: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let out = io::stdout();
        let styled = out.is_terminal() && !no_color;
        Self { out, json, styled }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.raw(format!("{text}\n").as_bytes())
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = self.out.lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// Bytes of a program, and a line end. A terminal would obey their control characters, so it gets them escaped.
    pub(crate) fn foreign(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.out.is_terminal() {
            return self.line(&printable(bytes));
        }
        self.raw(bytes)?;
        self.line("")
    }

    /// One value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(&to_json(value)?)
    }

    /// Rows below their headings, in columns as wide as their longest cell.
    pub(crate) fn table<const N: usize>(
        &mut self,
        headings: [&str; N],
        rows: &[[String; N]],
    ) -> Result<(), Failure> {
        let mut widths = headings.map(|heading| heading.chars().count());
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let heading = columns(&headings.map(str::to_owned), widths);
        if self.styled {
            self.line(&format!("\u{1b}[1m{heading}\u{1b}[0m"))?;
        } else {
            self.line(&heading)?;
        }
        for row in rows {
            self.line(&columns(row, widths))?;
        }
        Ok(())
    }

    /// Ends the process: prints a failure to stderr.
    pub(crate) fn exit(&self, outcome: Result<(), Failure>) -> ExitCode {
        let Err(failure) = outcome else {
            return ExitCode::SUCCESS;
        };
        if !failure.text.is_empty() {
            let text = match to_json(&Refused {
                error: &failure.text,
                code: failure.code,
            }) {
                Ok(json) if self.json => json,
                _ => format!("error: {}", failure.text),
            };
            note(&text);
        }
        ExitCode::from(failure.code)
    }
}

#[derive(Serialize)]
struct Refused<'a> {
    error: &'a str,
    code: u8,
}

/// Prints a line to stderr, which may be closed.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::runtime(error.to_string()))
}

fn columns<const N: usize>(cells: &[String; N], widths: [usize; N]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(cell);
        let padding = width - cell.chars().count() + 2;
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.truncate(line.trim_end().len());
    line
}

fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for char in String::from_utf8_lossy(bytes).chars() {
        if char.is_control() && !matches!(char, '\n' | '\t') {
            text.extend(char.escape_default());
        } else {
            text.push(char);
        }
    }
    text
}

/// A duration for people: two units at most.
pub(crate) fn duration(duration: Duration) -> String {
    let whole = if duration < Duration::from_secs(10) {
        Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    } else {
        Duration::from_secs(duration.as_secs())
    };
    let text = humantime::format_duration(whole).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// `2026-11-21T09:30:00Z`.
pub(crate) fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_two_units_at_most() {
        for (millis, text) in [
            (0, "0s"),
            (1_250, "1s 250ms"),
            (61_250, "1m 1s"),
            (90_061_000, "1day 1h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(printable(b"a\x1b[2J\nb\xff"), "a\\u{1b}[2J\nb\u{fffd}");
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let row = ["é".to_owned(), "b".to_owned()];
        assert_eq!(columns(&row, [3, 1]), "é    b");
    }
}
