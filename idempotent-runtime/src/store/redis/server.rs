//! Making the connection, and what the server is asked before it is trusted.

use std::fmt;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use ::redis::{Client, IntoConnectionInfo, RedisError, Value, cmd};
use tokio::time::timeout;

use super::super::{StoreError, StoreErrorKind};
use super::RedisStore;
use super::connection::RedisConnection;
use super::failure::kind_of;

/// Settings of a [`RedisStore`] that is to be connected.
///
/// ```no_run
/// # use idempotent_runtime as idempotence;
/// # async fn example() -> Result<(), idempotence::StoreError> {
/// use idempotence::RedisStore;
///
/// let store = RedisStore::options()
///     .allow_eviction(true)
///     .connect("redis://127.0.0.1")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct RedisOptions {
    allow_eviction: bool,
}

impl RedisOptions {
    /// Accepts a server that may drop a live record when its memory is full.
    ///
    /// A dropped record lets a second call run: only for servers where that does no harm.
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.allow_eviction = allow;
        self
    }

    /// Connects to the server at `url`: see [`RedisStore::connect`].
    ///
    /// `?allow_eviction=…` in the URL has the last word.
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore::connect`].
    pub async fn connect(mut self, url: &str) -> Result<RedisStore, StoreError> {
        let (url, allow_eviction) = without_own_option(url)?;
        self.allow_eviction = allow_eviction.unwrap_or(self.allow_eviction);
        let info = url
            .into_connection_info()
            .map_err(|error| failed("this build cannot use the URL of the server", error))?;
        let server = info.addr().to_string();
        let client = Client::open(info.set_tcp_settings(tcp_settings()))
            .map_err(|error| failed(&format!("cannot connect to {server}"), error))?;
        let what = format!("cannot connect to {server}");
        let checked = self.check(RedisConnection::new(client.clone()), &what);
        let store = in_time(checked, &server).await?;
        Ok(store.listening_by(client))
    }

    /// Makes a store on a connection of the caller's own: see [`RedisStore::from_connection`].
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore::from_connection`].
    pub async fn from_connection<C>(self, connection: C) -> Result<RedisStore<C>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let what = "the server does not answer INFO";
        in_time(self.check(connection, what), "the server").await
    }

    async fn check<C>(&self, mut connection: C, what: &str) -> Result<RedisStore<C>, StoreError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let info = match cmd("INFO").query_async::<Value>(&mut connection).await {
            Ok(reply) => texts(reply),
            Err(error) if is_forbidden(&error) => {
                tracing::warn!(
                    %error,
                    "INFO is not allowed: it is not known whether the server evicts keys, \
                     and claims are made by a script"
                );
                return Ok(RedisStore::new(connection, false));
            }
            Err(error) => return Err(failed(what, error)),
        };
        if !self.allow_eviction {
            info.iter().try_for_each(|info| refuse_eviction(info))?;
        }
        let native_claim = !info.is_empty() && info.iter().all(|info| is_version_7(info));
        Ok(RedisStore::new(connection, native_claim))
    }
}

/// How long it takes at most until [`RedisStore::connect`] gives up.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

async fn in_time<T>(
    connecting: impl Future<Output = Result<T, StoreError>>,
    server: &str,
) -> Result<T, StoreError> {
    timeout(CONNECT_DEADLINE, connecting)
        .await
        .unwrap_or_else(|_| {
            let message = format!("no answer from {server} within {CONNECT_DEADLINE:?}");
            Err(StoreError::new(StoreErrorKind::Unknown, message))
        })
}

fn tcp_settings() -> TcpSettings {
    // A peer that vanished without a word (a fail-over behind one address, a dropped NAT entry)
    // would otherwise hold the connection for the quarter of an hour that TCP retransmits.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(3));
    let settings = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(10));
    settings
}

/// What the client reads from the query of a URL. It ignores all else, a misspelt option, too.
const THEIR_OPTIONS: [&str; 4] = ["protocol", "db", "user", "pass"];

