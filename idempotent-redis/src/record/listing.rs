//! Lists records by `SCAN`: on one server, or on each master of a cluster in turn.
//!
//! A cursor is the cursor of the server. In a cluster it is the first slot of a master, the name of the master and the cursor of
//! the master: `5461:127.0.0.1:7001/84`. If the slot has another master since then, the new master is read from its start, because
//! the cursors of servers differ.

use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd};
use futures_util::future::try_join_all;
use idempotent_runtime::store::{Cursor, LISTED_BYTES, Listed, Page, StoreError};

use crate::client::connection::RedisConnection;
use crate::client::connection_like::StoreClient;
use crate::client::link::Link;
use crate::client::slots::{masters, question};
use crate::script::{Script, send};
use crate::send::op::{Op, SendError};
use crate::send::sender::Sender;

/// The most keys that one `SCAN` looks at: the server runs no other command meanwhile, for about a fifth of a millisecond.
const MOST: usize = 250;

/// Returns the first bytes of the record, if any, and its time to live. Copies no more than these bytes, because a record of another
/// program may be long.
static HEAD: Script = Script::new(
    "local remaining = redis.call('PTTL', KEYS[1])
if remaining == -2 then return {false, remaining} end
local head = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1])
if type(head) == 'table' then
  if string.find(head.err, 'WRONGTYPE', 1, true) then return {'', remaining} end
  return head
end
return {head, remaining}",
);

/// Lists the records with this prefix. `None` if the client of the caller may send the command to any node of a cluster.
pub(crate) async fn list<C: StoreClient>(
    sender: &Sender<C>,
    prefix: &str,
    after: Option<&Cursor>,
    most: usize,
) -> Result<Option<Page>, StoreError> {
    let mut connection = sender.connection();
    let after = after.map(Cursor::as_str);
    let cluster = RedisConnection::of(&connection).filter(|connection| connection.is_cluster());
    let scanned = if let Some(cluster) = cluster.cloned() {
        scan_node(&cluster, prefix, after, most).await
    } else if sender.sends_once() {
        scan_server(&mut connection, prefix, after, most).await
    } else {
        return Ok(None);
    };
    let (keys, next) = scanned.map_err(|error| sender.error(SendError::Redis(error)))?;
    let records = try_join_all(keys.iter().map(|key| head(sender, key))).await?;
    Ok(Some(Page {
        records: records.into_iter().flatten().collect(),
        next: next.map(Cursor::new),
    }))
}

async fn head<C: StoreClient>(sender: &Sender<C>, key: &str) -> Result<Option<Listed>, StoreError> {
    let last = (LISTED_BYTES - 1).to_string();
    let (keys, args) = ([key], [last.as_bytes()]);
    let reply = sender.value(sender.send(&Op::script(&HEAD, &keys, &args)).await)?;
    let (head, remaining): (Option<Vec<u8>>, i64) = sender.read(reply)?;
    Ok(head.map(|head| Listed {
        key: key.to_owned(),
        head: head.into(),
        ttl: u64::try_from(remaining).ok().map(Duration::from_millis),
    }))
}

/// The keys of a page, and the text of the next cursor.
type Scanned = (Vec<String>, Option<String>);

async fn scan_server<C: ConnectionLike>(
    connection: &mut C,
    prefix: &str,
    after: Option<&str>,
    most: usize,
) -> RedisResult<Scanned> {
    let cursor = after.unwrap_or("0");
    let reply = send(connection, &scan(cursor, prefix, most)?).await?;
    let (next, keys) = read(reply)?;
    Ok((keys, (next != "0").then_some(next)))
}

async fn scan_node(
    connection: &RedisConnection,
    prefix: &str,
    after: Option<&str>,
    most: usize,
) -> RedisResult<Scanned> {
    let (slot, name, cursor) = match after {
        Some(after) => read_cursor(after).ok_or_else(bad_cursor)?,
        None => (0, "", "0"),
    };
    let masters = masters(ask(connection, question(), None).await?);
    let mut rest = masters.iter().filter(|(first, _)| *first >= slot);
    let Some((first, master)) = rest.next() else {
        return Ok((Vec::new(), None));
    };
    let cursor = if master == name { cursor } else { "0" };
    let reply = ask(connection, scan(cursor, prefix, most)?, Some(*first)).await?;
    let (next, keys) = read(reply)?;
    let next = if next == "0" {
        rest.next()
            .map(|(first, master)| format!("{first}:{master}/0"))
    } else {
        Some(format!("{first}:{master}/{next}"))
    };
    Ok((keys, next))
}

/// Sends a command to the master of a slot, or to any node.
async fn ask(connection: &RedisConnection, command: Cmd, slot: Option<u16>) -> RedisResult<Value> {
    let send = async |link: &mut Link| match (link, slot) {
        (Link::Cluster(cluster), Some(slot)) => {
            let route = Route::new(slot, SlotAddr::Master);
            let node = SingleNodeRoutingInfo::SpecificNode(route);
            cluster.command_to(node, command.clone()).await
        }
        (link, _) => link.command(&command).await,
    };
    let reply = connection.send(Some(&command), send, |_| false).await;
    reply.and_then(Value::extract_error)
}

fn scan(cursor: &str, prefix: &str, most: usize) -> RedisResult<Cmd> {
    if cursor.is_empty() || !cursor.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad_cursor());
    }
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern(prefix));
    scan.arg("COUNT").arg(most.clamp(1, MOST));
    Ok(scan)
}

/// The cursor and the keys of an answer. A key that is no text is of another program.
fn read(reply: Value) -> RedisResult<(String, Vec<String>)> {
    let (next, keys): (String, Vec<Vec<u8>>) = FromRedisValue::from_redis_value(reply)?;
    let keys = keys
        .into_iter()
        .filter_map(|key| String::from_utf8(key).ok());
    Ok((next, keys.collect()))
}

/// Matches the keys with this prefix.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for char in prefix.chars() {
        if "*?[]^\\-".contains(char) {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern.push('*');
    pattern
}

/// The first slot of a master, its name and its cursor.
fn read_cursor(text: &str) -> Option<(u16, &str, &str)> {
    let (slot, rest) = text.split_once(':')?;
    let (name, cursor) = rest.rsplit_once('/')?;
    Some((slot.parse().ok()?, name, cursor))
}

fn bad_cursor() -> RedisError {
    RedisError::from((
        ErrorKind::InvalidClientConfig,
        "the cursor of the listing is not of this store",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_characters_of_a_pattern_are_escaped_in_a_prefix() {
        for (prefix, expected) in [
            ("idem:orders.pay:", "idem:orders.pay:*"),
            ("a*b?[c]\\", "a\\*b\\?\\[c\\]\\\\*"),
            ("", "*"),
        ] {
            assert_eq!(pattern(prefix), expected);
        }
    }

    #[test]
    fn a_cursor_of_another_store_is_refused() {
        assert_eq!(
            read_cursor("5461:127.0.0.1:7001/84"),
            Some((5461, "127.0.0.1:7001", "84"))
        );
        for text in ["", "84", "5461:", "x:host/1", "70000:host/1"] {
            assert_eq!(read_cursor(text), None, "{text}");
        }
        for cursor in ["", "1 MATCH *", "-1", "idem:orders"] {
            assert!(scan(cursor, "idem:", 10).is_err(), "{cursor}");
        }
    }
}
