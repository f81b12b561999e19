//! One run: its servers, workers and faults, and the check of the histories.

use std::fmt;
use std::io::{self, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use tokio::task::{JoinSet, block_in_place, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until};

use crate::broken::Fault;
use crate::check::{Verdict, check};
use crate::child;
use crate::history::{self, History, HistoryEvent, NOTED};
use crate::outcome;
use crate::plan::{self, WorkerFault, random};
use crate::probe::STORE;
use crate::servers::{Servers, Topology};
use crate::worker::{BACKGROUND, Work, note_late_tasks, settles_in_background};

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The program that is a worker when its first argument is `worker`.
    pub program: PathBuf,
    /// The servers.
    pub topology: Topology,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How long the run lasts, without its start and its end.
    pub lasts: Duration,
    /// Whether operations go in batches.
    pub batches: bool,
    /// The number of workers at a time.
    pub workers: u32,
    /// The number of callers of each worker.
    pub callers: u32,
    /// The mistake of a run.
    pub fault: Fault,
}

/// The result of a run. Its folder also has the dump of the store.
pub type Outcome = outcome::Outcome<Verdict, Setup>;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup {
            topology,
            seed,
            fault,
            ..
        } = &self.setup;
        writeln!(
            f,
            "{topology:?}, seed {seed}, fault {fault}, histories in {}",
            self.folder.display()
        )?;
        for violation in self.verdict.violations.iter().take(20) {
            writeln!(f, "  {violation}")?;
        }
        write!(f, "{}", self.verdict.figures)
    }
}

/// Runs once. A process that does not end in time is killed, which is a violation.
///
/// # Errors
///
/// If a server or a worker cannot be started, or a history cannot be written or read.
pub async fn run(setup: Setup) -> io::Result<Outcome> {
    let folder = new_folder(&setup)?;
    let outcome = run_in(folder.clone(), setup).await;
    outcome.map_err(|error| {
        let message = format!("{error}; the histories are in {}", folder.display());
        io::Error::new(error.kind(), message)
    })
}

async fn run_in(folder: PathBuf, setup: Setup) -> io::Result<Outcome> {
    let history = Arc::new(History::open(&folder.join("controller"), 0)?);
    let Setup {
        topology,
        workers,
        seed,
        fault,
        ..
    } = setup;
    let servers = Servers::start(topology, workers, seed, fault, &history).await?;
    let mut watching = JoinSet::new();
    if topology.has_proxies() {
        watching.spawn(note_late_tasks(Arc::clone(&history), STORE, NOTED));
    }
    let run = Arc::new(Run {
        ends: Instant::now() + setup.lasts,
        processes: AtomicU32::new(1),
        servers,
        history,
        folder,
        setup,
    });

    let mut slots = JoinSet::new();
    for place in 0..run.setup.workers {
        slots.spawn(Arc::clone(&run).run_slot(place));
    }
    let was_interrupted = run.server_faults().await;
    let mut workers = Vec::new();
    while let Some(worker) = slots.join_next().await {
        workers.push(worker.map_err(io::Error::other)??);
    }
    was_interrupted?;
    // All workers end at the same time, so that none uses the store alone.
    for worker in &mut workers {
        worker.alive = None;
    }
    for mut worker in workers {
        worker.end().await?;
    }

    let stored = block_in_place(|| run.servers.stored())?;
    stored.save(&run.folder.join("stored"))?;
    let lines = run.lines()?;
    Ok(Outcome {
        verdict: block_in_place(|| check(&lines, &stored, topology)),
        folder: run.folder.clone(),
        setup: run.setup.clone(),
    })
}

fn new_folder(setup: &Setup) -> io::Result<PathBuf> {
    let Setup {
        topology,
        seed,
        fault,
        ..
    } = setup;
    let name = format!(
        "idempotence-chaos-{}-{topology:?}-{seed}-{fault}",
        process::id()
    );
    let folder = env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}

