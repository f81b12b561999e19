//! The state behind the endpoints: the grid, and the pages that are open.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idempotence::Store;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::attempt::{Attempt, Click};
use super::bank::Pace;
use super::events::{Event, Events};
use super::mechanisms::{ROWS, Row};
use super::report::Report;
use super::run::{Run, Setup};
use super::scenarios::{Scenario, Timing};
use super::{Databases, Failure};

/// How long the bank takes after a click of a person, so that a second click meets the first.
const SLOW_BANK: Duration = Duration::from_millis(900);
/// How many pages stay open. The oldest page is closed first.
const PAGES: usize = 16;
/// How many scenarios run at once.
const AT_ONCE: usize = 12;

/// Shared by all requests.
#[derive(Clone)]
pub(crate) struct Server(Arc<Shared>);

struct Shared {
    store: Arc<dyn Store>,
    store_name: &'static str,
    databases: Databases,
    events: Events,
    runs: AtomicU64,
    slots: Semaphore,
    pages: Mutex<VecDeque<Page>>,
    grid: Mutex<HashMap<(&'static str, Scenario), Report>>,
}

/// A page with the button.
#[derive(Clone)]
struct Page {
    no: u64,
    run: Arc<Run>,
    /// What it sends with every click.
    sends: String,
}

impl Server {
    pub(crate) fn open(
        store: Arc<dyn Store>,
        store_name: &'static str,
        databases: Databases,
    ) -> Self {
        Self(Arc::new(Shared {
            store,
            store_name,
            databases,
            events: Events::new(64),
            runs: AtomicU64::new(0),
            slots: Semaphore::new(AT_ONCE),
            pages: Mutex::default(),
            grid: Mutex::default(),
        }))
    }

    pub(crate) fn store_name(&self) -> &'static str {
        self.0.store_name
    }

    pub(crate) fn events(&self) -> &Events {
        &self.0.events
    }

    /// Plays one scenario, and writes its cell of the grid.
    pub(crate) async fn play(
        &self,
        row: &'static Row,
        scenario: Scenario,
        storm: usize,
    ) -> Result<Report, Failure> {
        let _slot = self.0.slots.acquire().await?;
        let run = self.open_run(row, Some(scenario), scenario.timing());
        let run = Arc::new(run.await?);
        let report = scenario.play(&run, storm).await;
        run.close().await;
        let report = report?;
        lock(&self.0.grid).insert((row.id, scenario), report.clone());
        self.0.events.send(Event::Report {
            report: Box::new(report.clone()),
        });
        Ok(report)
    }

    /// Plays every scenario with every mechanism.
    pub(crate) async fn play_all(&self, storm: usize) -> Result<Vec<Report>, Failure> {
        let mut cells = JoinSet::new();
        for row in ROWS {
            for scenario in Scenario::ALL {
                if scenario.not_applicable(row.id).is_none() {
                    let server = self.clone();
                    cells.spawn(async move { server.play(row, scenario, storm).await });
                }
            }
        }
        let mut reports = Vec::new();
        while let Some(ended) = cells.join_next().await {
            reports.push(ended??);
        }
        self.0.events.send(Event::AllEnded);
        Ok(reports)
    }

    pub(crate) fn grid(&self) -> Vec<Report> {
        lock(&self.0.grid).values().cloned().collect()
    }

    /// Opens a page with the button, and returns its number.
    pub(crate) async fn open_page(&self, row: &'static Row) -> Result<u64, Failure> {
        let timing = Timing {
            pace: Pace::Fixed(SLOW_BANK),
            ..Timing::default()
        };
        let run = Arc::new(self.open_run(row, None, timing).await?);
        let sends = run.open_page().await?;
        let no = run.no();
        let oldest = {
            let mut pages = lock(&self.0.pages);
            pages.push_back(Page { no, run, sends });
            if pages.len() > PAGES {
                pages.pop_front()
            } else {
                None
            }
        };
        if let Some(page) = oldest {
            page.run.close().await;
        }
        Ok(no)
    }

    /// A click on the button of a page. `None` if the page is closed.
    pub(crate) async fn click(&self, page: u64) -> Result<Option<Attempt>, Failure> {
        let Some(page) = self.page(page) else {
            return Ok(None);
        };
        // A task of its own: the handler goes on when the browser closes its connection.
        let click = async move { page.run.click(Click::new(&page.sends)).await };
        Ok(Some(tokio::spawn(click).await?))
    }

    /// What a page has done. `None` if the page is closed.
    pub(crate) async fn page_report(&self, page: u64) -> Result<Option<Report>, Failure> {
        match self.page(page) {
            Some(page) => page.run.report(1).await.map(Some),
            None => Ok(None),
        }
    }

    fn page(&self, no: u64) -> Option<Page> {
        let pages = lock(&self.0.pages);
        pages.iter().find(|page| page.no == no).cloned()
    }

    /// Closes all pages, and removes their databases.
    pub(crate) async fn close(&self) {
        let pages = std::mem::take(&mut *lock(&self.0.pages));
        for page in pages {
            page.run.close().await;
        }
    }

    async fn open_run(
        &self,
        row: &'static Row,
        scenario: Option<Scenario>,
        timing: Timing,
    ) -> Result<Run, Failure> {
        let setup = Setup {
            no: self.0.runs.fetch_add(1, Ordering::SeqCst) + 1,
            row,
            scenario,
            timing,
            store: &self.0.store,
            databases: &self.0.databases,
            events: self.0.events.clone(),
        };
        Run::open(setup).await
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
