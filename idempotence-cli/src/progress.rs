//! What a command does at the moment, on a terminal, if it takes longer than a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on stderr that vanishes with this value. Nothing is written if stderr is no terminal.
pub(crate) struct Progress {
    line: ProgressBar,
    begin: Instant,
}

/// A command that is faster writes no line.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

impl Progress {
    pub(crate) fn new() -> Self {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        line.set_style(ProgressStyle::default_spinner());
        Self {
            line,
            begin: Instant::now(),
        }
    }

    pub(crate) fn say(&self, what: String) {
        self.line.set_message(what);
        if self.line.is_hidden() && self.begin.elapsed() >= PATIENCE {
            self.line.set_draw_target(ProgressDrawTarget::stderr());
            self.line.enable_steady_tick(TICK);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
