//! Processes that can be killed: this test program starts itself again.

use std::env::{current_exe, var};
use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::iter;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tokio::runtime::Runtime;

use crate::crash::flow::{self, Flow, Order};

/// A process that makes one call.
pub(crate) struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(flow: Flow, url: &str, order: &Order) -> Self {
        let mut process = Self::start_in_steps(flow, url, order);
        process.go_on();
        process
    }

    /// Starts a process that waits for permission before each [`step`].
    pub(crate) fn start_in_steps(flow: Flow, url: &str, order: &Order) -> Self {
        let call = format!("{flow:?} {} {}", order.number, order.by);
        Self::spawn("crash::process::another_process", &call, url)
    }

    /// Starts a process that runs a test of this program, with this call in its environment.
    pub(crate) fn spawn(test: &str, call: &str, url: &str) -> Self {
        let mut child = Command::new(current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CALL, call)
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        Self {
            orders: child.stdin.take(),
            lines: BufReader::new(stdout).lines(),
            child,
        }
    }

    /// Waits until the process reaches its next step, and returns it. `None` after the last step.
    pub(crate) fn next_step(&mut self) -> Option<String> {
        self.line_after(STEP)
    }

    /// Permits the next step.
    pub(crate) fn take_step(&mut self) {
        writeln!(self.orders.as_mut().unwrap()).unwrap();
    }

    /// Permits all steps.
    pub(crate) fn go_on(&mut self) {
        self.orders = None;
    }

    /// Waits for the answer, or for the reason why there is none.
    pub(crate) fn answer(&mut self) -> Result<String, String> {
        let end = self.line_after(END).unwrap_or("killed".to_owned());
        match end.strip_prefix(ANSWER) {
            Some(answer) => Ok(answer.to_owned()),
            None => Err(end),
        }
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the process, and returns the rest of each line that begins with the mark.
    pub(crate) fn all_after(&mut self, mark: &str) -> Vec<String> {
        iter::from_fn(|| self.line_after(mark)).collect()
    }

    fn line_after(&mut self, mark: &str) -> Option<String> {
        self.lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.strip_prefix(mark)?.to_owned())
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for permission to take a step, if the process was started in steps.
pub(crate) fn step(step: &str) {
    println!("\n{STEP}{step}");
    stdin().read_line(&mut String::new()).unwrap();
}

pub(crate) const CALL: &str = "IDEMPOTENCE_TEST_CALL";
pub(crate) const URL: &str = "IDEMPOTENCE_TEST_URL";
const STEP: &str = "step: ";
const END: &str = "end: ";
const ANSWER: &str = "answer: ";

/// The code of the processes. Does nothing without the environment that [`Process::start`] sets.
#[test]
fn another_process() {
    let (Ok(call), Ok(url)) = (var(CALL), var(URL)) else {
        return;
    };
    let [flow, number, by] = call.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{call}");
    };
    let order = Order {
        number: number.parse().unwrap(),
        by: by.to_owned(),
    };
    let flow = Flow::named(flow);
    let end = Runtime::new()
        .unwrap()
        .block_on(flow::pay(flow, &url, &order));
    match end {
        Ok(answer) => println!("\n{END}{ANSWER}{answer}"),
        Err(error) => println!("\n{END}{error:?}"),
    }
}
