//! Malicious names and values, and names and values that look malicious.

use idempotent_sql::sql::{self, Transition, Versioned};
use sqlx::AssertSqlSafe;

use crate::layers::databases::Subject;
use crate::layers::status::Status;
use crate::layers::tables::{orders, run, status};

on_every_database! {
    every_name_is_quoted_and_every_value_is_bound
}

const NASTY: [&str; 14] = [
    "it's",
    "say \"so\"",
    "`tick`",
    "\"",
    "`",
    "x\"; DROP TABLE orders; --",
    "x`; DROP TABLE orders; --",
    "x' OR '1'='1",
    "back\\slash\\",
    "/* comment",
    "select",
    "? $1 :a @b {}",
    "völlig",
    "a b,c",
];

fn quoted<DB: Subject>(name: &str) -> String {
    let quote = DB::QUOTED_BY;
    format!("{quote}{}{quote}", name.replace(quote, &quote.repeat(2)))
}

async fn every_name_is_quoted_and_every_value_is_bound<DB: Subject>() {
    let fresh = orders::<DB>([Status::Paying]).await;
    let mut connection = fresh.pool.acquire().await.unwrap();
    for (i, nasty) in NASTY.into_iter().enumerate() {
        let [table, id, state, note] = ["t", "i", "s", "n"].map(|kind| format!("{kind}{nasty}"));
        let create = format!(
            "CREATE TABLE {} ({} VARCHAR(60) PRIMARY KEY, {} VARCHAR(60), {} VARCHAR(60), v INT)",
            quoted::<DB>(&table),
            quoted::<DB>(&id),
            quoted::<DB>(&state),
            quoted::<DB>(&note),
        );
        sqlx::query(AssertSqlSafe(create))
            .execute(&mut *connection)
            .await
            .unwrap();
        // All question marks of the statement are placeholders.
        let value = NASTY[(i + 1) % NASTY.len()];
        let insert = DB::text("INSERT INTO nasty VALUES (?, ?, ?, 1)").0;
        let insert = insert.replace("nasty", &quoted::<DB>(&table));
        let insert = sqlx::query(AssertSqlSafe(insert));
        let insert = insert.bind(nasty).bind(value).bind("");
        insert.execute(&mut *connection).await.unwrap();

        let transition = || {
            sql::transition(&table)
                .id(&id, nasty)
                .column(&state)
                .set(&note, value)
        };
        let away = || transition().from([value.to_owned()]).to(nasty.to_owned());
        assert_eq!(
            away().run(&mut connection).await.unwrap(),
            Transition::Applied
        );
        let there = away().run(&mut connection).await.unwrap();
        assert_eq!(there, Transition::AlreadyThere);
        let elsewhere = transition().from(["-".to_owned()]).to("+".to_owned());
        let actual = nasty.to_owned();
        let elsewhere = elsewhere.run(&mut connection).await.unwrap();
        assert_eq!(elsewhere, Transition::Illegal { actual });

        let update = || sql::versioned_update(&table).id(&id, nasty).version("v", 1);
        let first = update()
            .set(&note, nasty)
            .run(&mut connection)
            .await
            .unwrap();
        assert_eq!(first, Versioned::Applied { version: 2 });
        let second = update()
            .set(&note, value)
            .run(&mut connection)
            .await
            .unwrap();
        assert_eq!(second, Versioned::Conflict { current: 2 });
    }
    assert_eq!(status(&mut *connection).await, Status::Paying);
    run(&mut *connection, "DROP TABLE orders").await;
}
