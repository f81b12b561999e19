#![cfg(unix)]
#![allow(clippy::unwrap_used)]

//! The stores in databases, on private servers and in temporary files.

mod batches;
mod batches_cut;
mod calls;
mod databases;
mod doctor;
mod dropped;
mod encryption;
#[path = "../fresh/mod.rs"]
mod fresh;
#[path = "../log_capture/mod.rs"]
mod log_capture;
mod outage;
mod oversize;
mod pooler;
mod processes;
mod purge;
mod races;
mod refusals;
mod schema;
mod sessions;
mod statements;
mod storms;
mod texts;
#[path = "../wire/mod.rs"]
mod wire;

mod postgres_suite {
    idempotent_runtime::testkit::conformance!(crate::databases::postgres());
}

mod mysql_suite {
    idempotent_runtime::testkit::conformance!(crate::databases::mysql());
}

mod sqlite_suite {
    idempotent_runtime::testkit::conformance!(crate::databases::sqlite());
}

mod postgres_suite_in_batches {
    use idempotent_runtime::sql::sqlx::Postgres;

    idempotent_runtime::testkit::conformance!(crate::batches::crowded::<Postgres>());
}

mod mysql_suite_in_batches {
    use idempotent_runtime::sql::sqlx::MySql;

    idempotent_runtime::testkit::conformance!(crate::batches::crowded::<MySql>());
}

mod sqlite_suite_in_batches {
    use idempotent_runtime::sql::sqlx::Sqlite;

    idempotent_runtime::testkit::conformance!(crate::batches::crowded::<Sqlite>());
}
