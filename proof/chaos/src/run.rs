//! One run: servers, workers, what is done to them, and the check of what they did.

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
use crate::history::{self, History, What};
use crate::plan::{self, ToWorker, random};
use crate::servers::{Servers, Topology};
use crate::worker::Work;

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The program that is a worker when it is told to.
    pub program: PathBuf,
    /// The servers.
    pub topology: Topology,
    /// What every random number comes from.
    pub seed: u64,
    /// How long it lasts, without what it takes to start and to end.
    pub lasts: Duration,
    /// How many workers there are at a time.
    pub workers: u32,
    /// How many callers each of them has.
    pub callers: u32,
    /// What is broken on purpose.
    pub fault: Fault,
}

/// What came of a run. The folder of its histories stays until it is told to go.
#[derive(Debug)]
pub struct Outcome {
    /// What the check found.
    pub verdict: Verdict,
    /// The histories, and what stood in the store.
    pub folder: PathBuf,
    setup: Setup,
}

impl Outcome {
    /// Removes the histories.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn forget(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }
}

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

/// Runs once. Ends by itself: what does not end in time is killed, and that is a violation.
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
    let run = Arc::new(Run {
        ends: Instant::now() + setup.lasts,
        processes: AtomicU32::new(1),
        servers,
        history,
        folder,
        setup,
    });

    let mut places = JoinSet::new();
    for place in 0..run.setup.workers {
        places.spawn(Arc::clone(&run).one_place(place));
    }
    let suffered = run.to_server().await;
    let mut workers = Vec::new();
    while let Some(worker) = places.join_next().await {
        workers.push(worker.map_err(io::Error::other)??);
    }
    suffered?;
    // All at once, so that none has the store for itself.
    for worker in &mut workers {
        worker.alive = None;
    }
    for mut worker in workers {
        worker.end().await?;
    }

    let standing = block_in_place(|| run.servers.standing())?;
    standing.save(&run.folder.join("standing"))?;
    let lines = run.lines()?;
    Ok(Outcome {
        verdict: block_in_place(|| check(&lines, &standing)),
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
    /// Waits, unless the end comes first.
    async fn goes_on_after(&self, pause: Duration) -> bool {
        let then = Instant::now() + pause;
        sleep_until(then.min(self.ends)).await;
        then < self.ends
    }

    async fn to_server(&self) -> io::Result<()> {
        for (pause, act) in plan::to_server(random(self.setup.seed, 1)) {
            if !self.goes_on_after(pause).await {
                break;
            }
            self.servers.suffer(act).await?;
        }
        Ok(())
    }

    /// One worker after another in one place, until the end. Returns the last.
    async fn one_place(self: Arc<Self>, place: u32) -> io::Result<Worker> {
        let mut worker = self.start(place)?;
        for (pause, act) in plan::to_worker(self.setup.seed, place) {
            if !self.goes_on_after(pause).await {
                break;
            }
            match act {
                ToWorker::Kill => {
                    block_in_place(|| worker.kill())?;
                    self.history.note(What::Killed(worker.process));
                    worker = self.start(place)?;
                }
                ToWorker::Stop(lasts) => {
                    self.history.note(What::Stopped(worker.process));
                    stop_for(worker.child.id(), lasts).await?;
                    self.history.note(What::Continued(worker.process));
                }
            }
        }
        Ok(worker)
    }

    fn start(&self, place: u32) -> io::Result<Worker> {
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        let work = Work {
            process,
            url: self.servers.url(place, process),
            history: self.folder.join(format!("worker-{process}")),
            seed: self.setup.seed,
            callers: self.setup.callers,
            fault: self.setup.fault,
        };
        Worker::start(&self.setup.program, &work, &self.folder)
    }

    /// Everything that was written down.
    fn lines(&self) -> io::Result<Vec<history::Line>> {
        let mut lines = history::read(&self.folder.join("controller"))?;
        for process in 1..self.processes.load(Ordering::Relaxed) {
            let path = self.folder.join(format!("worker-{process}"));
            // One that was killed at once has none.
            if path.exists() {
                lines.extend(history::read(&path)?);
            }
        }
        Ok(lines)
    }
}

/// A process that works as long as its standard input is open.
#[derive(Debug)]
struct Worker {
    process: u32,
    child: Child,
    alive: Option<PipeWriter>,
}

impl Worker {
    fn start(program: &Path, work: &Work, folder: &Path) -> io::Result<Self> {
        let (reader, alive) = io::pipe()?;
        let mut stderr = fs::OpenOptions::new();
        let stderr = stderr
            .create(true)
            .append(true)
            .open(folder.join("stderr"))?;
        let child = Command::new(program)
            .arg("worker")
            .args(work.args())
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()?;
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

    /// Waits until it has ended by itself. If it does not, it is killed without a word, and missed.
    async fn end(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(40);
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.kill();
    }
}

/// Stops a process and lets it go on. A shell does both, so that it goes on whatever becomes of this
/// process.
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
