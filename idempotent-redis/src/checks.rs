//! Checks of a server before it stores records.

use ::redis::aio::ConnectionLike;
use ::redis::{ErrorKind, RedisError, RedisResult, Value, cmd, pipe};
use idempotent_runtime::store::{Durability, StoreError};

use crate::client::connection_like::sends_once;
use crate::client::failure::{is_forbidden, refused};
use crate::client::info::{config, field, mode};
use crate::record::scripts::OF_MOST_CALLS;

/// Asks for `INFO`, and whether the user may run scripts. Returns the answer to `INFO`, and the refusal of scripts.
///
/// The scripts of most calls are sent for this question, without a key. So the server knows them afterwards, and no first call sends its
/// script a second time. `SCRIPT LOAD` would need another permission.
///
/// Without scripts a call could be claimed, but its result could never be recorded. One server answers both in one round trip.
/// The client of a cluster does not send both together, so in a cluster the scripts are not checked.
pub(crate) async fn first_questions<C: ConnectionLike + 'static>(
    connection: &mut C,
) -> RedisResult<(RedisResult<Value>, RedisResult<()>)> {
    if !sends_once(connection) {
        let info = cmd("INFO").query_async(connection).await;
        return Ok((info, Ok(())));
    }
    let mut together = pipe();
    together.cmd("INFO");
    // No script has this hash, so the answer is `NOSCRIPT` if scripts are allowed.
    together.cmd("EVALSHA").arg("0".repeat(40)).arg(0);
    for text in OF_MOST_CALLS.iter().flat_map(|script| script.texts()) {
        together.cmd("EVAL").arg(text).arg(0);
    }
    let count = together.len();
    // Not by `query_async`, because it makes one error of all replies.
    let replies = connection.req_packed_commands(&together, 0, count).await?;
    if replies.len() != count {
        let message = "the number of replies is not the number of commands";
        return Err(RedisError::from((ErrorKind::UnexpectedReturnType, message)));
    }
    let mut replies = replies.into_iter().map(Value::extract_error);
    let info = replies.next().unwrap_or(Ok(Value::Nil));
    // An error for a missing key says that the script runs.
    let refusal = replies.find_map(|reply| reply.err().filter(is_forbidden));
    Ok((info, refusal.map_or(Ok(()), Err)))
}

/// Refuses a sentinel, which stores no records.
pub(crate) fn refuse_sentinel(info: &str, place: &str) -> Result<(), StoreError> {
    if mode(info) == Some("sentinel") {
        let reason = "is a sentinel and stores no records (write `redis-sentinel://host/master`)";
        return Err(refused(place.to_owned(), reason));
    }
    Ok(())
}

/// Refuses a server that may evict records: an evicted claim lets a second call run.
pub(crate) fn refuse_eviction(info: &str, place: &str) -> Result<(), StoreError> {
    let Some(policy) = field(info, "maxmemory_policy") else {
        tracing::warn!(target: "idempotence", "INFO names no maxmemory_policy: the server may evict keys");
        return Ok(());
    };
    let limit = field(info, "maxmemory").unwrap_or("unknown");
    if policy == "noeviction" || limit == "0" {
        return Ok(());
    }
    let reason = format!(
        "may evict live records (maxmemory = {limit}, maxmemory-policy = {policy}), and an evicted claim \
         lets a second call run: set maxmemory-policy to noeviction, or accept eviction with \
         `?allow_eviction=true` in the URL or `RedisStore::options().allow_eviction(true)`"
    );
    Err(refused(place.to_owned(), reason))
}

/// The durability of the writes that one server acknowledges: [`Durability::Fsync`] if its append-only file is synced before
/// every answer, and no replica can replace the server without the latest writes.
pub(crate) async fn durability<C: ConnectionLike>(
    connection: &mut C,
    info: &[String],
) -> Durability {
    let [info] = info else {
        return Durability::Server;
    };
    let alone = field(info, "connected_slaves").is_none_or(|connected| connected == "0");
    if field(info, "aof_enabled") != Some("1") || !alone {
        return Durability::Server;
    }
    match config(connection, "appendfsync").await {
        Ok(policy) if policy == "always" => Durability::Fsync,
        _ => Durability::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotent_runtime::store::StoreErrorKind;

    #[test]
    fn an_evicting_server_is_refused() {
        let info = |limit: &str, policy: &str| {
            format!(
                "# Memory\r\nmaxmemory:{limit}\r\nmaxmemory_human:1M\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        for accepted in [
            info("0", "allkeys-lru"),
            info("1048576", "noeviction"),
            String::new(),
        ] {
            refuse_eviction(&accepted, "redis").expect(&accepted);
        }
        for policy in ["allkeys-lru", "volatile-ttl", "volatile-lru"] {
            let error = refuse_eviction(&info("1048576", policy), "redis").expect_err(policy);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            let text = error.to_string();
            for part in ["1048576", policy, "maxmemory-policy", "allow_eviction"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
