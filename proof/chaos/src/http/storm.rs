//! One storm: its Redis, its two services, its waves of clients and their faults, and the check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fmt, fs, io, process};

use idempotence_test_servers::{Port, RedisServer};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::sync::Barrier;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep};

use super::check::{Received, Rule, Verdict, check};
use super::client::{Client, ask};
use super::process::{ServiceProcess, allow_many_sockets};
use super::service::{DEADLINE, Guard, Service, body_lasts};
use crate::history::{self, Endpoint, History, HistoryEvent, Key, Line};
use crate::outcome;
use crate::plan::random;
use crate::probe::Probe;

/// The settings of a storm.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The program that is a service when its first argument is `service`.
    pub program: PathBuf,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of waves.
    pub waves: u64,
    /// The number of clients of the first key of a wave.
    pub clients: usize,
    /// The mistake of a storm.
    pub mistake: Mistake,
}

/// A mistake that the check must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing.
    None,
    /// The services do not have the layer.
    NoLayer,
    /// The services run requests while the store is unavailable, and each wave has an outage.
    RunsInOutage,
    /// The Redis persists nothing, so a restart loses claims and responses. The crate has no mistake.
    LosesData,
}

/// What happens while the body of a wave runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaveFault {
    /// Clients disconnect, as in all waves.
    Disconnects,
    /// The service that runs the body is killed and started again.
    KillRunning,
    /// The other service is killed and started again.
    KillOther,
    /// The Redis is killed and started again.
    RestartStore,
    /// The Redis is killed and started again, then the service that runs the body.
    Both,
    /// When the clients start, the Redis is stopped for longer than the deadline of the services. It then gets their claims,
    /// although they have given up.
    Outage,
    /// The same, but the Redis is killed.
    KilledOutage,
}

impl WaveFault {
    const ALL: [Self; 7] = [
        Self::KillRunning,
        Self::RestartStore,
        Self::Disconnects,
        Self::KillOther,
        Self::Both,
        Self::Outage,
        Self::KilledOutage,
    ];

    /// The fault of this wave.
    fn of(wave: u64, mistake: Mistake) -> Self {
        let count = Self::ALL.len() as u64;
        match mistake {
            Mistake::RunsInOutage => Self::Outage,
            _ => Self::ALL[usize::try_from(wave % count).unwrap_or_default()],
        }
    }

    /// Whether the store is silent when the clients start.
    fn is_outage(self) -> bool {
        matches!(self, Self::Outage | Self::KilledOutage)
    }

    fn kills_store(self) -> bool {
        matches!(self, Self::RestartStore | Self::Both)
    }
}

/// The result of a storm.
pub type Outcome = outcome::Outcome<Verdict, Setup>;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { seed, mistake, .. } = &self.setup;
        let folder = self.folder.display();
        writeln!(
            f,
            "HTTP, seed {seed}, mistake {mistake:?}, histories in {folder}"
        )?;
        let mut shown: BTreeMap<Rule, usize> = BTreeMap::new();
        for violation in &self.verdict.violations {
            let of_rule = shown.entry(violation.rule).or_default();
            *of_rule += 1;
            if *of_rule <= 5 {
                writeln!(f, "  {violation}")?;
            }
        }
        write!(f, "{}", self.verdict.figures)
    }
}

/// Runs one storm.
///
/// # Errors
///
/// If a server or a service cannot be started, or a history cannot be written or read.
pub async fn storm(setup: Setup) -> io::Result<Outcome> {
    allow_many_sockets()?;
    let Setup { seed, mistake, .. } = setup;
    let name = format!("idempotence-storm-{}-{seed}-{mistake:?}", process::id());
    let folder = env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    let appends = match mistake {
        Mistake::LosesData => "no",
        _ => "yes",
    };
    let args = ["--appendonly", appends, "--appendfsync", "always"];
    let redis = block_in_place(|| RedisServer::start_with(args))?;
    let history = Arc::new(History::open(&folder.join("controller"), 0)?);
    let mut storm = Storm {
        services: Vec::new(),
        ports: Vec::new(),
        _probe: Probe::start(redis.url(), Arc::clone(&history)),
        history,
        random: random(seed, 3),
        next_process: 1,
        redis,
        folder,
        setup,
    };
    for _ in 0..2 {
        storm.add_service().await?;
    }
    let mut received = Received::default();
    for wave in 0..storm.setup.waves {
        storm.wave(wave, &mut received).await?;
    }
    storm.ask_again(&mut received).await;
    for service in &mut storm.services {
        service.end().await?;
    }
    let lines = storm.lines()?;
    Ok(Outcome {
        verdict: check(&lines, &received),
        folder: storm.folder.clone(),
        setup: storm.setup.clone(),
    })
}

/// How many clients each of the other keys of a wave has.
const FEW_CLIENTS: usize = 20;
/// The number of keys of a wave.
const KEYS: u64 = 4;
/// How long an outage lasts: longer than a request waits for the store.
const OUTAGE: Duration = Duration::from_micros(DEADLINE + 1_500_000);
/// How long a killed server is down.
const DOWN: Duration = Duration::from_millis(200);

struct Storm {
    setup: Setup,
    redis: RedisServer,
    services: Vec<ServiceProcess>,
    /// No other server gets the port of a killed service.
    ports: Vec<Port>,
    history: Arc<History>,
    _probe: Probe,
    folder: PathBuf,
    random: StdRng,
    /// The number of the next process.
    next_process: u32,
}

