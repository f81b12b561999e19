//! The stores in databases, on private servers and in temporary files.

mod batches;
mod batches_alone;
mod batches_cut;
mod batches_killed;
mod calls;
mod cut_bytes;
mod databases;
mod doctor;
mod dropped;
mod encryption;
mod outage;
mod oversize;
mod pooler;
mod processes;
mod purge;
mod races;
mod refusals;
mod runbook;
mod schema;
mod sessions;
mod several;
mod statements;
mod storms;
mod texts;
mod withdrawals;

mod postgres_suite {
    idempotence::testkit::conformance!(crate::store::databases::postgres());
}

mod mysql_suite {
    idempotence::testkit::conformance!(crate::store::databases::mysql());
}

mod sqlite_suite {
    idempotence::testkit::conformance!(crate::store::databases::sqlite());
}

mod postgres_suite_in_batches {
    use idempotent_sql::sql::sqlx::Postgres;

    idempotence::testkit::conformance!(crate::store::batches::crowded::<Postgres>());
}

mod mysql_suite_in_batches {
    use idempotent_sql::sql::sqlx::MySql;

    idempotence::testkit::conformance!(crate::store::batches::crowded::<MySql>());
}

mod sqlite_suite_in_batches {
    use idempotent_sql::sql::sqlx::Sqlite;

    idempotence::testkit::conformance!(crate::store::batches::crowded::<Sqlite>());
}
