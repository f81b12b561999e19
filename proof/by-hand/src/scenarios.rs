//! What is done to both designs.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::time::{Duration, Instant};

use idempotence::{Error, sql};
use idempotence_test_servers::PostgresServer;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor as _, PgPool};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::payment::{Failure, Order};
use crate::{by_hand, guarded};

type Done<T = ()> = Result<T, Box<dyn StdError + Send + Sync>>;

/// Who keeps the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// A table and code of the service.
    ByHand,
    /// The option `tx`.
    Guarded,
}

impl Design {
    async fn pay(self, pool: &PgPool, order: &Order) -> Result<i64, Failure> {
        match self {
            Self::ByHand => by_hand::pay_once(pool, order).await,
            Self::Guarded => guarded::pay_once(pool, order).await,
        }
    }
}

/// What is done to a design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Fifty equal posts at once. The first takes one unit of time.
    FiftyEqual,
    /// Eleven equal posts at once: one more than the pool has connections.
    ElevenEqual,
    /// Four posts of other users beside fifty equal posts. Only the four are counted.
    Strangers,
    /// Five equal posts in sessions that are REPEATABLE READ.
    RepeatableRead,
    /// Five equal posts in sessions with a `lock_timeout` of half a unit.
    LockTimeout,
    /// One post, then one with another amount under its key.
    OtherAmount,
    /// Two posts for each of 200 keys, while the server is killed and restarted. A client repeats a post that has no answer.
    Restart,
}

impl Scenario {
    /// In the order of the table.
    pub const ALL: [Self; 7] = [
        Self::FiftyEqual,
        Self::ElevenEqual,
        Self::Strangers,
        Self::RepeatableRead,
        Self::LockTimeout,
        Self::OtherAmount,
        Self::Restart,
    ];

    /// Its row in the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::FiftyEqual => "50 equal posts at once",
            Self::ElevenEqual => "11 equal posts at once",
            Self::Strangers => "4 posts of strangers beside 50 equal posts",
            Self::RepeatableRead => "REPEATABLE READ, 5 equal posts",
            Self::LockTimeout => "a short `lock_timeout`, 5 equal posts",
            Self::OtherAmount => "another amount under the same key",
            Self::Restart => "the server is killed, 200 keys, 2 posts each",
        }
    }

    fn session(self, unit: Duration) -> Option<String> {
        match self {
            Self::RepeatableRead => {
                Some("SET default_transaction_isolation = 'repeatable read'".into())
            }
            Self::LockTimeout => Some(format!("SET lock_timeout = {}", unit.as_millis() / 2)),
            _ => None,
        }
    }
}

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The work of a payment that others wait for.
    pub unit: Duration,
    /// How long a caller waits for a connection of the pool. sqlx's default is 30 s.
    pub acquire: Duration,
}

/// What the callers of a scenario got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// Callers that have the receipt.
    pub receipts: usize,
    /// The guard refused the call, and said why.
    pub refused: usize,
    /// Other errors: status 500.
    pub failed: usize,
    /// The caller that waited longest.
    pub longest: Duration,
    /// Keys with more than one payment.
    pub paid_twice: usize,
}

impl Answers {
    fn add(&mut self, answer: &Result<i64, Failure>, time: Duration) {
        match answer {
            Ok(_) => self.receipts += 1,
            Err(Failure::Refused(error))
                if error.is_duplicate() || matches!(error, Error::PayloadMismatch { .. }) =>
            {
                self.refused += 1;
            }
            Err(_) => self.failed += 1,
        }
        self.longest = self.longest.max(time);
    }
}

/// Runs a scenario in a new database.
///
/// # Errors
///
/// If the server does not start, or the tables cannot be made.
pub async fn run(scenario: Scenario, design: Design, times: Times) -> Done<Answers> {
    let server = PostgresServer::shared()?;
    let pool = open(&server.database()?, scenario.session(times.unit), times).await?;
    let order = |user, cents| order(user, cents, times.unit);
    let mut answers = match scenario {
        Scenario::FiftyEqual => together(design, &pool, vec![order(1, 500); 50]).await?,
        Scenario::ElevenEqual => together(design, &pool, vec![order(1, 500); 11]).await?,
        Scenario::RepeatableRead | Scenario::LockTimeout => {
            together(design, &pool, vec![order(1, 500); 5]).await?
        }
        Scenario::Strangers => {
            let crowd = tokio::spawn({
                let (pool, orders) = (pool.clone(), vec![order(1, 500); 50]);
                async move { together(design, &pool, orders).await }
            });
            // The strangers come when the crowd has all connections, or a quarter of its time has passed.
            let coming = Instant::now() + times.unit / 4;
            while (pool.size() < 10 || pool.num_idle() > 0) && Instant::now() < coming {
                sleep(Duration::from_millis(1)).await;
            }
            let strangers = (2..6).map(|user| order_now(user, 500)).collect();
            let answers = together(design, &pool, strangers).await?;
            crowd.await??;
            answers
        }
        Scenario::OtherAmount => {
            let mut answers = Answers::default();
            for cents in [500, 900] {
                let begin = Instant::now();
                let answer = design.pay(&pool, &order_now(1, cents)).await;
                answers.add(&answer, begin.elapsed());
            }
            answers
        }
        Scenario::Restart => return restart(design, times).await,
    };
    answers.paid_twice = paid_twice(&pool).await?;
    Ok(answers)
}