/// Takes `allow_eviction` out of the query of `url`, which the client would not understand.
fn without_own_option(url: &str) -> Result<(String, Option<bool>), StoreError> {
    let (rest, fragment) = url
        .split_once('#')
        .map_or((url, None), |(rest, fragment)| (rest, Some(fragment)));
    let Some((rest, query)) = rest.split_once('?') else {
        return Ok((url.to_owned(), None));
    };
    let mut allow = None;
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("allow_eviction", "true") => allow = Some(true),
            ("allow_eviction", "false") => allow = Some(false),
            // The value is not repeated: in a malformed URL it may be part of the password.
            ("allow_eviction", _) => {
                let message = "`allow_eviction` in the URL must be `true` or `false`";
                return Err(StoreError::new(StoreErrorKind::Misconfigured, message));
            }
            (name, _) if THEIR_OPTIONS.contains(&name) => others.push(pair),
            _ => {
                let message = "the URL has an option that is not known: \
                    `allow_eviction` and `protocol` are, and for sockets `db`, `user` and `pass`";
                return Err(StoreError::new(StoreErrorKind::Misconfigured, message));
            }
        }
    }
    let mut url = rest.to_owned();
    if !others.is_empty() {
        url.push('?');
        url.push_str(&others.join("&"));
    }
    if let Some(fragment) = fragment {
        url.push('#');
        url.push_str(fragment);
    }
    Ok((url, allow))
}

/// The answers to `INFO`: one of a server, one per node of a cluster.
fn texts(reply: Value) -> Vec<String> {
    match reply {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => vec![text],
        Value::Map(nodes) => nodes
            .into_iter()
            .flat_map(|(_, info)| texts(info))
            .collect(),
        _ => Vec::new(),
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

fn refuse_eviction(info: &str) -> Result<(), StoreError> {
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

/// Whether the server knows `SET … NX GET`. Valkey says 7.2.4 here, whatever its own version is.
fn is_version_7(info: &str) -> bool {
    field(info, "redis_version")
        .and_then(|version| version.split('.').next()?.parse::<u32>().ok())
        .is_some_and(|major| major >= 7)
}

/// Whether the command is kept from this user, by an ACL or by being renamed.
fn is_forbidden(error: &RedisError) -> bool {
    let forbidden = error.code() == Some("NOPERM") || error.code() == Some("ERR");
    forbidden && kind_of(error) == StoreErrorKind::Misconfigured
}

fn failed(what: &str, error: RedisError) -> StoreError {
    let what = what.to_owned();
    StoreError::new(kind_of(&error), Failed { what, error })
}

/// An error of the client, and what was tried.
#[derive(Debug)]
struct Failed {
    what: String,
    error: RedisError,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_option_is_taken_out_of_the_url() {
        for (url, rest, allow) in [
            ("redis://h", "redis://h", None),
            ("redis://h?allow_eviction=true", "redis://h", Some(true)),
            (
                "redis://h/1?allow_eviction=false",
                "redis://h/1",
                Some(false),
            ),
            (
                "redis://h?protocol=3&allow_eviction=true",
                "redis://h?protocol=3",
                Some(true),
            ),
            (
                "rediss://h?allow_eviction=true&protocol=3#insecure",
                "rediss://h?protocol=3#insecure",
                Some(true),
            ),
            (
                "rediss://h#insecure?allow_eviction=true",
                "rediss://h#insecure?allow_eviction=true",
                None,
            ),
        ] {
            let (found, found_allow) = without_own_option(url).expect(url);
            assert_eq!((found.as_str(), found_allow), (rest, allow), "{url}");
        }
        for url in [
            "redis://h?allow_eviction=1",
            "redis://h?allow_eviction",
            "redis://:s3cret?allow_eviction=s3cret",
            "redis://:s3cret?allow_evction=true",
            "redis://h?",
        ] {
            let error = without_own_option(url).expect_err(url);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(!format!("{error:?}").contains("s3cret"));
        }
    }

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

    #[test]
    fn versions_are_read() {
        for (info, is_7) in [
            ("# Server\r\nredis_version:7.0.15\r\n", true),
            ("redis_version:10.1.0", true),
            ("redis_version:6.2.14\r\n", false),
            ("redis_version:unstable\r\n", false),
            ("", false),
        ] {
            assert_eq!(is_version_7(info), is_7, "{info}");
        }
    }

    #[test]
    fn every_node_of_a_cluster_is_read() {
        let node = |name: &str| {
            (
                Value::SimpleString(name.to_owned()),
                Value::BulkString(name.into()),
            )
        };
        assert_eq!(texts(Value::Map(vec![node("a"), node("b")])), ["a", "b"]);
        assert!(texts(Value::Nil).is_empty());
    }
}
