//! The limit: the same claims and releases as cheap as the server allows. No client library, no task per call, and keys from a
//! counter, so nearly all of the time is the server's and the socket's.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;
use std::time::Instant;

use idempotence::sql::sqlx::{Executor as _, PgPool, query};
use tokio::runtime::Runtime;

use crate::latency::Took;
use crate::{LIMIT, Lap, arguments, owner};

/// Claims and releases on Redis: all claims in one write, then all answers; the same with one script that removes all keys.
pub(crate) fn on_redis<'a>(port: u16, keys: u32, rest: &str, expiry: u64) -> Lap<'a> {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
    socket.set_nodelay(true).expect("a socket of TCP");
    let socket = Mutex::new(socket);
    let (rest, expiry) = (rest.to_owned(), expiry.to_string());
    let run = move |calls: u64| {
        let mut socket = socket.lock().expect("one lap at a time");
        let mut request = String::new();
        timed(calls, || {
            let held: Vec<_> = (0..keys).map(|_| (key(), owner() + &rest)).collect();
            request.clear();
            for (key, line) in &held {
                push(
                    &mut request,
                    ["SET", key, line, "NX", "GET", "PX", &expiry].into_iter(),
                );
            }
            exchange(&mut socket, &request, &"$-1\r\n".repeat(held.len()));
            request.clear();
            let count = keys.to_string();
            let removal = ["EVAL", REMOVE_EACH, &count].into_iter();
            let removal = removal.chain(held.iter().map(|(key, _)| &**key));
            push(
                &mut request,
                removal.chain(held.iter().map(|(_, line)| &**line)),
            );
            exchange(&mut socket, &request, &format!(":{count}\r\n"));
        })
    };
    (LIMIT, Box::new(run))
}

const REMOVE_EACH: &str = "local removed = 0
for k, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[k] then removed = removed + redis.call('DEL', key) end
end
return removed";

/// Claims and releases on `PostgreSQL`: one statement for all keys, which commits by itself.
pub(crate) fn on_postgres<'a>(
    runtime: &'a Runtime,
    pool: &'a PgPool,
    keys: u32,
    rest: &str,
) -> Lap<'a> {
    let rest = rest.to_owned();
    let run = move |calls: u64| {
        // The connection returns to the pool in the background.
        let _runtime = runtime.enter();
        let mut connection = runtime.block_on(pool.acquire()).expect("a connection");
        timed(calls, || {
            let (keys, values): (Vec<_>, Vec<_>) = (0..keys)
                .map(|_| (key(), (owner() + &rest).into_bytes()))
                .unzip();
            for statement in [PUT, REMOVE] {
                let statement = query(statement).bind(&keys).bind(&values);
                let changed = runtime.block_on(connection.execute(statement));
                let changed = changed.expect("an answer").rows_affected();
                assert_eq!(changed, u64::try_from(keys.len()).expect("a few keys"));
            }
        })
    };
    (LIMIT, Box::new(run))
}

const PUT: &str = "INSERT INTO by_hand (key, value, expires_at) \
    SELECT key, value, statement_timestamp() + interval '33 s' FROM unnest($1::text[], $2::bytea[]) AS n (key, value) \
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
    WHERE by_hand.expires_at <= statement_timestamp()";
const REMOVE: &str = "DELETE FROM by_hand USING unnest($1::text[], $2::bytea[]) AS n (key, value) \
    WHERE by_hand.key = n.key AND by_hand.value = n.value";

/// A new key, as long as a key of the crate.
fn key() -> String {
    let (number, _) = arguments();
    format!("idem:bench.upload:{number:032x}")
}

/// Makes all calls of all tasks. Each call takes as long as its write.
fn timed(calls: u64, mut each: impl FnMut()) -> Took {
    let start = Instant::now();
    let took = (0..calls).map(|_| {
        let start = Instant::now();
        each();
        start.elapsed()
    });
    let took = vec![took.collect()];
    Took::each(start.elapsed(), &took)
}

/// Adds a command in the protocol of Redis.
fn push<'a>(request: &mut String, arguments: impl Iterator<Item = &'a str> + Clone) {
    let _ = write!(request, "*{}\r\n", arguments.clone().count());
    for argument in arguments {
        let _ = write!(request, "${}\r\n{argument}\r\n", argument.len());
    }
}

/// Writes all commands at once, and reads their answers.
fn exchange(socket: &mut TcpStream, request: &str, expected: &str) {
    let sent = socket.write_all(request.as_bytes());
    sent.expect("the server reads");
    let mut answers = vec![0; expected.len()];
    socket.read_exact(&mut answers).expect("the server answers");
    assert!(
        answers == expected.as_bytes(),
        "each key is free, then owned by the caller"
    );
}