impl Storm {
    /// Starts the clients of a wave at once. Applies its fault when a body of its first key runs.
    async fn wave(&mut self, wave: u64, received: &mut Received) -> io::Result<()> {
        let fault = WaveFault::of(wave, self.setup.mistake);
        let keys = keys_of(wave);
        if fault.is_outage() {
            self.history.note(HistoryEvent::ServerDown);
            match fault {
                WaveFault::Outage => block_in_place(|| self.redis.pause())?,
                _ => block_in_place(|| self.redis.kill())?,
            }
        }
        let others = FEW_CLIENTS * (keys.len() - 1);
        let barrier = Arc::new(Barrier::new(self.setup.clients + others));
        let services = [self.services[0].address, self.services[1].address];
        let mut clients = JoinSet::new();
        for number in 0..self.setup.clients + others {
            let few = number.checked_sub(self.setup.clients);
            let key = few.map_or(keys[0], |few| keys[1 + few / FEW_CLIENTS]);
            let purpose = 1000 + (wave << 16) + number as u64;
            let client = Client {
                number,
                key,
                services,
                random: random(self.setup.seed, purpose),
            };
            let barrier = Arc::clone(&barrier);
            clients.spawn(async move {
                barrier.wait().await;
                (key, client.call().await)
            });
        }
        if fault.is_outage() {
            sleep(OUTAGE).await;
            match fault {
                WaveFault::Outage => block_in_place(|| self.redis.resume())?,
                _ => block_in_place(|| self.redis.restart())?,
            }
            self.history.note(HistoryEvent::ServerUp);
        } else {
            self.apply(fault, keys[0]).await?;
        }
        while let Some(client) = clients.join_next().await {
            let (key, (answer, attempts)) = client.map_err(io::Error::other)?;
            received.storm.push((key, answer));
            let refused = attempts.last_unavailable.map(|at| (key, at));
            received.unavailable.extend(refused);
            received.attempts.push(attempts);
        }
        Ok(())
    }

    async fn apply(&mut self, fault: WaveFault, key: Key) -> io::Result<()> {
        let process = self.wait_for_body(key).await?;
        // Some faults come within the body, some come while its result is stored, some come during the replays.
        let share = self.random.random_range(0.1..1.3);
        sleep(body_lasts(key.number).mul_f64(share)).await;
        if fault.kills_store() {
            self.history.note(HistoryEvent::ServerDown);
            block_in_place(|| self.redis.kill())?;
            sleep(DOWN).await;
            block_in_place(|| self.redis.restart())?;
            self.history.note(HistoryEvent::ServerUp);
        }
        let mut services = self.services.iter();
        let running = services.position(|service| service.process == process);
        let running = running.ok_or_else(|| io::Error::other("no such service"))?;
        match fault {
            WaveFault::KillRunning | WaveFault::Both => self.replace(running).await,
            WaveFault::KillOther => self.replace(1 - running).await,
            _ => Ok(()),
        }
    }

    /// Waits until a body of the key has started. Returns its process.
    async fn wait_for_body(&self, key: Key) -> io::Result<u32> {
        let deadline = Instant::now() + Duration::from_mins(10);
        while Instant::now() < deadline {
            for line in self.lines()? {
                if let HistoryEvent::Started(call, started) = line.event
                    && started == key
                {
                    return Ok(call.process);
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
        let message = format!("no body of {key} has started within ten minutes");
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    }

    /// Kills a service and starts it again on the same port.
    async fn replace(&mut self, place: usize) -> io::Result<()> {
        let service = &mut self.services[place];
        let port = service.address.port();
        // The process may be dead long before a busy machine runs the next line.
        self.history.note(HistoryEvent::Killing(service.process));
        block_in_place(|| service.kill())?;
        self.history.note(HistoryEvent::Killed(service.process));
        sleep(DOWN).await;
        self.services[place] = self.start(port).await?;
        Ok(())
    }

    /// Starts a service on a free port.
    async fn add_service(&mut self) -> io::Result<()> {
        let port = Port::free()?;
        let service = self.start(port.number()).await?;
        self.services.push(service);
        self.ports.push(port);
        Ok(())
    }

    async fn start(&mut self, port: u16) -> io::Result<ServiceProcess> {
        let service = Service {
            process: self.next_process,
            port,
            url: self.redis.url(),
            history: self.folder.join(format!("service-{}", self.next_process)),
            guard: match self.setup.mistake {
                Mistake::NoLayer => Guard::Missing,
                Mistake::RunsInOutage => Guard::Runs,
                Mistake::None | Mistake::LosesData => Guard::Refuses,
            },
        };
        self.next_process += 1;
        ServiceProcess::start(&self.setup.program, &service, &self.folder).await
    }

    /// Sends a retry of every key to every service.
    async fn ask_again(&self, received: &mut Received) {
        let keys: BTreeSet<Key> = received.storm.iter().map(|(key, _)| *key).collect();
        for key in keys {
            for service in &self.services {
                let (answer, refused) = ask(service.address, key).await;
                let refused = refused.into_iter().map(|at| (key, at));
                received.unavailable.extend(refused);
                received.afterwards.push((key, answer));
            }
        }
    }

    /// All lines of all histories.
    fn lines(&self) -> io::Result<Vec<Line>> {
        let mut lines = history::read(&self.folder.join("controller"))?;
        for process in 1..self.next_process {
            let path = self.folder.join(format!("service-{process}"));
            if path.exists() {
                lines.extend(history::read(&path)?);
            }
        }
        Ok(lines)
    }
}

/// The keys of a wave. Requests to `Pay` are refused while another request is running, requests to `Order` wait.
fn keys_of(wave: u64) -> Vec<Key> {
    let key = |index: u64| Key {
        endpoint: if (wave + index).is_multiple_of(2) {
            Endpoint::Pay
        } else {
            Endpoint::Order
        },
        number: wave * KEYS + index,
    };
    (0..KEYS).map(key).collect()
}
