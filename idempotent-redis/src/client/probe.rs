//! The command that tests whether a connection still answers.

use std::time::Duration;

use ::redis::{Arg, Cmd, RedisError, cmd};

use crate::client::link::{Link, in_time};

/// How long a probe waits for its reply.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The probe for a missing answer to `command`. It has the same key, so that in a cluster it goes to the same node.
pub(crate) fn probe_command(command: Option<&Cmd>) -> Cmd {
    let mut args = command.into_iter().flat_map(Cmd::args_iter);
    let key = match args.next() {
        Some(Arg::Simple(b"EVALSHA" | b"EVAL")) => args.nth(2),
        _ => args.next(),
    };
    match key {
        Some(Arg::Simple(key)) => cmd("PTTL").arg(key).clone(),
        _ => cmd("PING"),
    }
}

/// Whether any reply comes in time.
pub(crate) async fn has_answer(link: &mut Link, command: &Cmd) -> bool {
    match in_time(PROBE_TIMEOUT, link.command(command)).await {
        Ok(_) => true,
        Err(error) => is_answer(&error) && !error.is_cluster_error(),
    }
}

/// Whether the error is an answer of a server.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    error.clone().into_server_errors().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_has_the_key_of_the_command() {
        let asked = |command: &Cmd| probe_command(Some(command)).get_packed_command();
        let expected = cmd("PTTL").arg("key").get_packed_command();
        for command in [
            cmd("SET").arg("key").arg("value"),
            cmd("GET").arg("key"),
            cmd("EVALSHA").arg("hash").arg(1).arg("key").arg("value"),
            cmd("EVAL").arg("return").arg(1).arg("key"),
        ] {
            assert_eq!(asked(command), expected);
        }
        let ping = cmd("PING").get_packed_command();
        assert_eq!(asked(&cmd("INFO")), ping);
        assert_eq!(probe_command(None).get_packed_command(), ping);
    }
}
