//! Counters in databases.

use std::time::Duration;

use idempotence_test_servers::MariaDbServer;
use idempotent_runtime::Store;
use idempotent_sql::sql::Database;
use idempotent_sql::sql::sqlx::mysql::MySqlPoolOptions;
use idempotent_sql::sql::sqlx::postgres::PgPoolOptions;
use idempotent_sql::sql::sqlx::{MySql, Postgres, Sqlite};
use idempotent_sql::{MySqlStore, PostgresStore, SqlStore};

use crate::counter::line;
use crate::counter::mutant::ReadsThenWrites;
use crate::counter::together::{Tally, counter, hurried_by_control, stampede};
use support::databases::Kind as _;
use support::turns::Turns;

/// Runs each case on each database.
macro_rules! on_every_database {
    ($($case:ident)*) => {
        on_every_database! { @each on_postgres Postgres [$($case)*] }
        on_every_database! { @each on_mysql MySql [$($case)*] }
        on_every_database! { @each on_sqlite Sqlite [$($case)*] }
    };
    (@each $module:ident $database:ident [$($case:ident)*]) => {
        mod $module {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case::<$database>(&$database::url()).await;
                }
            )*
        }
    };
}

on_every_database! {
    of_200_concurrent_attempts_exactly_the_limit_is_admitted
    the_attempts_of_four_processes_are_counted_together
    a_count_that_reads_and_then_writes_admits_too_many
    the_record_is_the_same_in_every_store
}

/// All attempts are answered within the default deadline. Only a busy machine has more time.
async fn of_200_concurrent_attempts_exactly_the_limit_is_admitted<DB: Database>(url: &str) {
    let store = store::<DB>(url).await;
    // If this process or the server stands still for a while, attempts are refused.
    let mut tallies = Vec::new();
    while tallies.len() < 10 {
        let name = format!("round.{}", tallies.len());
        let counter = hurried_by_control(store.clone(), name, 200).await;
        let tally = stampede(&[counter], 200).await;
        if tally == Tally::right(200) {
            return;
        }
        assert!(tally.is_hurried(), "{tally:?}");
        tallies.push(tally);
    }
    panic!("attempts were refused in each round: {tallies:?}");
}

/// Several processes that write to one file of SQLite poll its lock, so these counters have a longer deadline.
async fn the_attempts_of_four_processes_are_counted_together<DB: Database>(url: &str) {
    let mut counters = Vec::new();
    for _ in 0..4 {
        counters.push(counter(store::<DB>(url).await));
    }
    assert_eq!(stampede(&counters, 200).await, Tally::right(200));
}

async fn a_count_that_reads_and_then_writes_admits_too_many<DB: Database>(url: &str) {
    let counter = counter(ReadsThenWrites(store::<DB>(url).await));
    let tally = stampede(&[counter], 200).await;
    assert!(tally.admitted > Tally::right(200).admitted, "{tally:?}");
}

async fn the_record_is_the_same_in_every_store<DB: Database>(url: &str) {
    let store = store::<DB>(url).await;
    line::is_the_same_in_every_store(&store).await;
    line::is_read_as_strictly_as_in_memory(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_500_attempts_on_ten_connections_of_postgres_none_is_in_vain() {
    let store = PostgresStore::connect(&Postgres::url()).await.unwrap();
    assert_eq!(store.pool().options().get_max_connections(), 10);
    // If all attempts take a third of a second, a busy machine may need more than a second.
    assert_eq!(stampede(&[counter(store)], 500).await, Tally::right(500));
}

#[tokio::test]
async fn an_attempt_is_one_round_trip_on_postgres_and_two_on_mysql() {
    let plain = PostgresStore::connect(&Postgres::url()).await.unwrap();
    let options = plain.pool().connect_options();
    let turns = Turns::before(options.get_port()).await;
    let options = (*options).clone().port(turns.port());
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.test_before_acquire(false).connect_lazy_with(options);
    assert_eq!(round_trips(PostgresStore::new(pool), &turns).await, 1);

    let plain = MySqlStore::connect(&MySql::url()).await.unwrap();
    let (store, turns) = on_one_connection(&plain).await;
    assert_eq!(round_trips(store, &turns).await, 2);
}

/// A record names the last 32 attempts, and MySQL reads it after the count.
#[tokio::test]
async fn an_attempt_on_mysql_has_its_number_although_40_others_are_counted_before_it_is_read() {
    let direct = MySqlStore::connect(&MySql::url()).await.unwrap();
    let (store, turns) = on_one_connection(&direct).await;
    let attempts: [(_, &[u128]); 4] = [
        ("first", &[1]),
        ("second", &[1, 2]),
        ("repeated", &[1, 2, 1]),
        ("40th", &(1..=40).collect::<Vec<_>>()),
    ];
    for (key, attempts) in attempts {
        let (last, before) = attempts.split_last().unwrap();
        for attempt in before {
            direct.count(key, *attempt, WINDOW).await.unwrap();
        }
        // This prepares the statements. Then the pool tests the connection.
        store.count("another", 1, WINDOW).await.unwrap();
        while store.pool().num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        turns.hold_after(1);
        let others = async {
            turns.held().await;
            for other in 1000..1040 {
                direct.count(key, other, WINDOW).await.unwrap();
            }
            turns.release();
        };
        let (counted, ()) = tokio::join!(store.count(key, *last, WINDOW), others);
        assert_eq!(u128::from(counted.unwrap().attempt), *last, "{key}");
        let after = direct.count(key, 2000, WINDOW).await.unwrap().attempt;
        let different = attempts.iter().max().unwrap();
        assert_eq!(u128::from(after), different + 41, "{key}");
    }
}

/// A store with one connection that goes through a proxy.
async fn on_one_connection(direct: &MySqlStore) -> (MySqlStore, Turns) {
    let turns = Turns::before(MariaDbServer::shared().unwrap().port()).await;
    let options = (*direct.pool().connect_options()).clone();
    let options = options.port(turns.port());
    let pool = MySqlPoolOptions::new().max_connections(1);
    let pool = pool.test_before_acquire(false).connect_lazy_with(options);
    (MySqlStore::new(pool), turns)
}

const WINDOW: Duration = Duration::from_mins(10);

/// The round trips of the first attempt, of a later attempt, and of an attempt that is sent again.
async fn round_trips(store: impl Store, turns: &Turns) -> usize {
    const ATTEMPTS: usize = 20;

    // The preparation of the statements is not counted.
    store.count("another", 0, WINDOW).await.unwrap();
    let before = turns.count();
    for sent in 0..ATTEMPTS {
        let count = store.count("key", sent as u128 / 2, WINDOW).await;
        assert_eq!(count.unwrap().attempt, 1 + sent as u64 / 2);
    }
    let all = turns.count() - before;
    // The pool tests a returned connection. Only the next user of that connection waits for the answer.
    let asked = all % ATTEMPTS;
    assert!(asked <= 1 || asked == ATTEMPTS - 1, "{all}");
    (all + 1) / ATTEMPTS - 1
}

async fn store<DB: Database>(url: &str) -> SqlStore<DB> {
    SqlStore::connect(url).await.unwrap()
}