struct Run {
    setup: Setup,
    servers: Servers,
    history: Arc<History>,
    folder: PathBuf,
    ends: Instant,
    /// The number of the next process.
    processes: AtomicU32,
}

impl Run {
    /// Waits for `pause`, but at most until the end of the run. Returns whether the run continues.
    async fn pause_for(&self, pause: Duration) -> bool {
        let then = Instant::now() + pause;
        sleep_until(then.min(self.ends)).await;
        then < self.ends
    }

    async fn server_faults(&self) -> io::Result<()> {
        for (pause, act) in plan::server_faults(random(self.setup.seed, 1)) {
            if !self.pause_for(pause).await {
                break;
            }
            self.servers.apply(act).await?;
        }
        Ok(())
    }

    /// Runs one worker after another in a slot, until the end. Returns the last worker.
    async fn run_slot(self: Arc<Self>, place: u32) -> io::Result<Worker> {
        let mut worker = self.start(place)?;
        for (pause, act) in plan::worker_faults(self.setup.seed, place) {
            if !self.pause_for(pause).await {
                break;
            }
            match act {
                WorkerFault::Kill => {
                    block_in_place(|| worker.kill())?;
                    self.history.note(HistoryEvent::Killed(worker.process));
                    worker = self.start(place)?;
                }
                WorkerFault::Stop(lasts) => {
                    self.history.note(HistoryEvent::Stopped(worker.process));
                    stop_for(worker.child.id(), lasts).await?;
                    self.history.note(HistoryEvent::Continued(worker.process));
                }
            }
        }
        Ok(worker)
    }

    fn url(&self, place: u32, process: u32) -> String {
        let url = self.servers.url(place, process);
        let separator = if url.contains('?') { '&' } else { '?' };
        if self.setup.batches {
            url
        } else {
            format!("{url}{separator}batch=false")
        }
    }

    fn start(&self, place: u32) -> io::Result<Worker> {
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        let work = Work {
            process,
            url: self.url(place, process),
            history: self.folder.join(format!("worker-{process}")),
            seed: self.setup.seed,
            callers: self.setup.callers,
            fault: self.setup.fault,
        };
        Worker::start(&self.setup.program, &work, &self.folder)
    }

    /// All lines of all histories.
    fn lines(&self) -> io::Result<Vec<history::Line>> {
        let mut lines = history::read(&self.folder.join("controller"))?;
        for process in 1..self.processes.load(Ordering::Relaxed) {
            let path = self.folder.join(format!("worker-{process}"));
            // A worker that was killed early has no history.
            if path.exists() {
                lines.extend(history::read(&path)?);
            }
        }
        Ok(lines)
    }
}

/// A worker process. It works as long as its standard input is open.
#[derive(Debug)]
struct Worker {
    process: u32,
    child: Child,
    alive: Option<PipeWriter>,
}

impl Worker {
    fn start(program: &Path, work: &Work, folder: &Path) -> io::Result<Self> {
        let (reader, alive) = io::pipe()?;
        let setting = settles_in_background(work.process).then_some(BACKGROUND);
        let child = child::start(program, "worker", work.args(), folder, setting, reader)?;
        Ok(Self {
            process: work.process,
            child,
            alive: Some(alive),
        })
    }

    fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Waits until the worker has ended by itself. Otherwise it is killed later, and its history lacks the end.
    async fn end(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_mins(5);
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = self.kill();
    }
}

/// Pauses a process and continues it. A shell does both, so that it continues even if this process
/// ends.
async fn stop_for(pid: u32, lasts: Duration) -> io::Result<()> {
    let mut shell = Command::new("sh");
    let script = "kill -STOP \"$1\"; sleep \"$2\"; kill -CONT \"$1\"";
    shell.args(["-c", script, "sh", &pid.to_string()]);
    shell
        .arg(format!("{:.3}", lasts.as_secs_f64()))
        .stderr(Stdio::null());
    let status = spawn_blocking(move || shell.status());
    status.await.map_err(io::Error::other)?.map(drop)
}
