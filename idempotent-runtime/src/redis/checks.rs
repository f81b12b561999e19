//! What a server is asked before it is trusted with records.

use ::redis::aio::ConnectionLike;

use super::failure::refused;
use super::info::{config, field, mode};
use crate::store::{Durability, StoreError, StoreErrorKind};

/// A sentinel keeps no records.
pub(super) fn refuse_sentinel(info: &str) -> Result<(), StoreError> {
    if mode(info) == Some("sentinel") {
        return Err(refused(
            "this server is a sentinel and keeps no records: write `redis-sentinel://host/master`",
        ));
    }
    Ok(())
}

/// An evicted claim lets a second call run.
pub(super) fn refuse_eviction(info: &str) -> Result<(), StoreError> {
    let Some(policy) = field(info, "maxmemory_policy") else {
        tracing::warn!("INFO names no maxmemory_policy: the server may evict keys");
        return Ok(());
    };
    let limit = field(info, "maxmemory").unwrap_or("unknown");
    if policy == "noeviction" || limit == "0" {
        return Ok(());
    }
    let message = format!(
        "the server may evict live records (maxmemory = {limit}, maxmemory-policy = {policy}), and \
         an evicted claim lets a second call run: set maxmemory-policy to noeviction, or accept it \
         with `?allow_eviction=true` in the URL or `RedisStore::options().allow_eviction(true)`"
    );
    Err(StoreError::new(StoreErrorKind::Misconfigured, message))
}

/// What the server's own acknowledgement is worth: more than its memory only where it says so, and has
/// no replica that may take its place without the latest writes.
pub(super) async fn durability<C: ConnectionLike>(
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
            refuse_eviction(&accepted).expect(&accepted);
        }
        for policy in ["allkeys-lru", "volatile-ttl", "volatile-lru"] {
            let error = refuse_eviction(&info("1048576", policy)).expect_err(policy);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            let text = format!("{error:?}");
            for part in ["1048576", policy, "maxmemory-policy", "allow_eviction"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
