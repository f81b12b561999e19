//! Asks before something that cannot be undone.

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::exit::Failure;
use crate::output::note;

/// Asks on the terminal. `otherwise`: the failure after another answer than yes.
pub(crate) fn confirm(question: &str, otherwise: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::refused("nobody can be asked here: write --yes"));
    }
    note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::runtime(format!("cannot read the answer: {error}")))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::refused(otherwise))
}
