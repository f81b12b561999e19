//! One run: a customer, a bank, two processes of the shop, and their clicks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use idempotence::{Once, Store};

use super::attempt::{ATTEMPT, Attempt, Click, Log, Outcome};
use super::bank::Bank;
use super::events::{Event, Events};
use super::link::Link;
use super::mechanisms::{Mechanism, Row, Shop};
use super::order::{BuyError, Order, Receipt};
use super::report::{Report, Verdict};
use super::scenarios::{Scenario, Timing};
use super::{Database, Databases, Failure};

const USER: u64 = 7;

/// What a run is made of.
pub(crate) struct Setup<'a> {
    pub(crate) no: u64,
    pub(crate) row: &'static Row,
    pub(crate) scenario: Option<Scenario>,
    pub(crate) timing: Timing,
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) databases: &'a Databases,
    pub(crate) events: Events,
}

pub(crate) struct Run {
    no: u64,
    mechanism: &'static str,
    scenario: Option<Scenario>,
    pub(crate) timing: Timing,
    pub(crate) bank: Arc<Bank>,
    /// Keys of runs must not meet in the store.
    prefix: String,
    pages: AtomicUsize,
    nodes: Vec<Node>,
    database: Database,
    began: Instant,
    attempts: Mutex<Vec<Attempt>>,
    events: Events,
}

struct Node {
    link: Arc<Link>,
    mechanism: Box<dyn Mechanism>,
}

impl Run {
    pub(crate) async fn open(setup: Setup<'_>) -> Result<Self, Failure> {
        let prefix = format!("{}-{}", *crate::PROCESS, setup.no);
        let database = setup.databases.open(setup.no)?;
        let bank = Arc::new(Bank::new(setup.timing.pace));
        let mut nodes = Vec::new();
        for _ in 0..2 {
            let link = Arc::new(Link::new(Arc::clone(setup.store)));
            let idempotency = idempotence::Idempotency::builder(Arc::clone(&link))
                .prefix(&prefix)
                .deadline(setup.timing.deadline)
                .build()?;
            let shop = Shop {
                idempotency,
                store: Arc::clone(&link),
                pool: database.pool.clone(),
                bank: Arc::clone(&bank),
                lease: setup.timing.lease,
            };
            let mechanism = (setup.row.start)(shop).await?;
            nodes.push(Node { link, mechanism });
        }
        Ok(Self {
            no: setup.no,
            mechanism: setup.row.id,
            scenario: setup.scenario,
            timing: setup.timing,
            bank,
            prefix,
            pages: AtomicUsize::new(0),
            nodes,
            database,
            began: Instant::now(),
            attempts: Mutex::default(),
            events: setup.events,
        })
    }

    pub(crate) fn no(&self) -> u64 {
        self.no
    }

    /// Opens the page with the button, and returns what it sends with every click.
    pub(crate) async fn open_page(&self) -> Result<String, Failure> {
        let page = self.pages.fetch_add(1, Ordering::SeqCst) + 1;
        let request_id = format!("{}-page-{page}", self.prefix);
        let page = self.nodes[0].mechanism.open_page(USER, request_id).await?;
        Ok(page)
    }

    /// Sends one click that the bank knows of, and waits for its answer.
    pub(crate) async fn click(&self, click: Click) -> Attempt {
        self.bank.expect(1);
        self.send(click).await
    }

    /// Sends a click. The caller has told the bank how many clicks come.
    pub(crate) async fn send(&self, click: Click) -> Attempt {
        let (index, log) = self.begin(&click);
        let order = Order {
            user: USER,
            item: "phone",
            cents: click.cents,
            page: click.page,
        };
        let answer = ATTEMPT.scope(log, async {
            let answer = self.nodes[click.node].mechanism.buy(&order).await;
            self.bank.note_end();
            answer
        });
        let answer = answer.await;
        self.end(index, &answer)
    }

    /// The process of this node dies: nothing that it does reaches the store any more.
    pub(crate) fn kill(&self, node: usize) {
        self.nodes[node].link.cut();
        for attempt in &mut *self.attempts() {
            if attempt.node == node && attempt.outcome == Outcome::Running {
                attempt.crash(self.millis());
            }
        }
    }

    pub(crate) fn take_store_down(&self) {
        for node in &self.nodes {
            node.link.take_down();
        }
    }

    pub(crate) async fn report(&self, intents: usize) -> Result<Report, Failure> {
        let (mut charges, mut cents) = self.bank.taken();
        // A pool that was never used has no connection, and its wallet is empty.
        if self.database.pool.size() > 0 {
            let wallet = "SELECT count(*), CAST(coalesce(sum(cents), 0) AS BIGINT) FROM wallet";
            let (rows, sum): (i64, i64) = sqlx::query_as(wallet)
                .fetch_one(&self.database.pool)
                .await?;
            charges += usize::try_from(rows)?;
            cents += sum;
        }
        let attempts = self.attempts().clone();
        Ok(Report {
            run: self.no,
            mechanism: self.mechanism,
            scenario: self.scenario,
            intents,
            charges,
            cents,
            verdict: Verdict::of(self.scenario, intents, charges, &attempts),
            took: self.millis(),
            attempts,
        })
    }

    /// Removes the database.
    pub(crate) async fn close(&self) {
        self.database.remove().await;
    }

    /// Adds a row to the timeline.
    fn begin(&self, click: &Click) -> (usize, Arc<Log>) {
        let mut attempts = self.attempts();
        let index = attempts.len();
        let attempt = Attempt::new(index + 1, self.millis(), click);
        self.publish(&attempt);
        let log = Arc::clone(&attempt.log);
        attempts.push(attempt);
        (index, log)
    }

    fn end(&self, index: usize, answer: &Result<Once<Receipt>, BuyError>) -> Attempt {
        let mut attempts = self.attempts();
        let attempt = &mut attempts[index];
        attempt.end(self.millis(), answer);
        self.publish(attempt);
        attempt.clone()
    }

    fn publish(&self, attempt: &Attempt) {
        // The timeline of the page shows the button. A scenario is shown when it has ended.
        if self.scenario.is_none() {
            self.events.send(Event::Attempt {
                run: self.no,
                attempt: attempt.clone(),
            });
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Vec<Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