/// How long other users wait for an answer: 99 of 100 wait at most so long.
#[derive(Debug, Clone, Copy)]
pub struct OtherUsers {
    /// Without duplicates.
    pub alone: Duration,
    /// Beside a hundred duplicates of a call that takes longer.
    pub beside: Duration,
}

/// Measures other users in a new database, for two units of time each.
///
/// # Errors
///
/// If the server does not start, the tables cannot be made, or a user gets no answer.
pub async fn other_users(design: Design, times: Times) -> Done<OtherUsers> {
    let pool = open(&PostgresServer::shared()?.database()?, None, times).await?;
    let lasts = 2 * times.unit;
    // Opens connections, which is no part of a call.
    longest_of_99(design, &pool, 1, lasts / 4).await?;
    let alone = longest_of_99(design, &pool, 2, lasts).await?;
    let duplicated = order(0, 500, 4 * lasts);
    let crowd = tokio::spawn({
        let pool = pool.clone();
        async move { together(design, &pool, vec![duplicated; 100]).await }
    });
    // The first call of the crowd has a connection.
    while pool.size() as usize == pool.num_idle() && !crowd.is_finished() {
        sleep(Duration::from_millis(1)).await;
    }
    let beside = longest_of_99(design, &pool, 3, lasts).await?;
    crowd.abort();
    Ok(OtherUsers { alone, beside })
}

/// Four users post for this time, one order after another. `round` keeps their numbers apart.
async fn longest_of_99(
    design: Design,
    pool: &PgPool,
    round: i64,
    lasts: Duration,
) -> Done<Duration> {
    let mut users = JoinSet::new();
    let end = Instant::now() + lasts;
    for user in 0..4 {
        let pool = pool.clone();
        users.spawn(async move {
            let mut times = Vec::new();
            for post in 0.. {
                let order = order_now((4 * round + user) * 1_000_000 + post, 500);
                let begin = Instant::now();
                design.pay(&pool, &order).await?;
                times.push(begin.elapsed());
                if Instant::now() > end {
                    break;
                }
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(user) = users.join_next().await {
        times.extend(user??);
    }
    times.sort_unstable();
    Ok(times[times.len() * 99 / 100])
}

async fn open(url: &str, session: Option<String>, times: Times) -> Done<PgPool> {
    let options = PgPoolOptions::new().max_connections(10);
    let options = options.acquire_timeout(times.acquire);
    let options = options.after_connect(move |connection, _| {
        let session = session.clone();
        Box::pin(async move {
            if let Some(session) = session {
                connection.execute(sqlx::AssertSqlSafe(session)).await?;
            }
            Ok(())
        })
    });
    let pool = options.connect(url).await?;
    let payments = "CREATE TABLE payment (
        id bigserial PRIMARY KEY, owner bigint NOT NULL, order_key text NOT NULL, cents bigint NOT NULL)";
    pool.execute(payments).await?;
    pool.execute(by_hand::SCHEMA).await?;
    sql::migrate(&pool).await?;
    Ok(pool)
}

fn order(user: i64, cents: i64, takes: Duration) -> Order {
    Order {
        user,
        key: "8e03978e".to_owned(),
        cents,
        takes,
    }
}

fn order_now(user: i64, cents: i64) -> Order {
    order(user, cents, Duration::ZERO)
}

async fn together(design: Design, pool: &PgPool, orders: Vec<Order>) -> Done<Answers> {
    let mut callers = JoinSet::new();
    for order in orders {
        let pool = pool.clone();
        callers.spawn(async move {
            let begin = Instant::now();
            let answer = design.pay(&pool, &order).await;
            (answer, begin.elapsed())
        });
    }
    let mut answers = Answers::default();
    while let Some(caller) = callers.join_next().await {
        let (answer, time) = caller?;
        answers.add(&answer, time);
    }
    Ok(answers)
}

async fn paid_twice(pool: &PgPool) -> Done<usize> {
    let keys: Vec<(i64, String)> = sqlx::query_as("SELECT owner, order_key FROM payment")
        .fetch_all(pool)
        .await?;
    let mut payments = HashMap::new();
    for key in keys {
        *payments.entry(key).or_insert(0) += 1;
    }
    Ok(payments.values().filter(|&&count| count > 1).count())
}

/// A server of its own, because it is killed.
async fn restart(design: Design, times: Times) -> Done<Answers> {
    let server = PostgresServer::start()?;
    let pool = open(&server.database()?, None, times).await?;
    let mut callers = JoinSet::new();
    for user in 0..400 {
        let pool = pool.clone();
        callers.spawn(async move {
            let order = order(user / 2, 500, Duration::from_millis(20));
            let begin = Instant::now();
            let mut failures = 0;
            loop {
                match design.pay(&pool, &order).await {
                    Err(Failure::Database(_)) if begin.elapsed() < Duration::from_mins(2) => {
                        failures += 1;
                        sleep(Duration::from_millis(200)).await;
                    }
                    answer => return (answer, failures, begin.elapsed()),
                }
            }
        });
    }
    let mut answers = Answers::default();
    let mut server = Some(server);
    while let Some(caller) = callers.join_next().await {
        let (answer, failures, time) = caller?;
        answers.add(&answer, time);
        answers.failed += failures;
        if answers.receipts == 20
            && let Some(running) = server.take()
        {
            running.kill()?;
            running.restart()?;
            server = Some(running);
        }
    }
    answers.paid_twice = paid_twice(&pool).await?;
    drop(server);
    Ok(answers)
}
