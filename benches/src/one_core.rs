//! Keeps the client and the servers on one core.

use std::fs;
use std::process::{Command, Stdio, id};
use std::thread::available_parallelism;

/// While this exists, this process and the processes that it has started run on one core.
///
/// With one task either the client works or the server does. On two idle cores the scheduler leaves them on one core in some laps
/// and wakes another core for each message in others, which takes seven times as long. So a comparison would be chance. Only
/// Linux pins processes.
pub struct OneCore {
    /// How many cores this process may use.
    all: usize,
}

impl OneCore {
    /// Pins the processes.
    pub fn pin() -> Self {
        // Afterwards only one is available.
        let all = available_parallelism().map_or(1, usize::from);
        run_on("0");
        Self { all }
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        run_on(&format!("0-{}", self.all - 1));
    }
}

fn run_on(cores: &str) {
    let mut processes = vec![id().to_string()];
    while let Some(process) = processes.pop() {
        let _ = Command::new("taskset")
            .args(["--all-tasks", "--cpu-list", "--pid", cores, &process])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            processes.extend(children.split_whitespace().map(str::to_owned));
        }
    }
}
