//! Where the money is taken. It counts what it took, so the page does not have to believe a mechanism.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotence::Once;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::Connection;
use super::attempt::ATTEMPT;
use super::order::{BuyError, Order, Receipt};

/// When the bank answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// When every click that was sent is at the bank or has its answer. So equal clicks really meet, on any machine.
    Together,
    /// The first payment ends after the end of another click.
    FirstIsSlow,
    /// After a time that a person can see.
    Fixed(Duration),
}

/// The bank waits for clicks that wait for the bank, so it answers at the latest after this time.
const PATIENCE: Duration = Duration::from_millis(500);
const PATIENCE_OF_THE_FIRST: Duration = Duration::from_secs(2);

/// A bank of one run. It is another company: its books are no part of the database of the shop.
#[derive(Debug)]
pub(crate) struct Bank {
    pace: Pace,
    crowd: watch::Sender<Crowd>,
    books: Mutex<Books>,
    fails_next: AtomicBool,
    crashes_next: AtomicBool,
    crashed: Notify,
}

#[derive(Debug, Default)]
struct Crowd {
    sent: usize,
    /// At the bank, or ended.
    arrived: usize,
    ended: usize,
}

#[derive(Debug, Default)]
struct Books {
    /// The cents of each charge, and the key that came with it.
    charges: Vec<(i64, Option<String>)>,
    fence: i64,
}

impl Bank {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            pace,
            crowd: watch::Sender::default(),
            books: Mutex::default(),
            fails_next: AtomicBool::new(false),
            crashes_next: AtomicBool::new(false),
            crashed: Notify::new(),
        }
    }

    /// Takes money, each time that it is called.
    pub(crate) async fn charge(&self, cents: i64) -> Result<Once<Receipt>, BuyError> {
        self.arrive().await?;
        let receipt = self.books().enter(cents, None);
        self.may_crash().await;
        Ok(Once::Executed(receipt))
    }

    /// Takes money once for each key, as banks do that have an `Idempotency-Key`.
    pub(crate) async fn charge_once(
        &self,
        cents: i64,
        key: &str,
    ) -> Result<Once<Receipt>, BuyError> {
        self.arrive().await?;
        let receipt = self.books().enter_once(cents, key);
        self.may_crash().await;
        Ok(receipt)
    }

    /// Takes money, unless a later holder of the lock was here.
    pub(crate) async fn charge_fenced(
        &self,
        cents: i64,
        fence: i64,
    ) -> Result<Once<Receipt>, BuyError> {
        self.arrive().await?;
        let receipt = {
            let mut books = self.books();
            if fence < books.fence {
                return Err(BuyError::Fenced);
            }
            books.fence = fence;
            books.enter(cents, None)
        };
        self.may_crash().await;
        Ok(Once::Executed(receipt))
    }

    /// Takes money from a wallet, which is a table in the database of the shop. So it is a part of the transaction.
    pub(crate) async fn charge_in(
        &self,
        tx: &mut Connection,
        order: &Order,
    ) -> Result<Receipt, BuyError> {
        // A transaction that waited here would keep all other writers out.
        self.note_arrival();
        if self.fails_next.swap(false, Ordering::SeqCst) {
            return Err(BuyError::BankBusy);
        }
        let number =
            sqlx::query_scalar("INSERT INTO wallet (page, cents) VALUES ($1, $2) RETURNING number")
                .bind(&order.page)
                .bind(order.cents)
                .fetch_one(tx)
                .await?;
        self.may_crash().await;
        Ok(Receipt {
            number,
            cents: order.cents,
        })
    }

    /// The receipt that [`charge_in`](Self::charge_in) wrote for the page of this order.
    pub(crate) async fn find_in(
        &self,
        tx: &mut Connection,
        order: &Order,
    ) -> Result<Receipt, BuyError> {
        let found = sqlx::query_as("SELECT number, cents FROM wallet WHERE page = $1");
        let (number, cents) = found.bind(&order.page).fetch_one(tx).await?;
        Ok(Receipt { number, cents })
    }

    /// How many times money was taken, and how much.
    pub(crate) fn taken(&self) -> (usize, i64) {
        let books = self.books();
        let cents = books.charges.iter().map(|(cents, _)| cents);
        (books.charges.len(), cents.sum())
    }

    // What scenarios do.

    /// The next payment fails, before money is taken.
    pub(crate) fn fail_next(&self) {
        self.fails_next.store(true, Ordering::SeqCst);
    }

    /// The process of the next payment dies as soon as the money is taken.
    pub(crate) fn crash_next(&self) {
        self.crashes_next.store(true, Ordering::SeqCst);
    }

    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Says that clicks are on their way.
    pub(crate) fn expect(&self, clicks: usize) {
        self.crowd.send_modify(|crowd| crowd.sent += clicks);
    }

    /// Says that the click of this task has ended.
    pub(crate) fn note_end(&self) {
        self.note_arrival();
        self.crowd.send_modify(|crowd| crowd.ended += 1);
    }

    fn note_arrival(&self) {
        if ATTEMPT.try_with(|log| log.arrives()).unwrap_or(false) {
            self.crowd.send_modify(|crowd| crowd.arrived += 1);
        }
    }

    async fn arrive(&self) -> Result<(), BuyError> {
        let is_first = self.crowd.borrow().arrived == 0;
        self.note_arrival();
        if self.fails_next.swap(false, Ordering::SeqCst) {
            return Err(BuyError::BankBusy);
        }
        let mut crowd = self.crowd.subscribe();
        match self.pace {
            Pace::Fixed(time) => sleep(time).await,
            Pace::Together => {
                let all = crowd.wait_for(|crowd| crowd.arrived >= crowd.sent);
                drop(timeout(PATIENCE, all).await);
            }
            Pace::FirstIsSlow if is_first => {
                let other = crowd.wait_for(|crowd| crowd.ended > 0);
                drop(timeout(PATIENCE_OF_THE_FIRST, other).await);
            }
            Pace::FirstIsSlow => {}
        }
        Ok(())
    }

    async fn may_crash(&self) {
        if self.crashes_next.swap(false, Ordering::SeqCst) {
            self.crashed.notify_one();
            std::future::pending::<()>().await;
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn enter(&mut self, cents: i64, key: Option<&str>) -> Receipt {
        self.charges.push((cents, key.map(str::to_owned)));
        Receipt {
            number: i64::try_from(self.charges.len()).unwrap_or(i64::MAX),
            cents,
        }
    }

    fn enter_once(&mut self, cents: i64, key: &str) -> Once<Receipt> {
        let known = |(_, known): &(i64, Option<String>)| known.as_deref() == Some(key);
        match self.charges.iter().position(known) {
            None => Once::Executed(self.enter(cents, Some(key))),
            Some(index) => Once::Replayed(Receipt {
                number: i64::try_from(index + 1).unwrap_or(i64::MAX),
                cents: self.charges[index].0,
            }),
        }
    }
}
