//! The consumers, each in its own process.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;

use super::{BIN, REDELIVER_AFTER};

/// Consumers, each in its own process, and the lines that they print.
pub(crate) struct Crew {
    url: String,
    names: Vec<&'static str>,
    processes: Vec<Child>,
    lines: (Sender<Printed>, Receiver<Printed>),
    pub(crate) seen: Seen,
}

/// The index of a process, and a line of it. `None` means that the process ended.
type Printed = (usize, Option<String>);

/// A message of one consumer.
pub(crate) enum News {
    Line(String),
    /// The process ended. Its unfinished orders, and whether they were taken from the stock.
    Dead(Vec<(String, bool)>),
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) shipped: HashMap<String, usize>,
    pub(crate) skipped: usize,
    pub(crate) found: usize,
    pub(crate) last: String,
    /// The unfinished orders of each consumer.
    pub(crate) bodies: Vec<HashMap<String, bool>>,
}

impl Crew {
    pub(crate) fn new<const N: usize>(server: &RedisServer, names: [&'static str; N]) -> Self {
        let mut crew = Self {
            url: server.url(),
            names: names.into(),
            processes: Vec::new(),
            lines: channel(),
            seen: Seen::default(),
        };
        for slot in 0..N {
            let process = crew.process(slot);
            crew.processes.push(process);
            crew.seen.bodies.push(HashMap::new());
        }
        crew
    }

    fn process(&self, slot: usize) -> Child {
        let seconds = REDELIVER_AFTER.as_secs().to_string();
        let mut process = Command::new(BIN)
            .args([&self.url, "consume", self.names[slot], &seconds])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (name, lines) = (self.names[slot], self.lines.0.clone());
        thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.unwrap();
                let line = line
                    .strip_prefix(name)
                    .and_then(|line| line.strip_prefix(": "));
                let _ = lines.send((slot, Some(line.unwrap().to_owned())));
            }
            let _ = lines.send((slot, None));
        });
        process
    }

    pub(crate) fn start(&mut self, slot: usize) {
        self.processes[slot].wait().unwrap();
        self.processes[slot] = self.process(slot);
    }

    pub(crate) fn kill(&mut self, slot: usize) {
        self.processes[slot].kill().unwrap();
    }

    /// Reads lines until `done`, which is called after each line and at intervals without a line.
    pub(crate) fn work_until(&mut self, mut done: impl FnMut(&mut Self, usize, News) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(5);
        loop {
            let (slot, news) = self.next_news();
            if done(self, slot, news) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "expected an end within five minutes: {:?}",
                self.seen
            );
        }
    }

    fn next_news(&mut self) -> (usize, News) {
        match self.lines.1.recv_timeout(Duration::from_millis(50)) {
            Ok((slot, Some(line))) => {
                self.seen.note(slot, &line);
                (slot, News::Line(line))
            }
            Ok((slot, None)) => (slot, News::Dead(self.seen.bodies[slot].drain().collect())),
            Err(_) => (0, News::Nothing),
        }
    }

    /// Stops all processes as with Ctrl-C, and reads their last lines.
    pub(crate) fn stop(mut self) -> Seen {
        for process in &self.processes {
            let id = process.id().to_string();
            let sent = Command::new("kill").args(["-INT", &id]).status();
            assert!(sent.unwrap().success());
        }
        let mut running = self.processes.len();
        self.work_until(|_, _, news| {
            running -= usize::from(matches!(news, News::Dead(_)));
            running == 0
        });
        for process in &mut self.processes {
            let status = process.wait().unwrap();
            // A process that started a moment ago does not handle the signal yet.
            assert!(status.success() || status.signal() == Some(2), "{status}");
        }
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl News {
    pub(crate) fn contains(&self, words: &str) -> bool {
        matches!(self, Self::Line(line) if line.contains(words))
    }
}

impl Seen {
    fn note(&mut self, slot: usize, line: &str) {
        let bodies = &mut self.bodies[slot];
        let mut words = line.split([' ', ':']);
        let (verb, order) = (words.next(), words.next().unwrap_or_default().to_owned());
        match verb {
            Some("packing") => drop(bodies.insert(order, false)),
            Some("posted") => drop(bodies.insert(order, true)),
            Some("found") => self.found += 1,
            Some("skipped") => self.skipped += 1,
            Some("shipped") => {
                bodies.remove(&order);
                *self.shipped.entry(order).or_default() += 1;
            }
            Some("unfinished" | "buried") => {
                bodies.remove(&order);
            }
            _ => {}
        }
        line.clone_into(&mut self.last);
    }
}
