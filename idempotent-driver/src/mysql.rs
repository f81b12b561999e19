//! The address of a server of MySQL or MariaDB.

use sqlx::MySql;
use sqlx::mysql::MySqlConnectOptions;

use crate::database::address::Address;

impl Address for MySql {
    fn place(options: &MySqlConnectOptions) -> String {
        match options.get_socket() {
            Some(socket) => format!("mysql {}", socket.display()),
            None => format!("mysql {}:{}", options.get_host(), options.get_port()),
        }
    }
}
