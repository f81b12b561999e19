//! The address of a server of PostgreSQL.

use sqlx::Postgres;
use sqlx::postgres::PgConnectOptions;

use crate::database::address::Address;

impl Address for Postgres {
    fn place(options: &PgConnectOptions) -> String {
        let (host, port) = (options.get_host(), options.get_port());
        match options.get_socket() {
            Some(folder) => format!("postgres {}/.s.PGSQL.{port}", folder.display()),
            None if host.starts_with('/') => format!("postgres {host}/.s.PGSQL.{port}"),
            None => format!("postgres {host}:{port}"),
        }
    }
}
