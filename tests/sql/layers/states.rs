//! States of every type, in columns of every type.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use idempotent_sql::sql::{self, Transition, TransitionUpdate, Versioned};
use sqlx::Error;

use crate::layers::databases::{State, Subject};
use crate::layers::derived::{Number, Word};
use crate::layers::tables::run;
use support::databases::Fresh;

on_every_database! {
    derived_enums_and_strings_are_states_in_every_text_column
    derived_enums_and_numbers_are_states_in_every_integer_column
    a_row_without_a_state_can_get_one
    a_state_that_cannot_be_read_is_an_error_that_names_table_and_column
    a_state_of_another_kind_than_the_column_is_an_error
    a_version_is_read_from_every_integer_column
    a_null_state_is_neither_an_empty_text_nor_zero
}

/// Makes a table of parcels 1, 2… with these states in a column of this type. Each table has its own name, because prepared
/// statements outlive a table.
async fn parcels<DB: Subject, S: State<DB>>(
    fresh: &Fresh<DB>,
    column: &str,
    states: &[S],
) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);

    let name = format!("parcels{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let table = format!("CREATE TABLE {name} (id BIGINT PRIMARY KEY, state {column})");
    run(&fresh.pool, &table).await;
    for (id, state) in (1_i64..).zip(states) {
        let insert = DB::text(&format!("INSERT INTO {name} VALUES (?, ?)"));
        let insert = sqlx::query(insert).bind(id).bind(state.clone());
        insert.execute(&fresh.pool).await.unwrap();
    }
    name
}

fn go<'a, DB: Subject, S: State<DB>>(
    parcels: &'a str,
    id: i64,
    from: &S,
    to: &S,
) -> TransitionUpdate<'a, DB, S> {
    let transition = sql::transition(parcels).id("id", id).column("state");
    transition.from([from.clone()]).to(to.clone())
}

/// Moves the first parcel from the first state to the second. Finds the second parcel already in the second state, and the
/// third parcel in the third state.
pub(crate) async fn every_answer<DB: Subject, S: State<DB>>(
    fresh: &Fresh<DB>,
    column: &str,
    states: [S; 3],
) {
    let parcels = parcels(fresh, column, &states).await;
    let [from, to, actual] = states;
    let mut tx = fresh.pool.begin().await.unwrap();
    for (id, expected) in [
        (1, Transition::Applied),
        (1, Transition::AlreadyThere),
        (2, Transition::AlreadyThere),
        (3, Transition::Illegal { actual }),
    ] {
        let transition = go(&parcels, id, &from, &to).run(&mut tx).await;
        let transition = transition.unwrap_or_else(|error| panic!("{column}: {error}"));
        assert_eq!(transition, expected, "parcel {id}, {column}");
    }
}

async fn derived_enums_and_strings_are_states_in_every_text_column<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    for column in DB::TEXTS {
        for column in [format!("{column} NOT NULL"), format!("{column} NULL")] {
            let words = [Word::Paying, Word::Paid, Word::Refunded];
            every_answer(&fresh, &column, words).await;
            every_answer(&fresh, &column, words.map(Some)).await;
            let strings = ["PAYING", "PAID", "REFUNDED"].map(str::to_owned);
            every_answer(&fresh, &column, strings.clone()).await;
            every_answer(&fresh, &column, strings.map(Some)).await;
        }
    }
}

async fn derived_enums_and_numbers_are_states_in_every_integer_column<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    let columns = DB::INTEGERS.iter().map(async |column| {
        for column in [format!("{column} NOT NULL"), format!("{column} NULL")] {
            let numbers = [Number::Paying, Number::Paid, Number::Refunded];
            every_answer(&fresh, &column, numbers).await;
            every_answer(&fresh, &column, numbers.map(Some)).await;
            every_answer(&fresh, &column, [1_i16, 2, 120]).await;
            every_answer(&fresh, &column, [1_i32, 2, 120]).await;
            every_answer(&fresh, &column, [1_i64, 2, 120]).await;
        }
    });
    join_all(columns).await;
}

async fn a_row_without_a_state_can_get_one<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    for column in DB::TEXTS {
        every_answer(&fresh, column, [None, Some(Word::Paid), Some(Word::Paying)]).await;
        every_answer(&fresh, column, [Some(Word::Paid), None, Some(Word::Paying)]).await;
        every_answer(&fresh, column, [Some(Word::Paid), Some(Word::Paying), None]).await;
    }
}

async fn a_state_that_cannot_be_read_is_an_error_that_names_table_and_column<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    for (state, why) in [(None, "null"), (Some("LOST"), "invalid value \"LOST\"")] {
        let parcels = parcels(&fresh, "VARCHAR(20)", &[state.map(str::to_owned)]).await;
        let pay = go(&parcels, 1, &Word::Paying, &Word::Paid);
        let error = pay.run(&mut connection).await.unwrap_err();
        assert!(matches!(error, Error::ColumnDecode { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains(&format!("\"state\" of {parcels:?}")),
            "{message}"
        );
        assert!(message.contains(why), "{message}");
    }
}

async fn a_state_of_another_kind_than_the_column_is_an_error<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    let parcels = parcels(&fresh, "VARCHAR(20)", &["PAID".to_owned()]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let look = sql::transition(&parcels).id("id", 1_i64).column("state");
    let looked = look.from([]).to(0_i64).run(&mut connection).await;
    assert!(
        matches!(looked, Err(Error::ColumnDecode { .. })),
        "{looked:?}"
    );
}

async fn a_version_is_read_from_every_integer_column<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    for column in DB::INTEGERS {
        let parcels = parcels(&fresh, column, &[Some(120_i64), None]).await;
        let mut connection = fresh.pool.acquire().await.unwrap();
        let update = |id: i64| {
            let update = sql::versioned_update(&parcels).id("id", id);
            update.version("state", 7)
        };
        let conflict = update(1).run(&mut connection).await.unwrap();
        assert_eq!(conflict, Versioned::Conflict { current: 120 }, "{column}");
        let error = update(2).run(&mut connection).await.unwrap_err();
        let message = error.to_string();
        let named = format!("\"state\" of {parcels:?}: unexpected null");
        assert!(message.contains(&named), "{message}");
    }
}

/// An empty text or 0 would be a state that was never stored.
async fn a_null_state_is_neither_an_empty_text_nor_zero<DB: Subject>() {
    let fresh = Fresh::<DB>::new().await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    let texts = parcels(&fresh, DB::TEXTS[0], &[None::<String>]).await;
    let text = go(&texts, 1, &"PAYING".to_owned(), &String::new());
    let text = text.run(&mut connection).await;
    assert!(matches!(text, Err(Error::ColumnDecode { .. })), "{text:?}");
    let integers = parcels(&fresh, DB::INTEGERS[0], &[None::<i32>]).await;
    let integer = go(&integers, 1, &1, &0).run(&mut connection).await;
    assert!(
        matches!(integer, Err(Error::ColumnDecode { .. })),
        "{integer:?}"
    );
}
