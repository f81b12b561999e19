//! Parsing the URL of a store.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ::redis::{ProtocolVersion, RedisConnectionInfo};
use idempotent_runtime::port::redis::{read_duration, unknown_parameter};
use idempotent_runtime::store::StoreError;
use percent_encoding::percent_decode_str;

use crate::client::failure::bad_url;

/// A parsed URL.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) place: Servers,
    pub(crate) tls: bool,
    /// The login, the database and the protocol for the servers.
    pub(crate) login: RedisConnectionInfo,
    pub(crate) options: UrlOptions,
}

/// The options of a store that a URL sets.
#[derive(Debug, Default)]
pub(crate) struct UrlOptions {
    pub(crate) allow_eviction: Option<bool>,
    pub(crate) batch: Option<bool>,
    pub(crate) batch_above: Option<usize>,
    pub(crate) replicas: Option<u32>,
    pub(crate) replica_timeout: Option<Duration>,
}

/// The servers of the records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    Socket(PathBuf),
    Server(Host),
    Cluster(Vec<Host>),
    Sentinels {
        sentinels: Vec<Host>,
        master: String,
        credentials: Credentials,
    },
}

pub(crate) type Host = (String, u16);

/// A name and a password, of the servers or of the sentinels.
#[derive(Default, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Address {
    /// # Errors
    ///
    /// If the URL is malformed. The text repeats no part of the URL.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let (kind, tls) = UrlKind::from_scheme(scheme).ok_or_else(|| bad_url(SCHEMES))?;
        if url.contains('#') {
            return Err(bad_url(
                "must not contain `#`: write it as `%23` in a password; instead of `#insecure` name the \
                 certificate to trust with `RedisOptions::root_certificates`",
            ));
        }
        if tls && !cfg!(any(feature = "redis-rustls", feature = "redis-native-tls")) {
            return Err(bad_url(
                "asks for TLS, and this build has none: enable the feature `redis-rustls` or \
                 `redis-native-tls`",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = Query::parse(query, kind)?;
        let (place, login, db) = if kind == UrlKind::Socket {
            (Servers::Socket(parse_socket(rest)?), query.login, query.db)
        } else {
            let (login, mut hosts, path) = split(rest, kind.default_port())?;
            match kind {
                UrlKind::Cluster => (Servers::Cluster(hosts), login, parse_db(path)?),
                UrlKind::Sentinel => {
                    let (master, db) = path.split_once('/').unwrap_or((path, ""));
                    let place = Servers::Sentinels {
                        sentinels: hosts,
                        master: parse_master(master)?,
                        credentials: query.sentinels,
                    };
                    (place, login, parse_db(db)?)
                }
                _ if hosts.len() > 1 => {
                    return Err(bad_url(
                        "names several hosts, so it must begin with `redis-cluster://` or \
                         `redis-sentinel://`",
                    ));
                }
                _ => (Servers::Server(hosts.remove(0)), login, parse_db(path)?),
            }
        };
        Ok(Self {
            place,
            tls,
            login: login.on(db, query.protocol),
            options: query.options,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlKind {
    Socket,
    Server,
    Cluster,
    Sentinel,
}

impl UrlKind {
    /// The kind of a scheme, and whether it uses TLS.
    fn from_scheme(scheme: &str) -> Option<(Self, bool)> {
        Some(match scheme {
            "redis" | "valkey" => (Self::Server, false),
            "rediss" | "valkeys" => (Self::Server, true),
            "redis-cluster" => (Self::Cluster, false),
            "rediss-cluster" => (Self::Cluster, true),
            "redis-sentinel" => (Self::Sentinel, false),
            "rediss-sentinel" => (Self::Sentinel, true),
            "redis+unix" | "valkey+unix" | "unix" => (Self::Socket, false),
            _ => return None,
        })
    }

    fn default_port(self) -> u16 {
        if self == Self::Sentinel { 26379 } else { 6379 }
    }

    /// The parameters that a URL may have.
    fn parameters(self) -> Vec<&'static str> {
        let of_kind: &[&str] = match self {
            Self::Socket => &["db", "user", "pass"],
            Self::Sentinel => &["sentinel_user", "sentinel_pass"],
            Self::Server | Self::Cluster => &[],
        };
        let of_all = [
            "allow_eviction",
            "batch",
            "batch_above",
            "replicas",
            "replica_timeout",
            "protocol",
        ];
        [&of_all, of_kind].concat()
    }
}

const SCHEMES: &str = "must begin with `redis://`, `redis-cluster://` or `redis-sentinel://`, for TLS with \
    `rediss://`, `rediss-cluster://` or `rediss-sentinel://`, for a socket with `redis+unix://`";

#[derive(Default)]
struct Query {
    options: UrlOptions,
    protocol: ProtocolVersion,
    /// For a socket.
    db: i64,
    /// For a socket.
    login: Credentials,
    sentinels: Credentials,
}

impl Query {
    fn parse(text: &str, kind: UrlKind) -> Result<Self, StoreError> {
        let mut query = Self::default();
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        for (number, pair) in pairs.enumerate() {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (name, kind) {
                ("allow_eviction", _) => {
                    query.options.allow_eviction = Some(parse(
                        value,
                        "must set `allow_eviction` to `true` or `false`",
                    )?);
                }
                ("batch", _) => {
                    query.options.batch =
                        Some(parse(value, "must set `batch` to `true` or `false`")?);
                }
                ("batch_above", _) => {
                    query.options.batch_above =
                        Some(parse(value, "must set `batch_above` to a whole number")?);
                }
                ("replicas", _) => {
                    query.options.replicas =
                        Some(parse(value, "must set `replicas` to a whole number")?);
                }
                ("replica_timeout", _) => {
                    let timeout = read_duration(value).map_err(|_| {
                        bad_url("must set `replica_timeout` to a duration such as `200ms`")
                    })?;
                    query.options.replica_timeout = Some(timeout);
                }
                ("protocol", _) => {
                    query.protocol = match value {
                        "2" | "resp2" => ProtocolVersion::RESP2,
                        "3" | "resp3" => ProtocolVersion::RESP3,
                        _ => return Err(bad_url("must set `protocol` to `2` or `3`")),
                    }
                }
                ("db", UrlKind::Socket) => query.db = parse_db(value)?,
                ("user", UrlKind::Socket) => query.login.user = Some(decode(value)?),
                ("pass", UrlKind::Socket) => query.login.password = Some(decode(value)?),
                ("sentinel_user", UrlKind::Sentinel) => {
                    query.sentinels.user = Some(decode(value)?);
                }
                ("sentinel_pass", UrlKind::Sentinel) => {
                    query.sentinels.password = Some(decode(value)?);
                }
                _ => {
                    let parameter = (name, value);
                    // The text before an `@` may be a password.
                    let may_be_secret = query.login.password.is_some()
                        || query.sentinels.password.is_some()
                        || text.contains('@');
                    let known = kind.parameters();
                    let what = unknown_parameter(number + 1, parameter, may_be_secret, &known);
                    return Err(bad_url(what));
                }
            }
        }
        Ok(query)
    }
}

fn parse<T: FromStr>(value: &str, rule: &'static str) -> Result<T, StoreError> {
    value.parse().map_err(|_| bad_url(rule))
}

impl Credentials {
    /// The login to a database, by a protocol.
    pub(crate) fn on(self, db: i64, protocol: ProtocolVersion) -> RedisConnectionInfo {
        let info = RedisConnectionInfo::default();
        let mut info = info.set_db(db).set_protocol(protocol);
        if let Some(user) = self.user {
            info = info.set_username(user);
        }
        if let Some(password) = self.password {
            info = info.set_password(password);
        }
        info
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let part = |part: &str| {
            let part = decode(part)?;
            Ok::<_, StoreError>((!part.is_empty()).then_some(part))
        };
        Ok(Self {
            user: part(user)?,
            password: part(password)?,
        })
    }
}

/// Splits `//user:password@host,host/path`.
fn split(rest: &str, default_port: u16) -> Result<(Credentials, Vec<Host>, &str), StoreError> {
    let rest = rest
        .strip_prefix("//")
        .ok_or_else(|| bad_url("must have `://` and a host after its scheme"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Credentials::parse(login)?, hosts),
        None => (Credentials::default(), authority),
    };
    let hosts = hosts.split(',').map(|host| parse_host(host, default_port));
    Ok((login, hosts.collect::<Result<_, _>>()?, path))
}

fn parse_master(text: &str) -> Result<String, StoreError> {
    if text.is_empty() {
        return Err(bad_url(
            "names no master: write `redis-sentinel://host:26379/master`",
        ));
    }
    // Most likely this is the end of a password that contains a `/`. It is refused, because errors show the name of a master.
    if text.contains('@') {
        return Err(bad_url(
            "has an `@` in the name of the master: write it as `%40`, and a `/` in a password as `%2F`",
        ));
    }
    decode(text)
}

fn parse_socket(rest: &str) -> Result<PathBuf, StoreError> {
    // `unix:/path`, `unix:///path` and `unix://localhost/path` are all common.
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if path.len() < 2 || !path.starts_with('/') {
        return Err(bad_url(
            "names no socket: write `redis+unix:///path/to/the.sock`",
        ));
    }
    if !cfg!(unix) {
        return Err(bad_url(
            "names a socket, and this system has no Unix sockets",
        ));
    }
    decode(path).map(PathBuf::from)
}

/// Parses a host and its port. An IPv6 address is in brackets.
fn parse_host(text: &str, default_port: u16) -> Result<Host, StoreError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(bad_host)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| bad_host())?;
            (
                host,
                port.strip_prefix(':').or(port.is_empty().then_some("")),
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        },
    };
    let port = match port {
        Some("") => default_port,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(bad_host)?,
        None => return Err(bad_host()),
    };
    let host = decode(host)?;
    let odd = |char: char| char.is_whitespace() || char.is_control() || "@:/\\".contains(char);
    if host.is_empty() || (host.contains(odd) && !text.starts_with('[')) {
        return Err(bad_host());
    }
    Ok((host, port))
}

fn bad_host() -> StoreError {
    bad_url(
        "has an invalid host or port: write `host`, `host:port` or `[address]:port` with a port between 1 and \
         65535, and `@ : / ? # %` in a password as `%40 %3A %2F %3F %23 %25`",
    )
}

fn parse_db(text: &str) -> Result<i64, StoreError> {
    match text.trim_end_matches('/') {
        "" => Ok(0),
        text => text
            .parse::<u32>()
            .map(i64::from)
            .map_err(|_| bad_url("must have a whole number as the database")),
    }
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Result<String, StoreError> {
    let is_byte = |rest: &str| match rest.as_bytes() {
        [high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        _ => false,
    };
    // The crate would not change a `%` without two digits.
    if !text.split('%').skip(1).all(is_byte) {
        return Err(bad_url(
            "has a `%` that is not followed by two hexadecimal digits",
        ));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| bad_url("has percent-encoded bytes that are not UTF-8"))?;
    Ok(decoded.into_owned())
}
