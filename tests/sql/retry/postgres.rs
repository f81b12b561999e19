//! PostgreSQL.

use idempotence_test_servers::PostgresServer;
use sqlx::postgres::PgPoolOptions as Options;

type Db = sqlx::Postgres;
type Connection = sqlx::PgConnection;

fn port() -> u16 {
    PostgresServer::shared().unwrap().port()
}

async fn conflict(_: &Pool<Db>, tx: &mut Tx<'_>) -> sqlx::Error {
    let raise =
        "DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = 'serialization_failure'; END $$";
    tx.execute(raise).await.unwrap_err()
}

async fn kill(pool: &Pool<Db>, tx: &mut Connection) {
    let session = sqlx::query_scalar("SELECT pg_backend_pid()");
    let session: i32 = session.fetch_one(tx).await.unwrap();
    let kill = sqlx::query("SELECT pg_terminate_backend($1, 10000)").bind(session);
    kill.execute(pool).await.unwrap();
}

every_database!();
every_server!();
