//! Parsing the URL of a cluster.

use std::collections::HashMap;
use std::fs;
use std::str::FromStr as _;

use http::uri::Authority;
use idempotent_runtime::store::StoreError;
use percent_encoding::percent_decode_str;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::failure::bad_url;
use crate::wire::Authenticate;

/// A parsed URL.
pub(crate) struct Address {
    /// Each with its port.
    pub(crate) members: Vec<String>,
    pub(crate) login: Option<Authenticate>,
    pub(crate) tls: Option<Tls>,
}

/// How the members are reached by TLS.
pub(crate) struct Tls {
    pub(crate) config: ClientTlsConfig,
    /// Whether the client shows a certificate.
    pub(crate) has_certificate: bool,
}

impl Address {
    /// Parses `etcd://user:password@a:2379,b:2379/?ca=…`, and reads the files of certificates.
    ///
    /// # Errors
    ///
    /// If the URL is malformed, or a file cannot be read. The text repeats no part of the URL.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let is_encrypted = match scheme {
            "etcd" => false,
            "etcds" => true,
            _ => {
                return Err(bad_url(
                    "must begin with `etcd://`, or for TLS with `etcds://`",
                ));
            }
        };
        if rest.contains('#') {
            return Err(bad_url("must not contain `#`: write it as `%23`"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (Some(parse_login(login)?), hosts),
            None => (None, rest),
        };
        let (hosts, path) = hosts.split_once('/').unwrap_or((hosts, ""));
        if !path.is_empty() {
            return Err(bad_url(
                "must have no path: the handle's `prefix` separates its keys from other keys",
            ));
        }
        let tls = parse_query(query, is_encrypted)?;
        Ok(Self {
            members: hosts.split(',').map(parse_host).collect::<Result<_, _>>()?,
            login,
            tls,
        })
    }
}

/// A member, with its port.
fn parse_host(host: &str) -> Result<String, StoreError> {
    let has_port = matches!(host.rsplit_once(':'), Some((_, port)) if !port.ends_with(']'));
    let port = if has_port { "" } else { ":2379" };
    let address = Authority::from_str(&format!("{host}{port}")).ok();
    let address = address.filter(|address| !address.host().is_empty());
    let address = address.filter(|address| address.port_u16().is_some_and(|port| port > 0));
    let address = address.ok_or_else(|| {
        bad_url(
            "must name members like `etcd://a:2379,b:2379,c:2379`; write an address of IPv6 in brackets",
        )
    })?;
    Ok(address.to_string())
}

fn parse_login(login: &str) -> Result<Authenticate, StoreError> {
    let (name, password) = login.split_once(':').ok_or_else(|| {
        bad_url("must have a password after the name of the user: `etcd://user:password@host`")
    })?;
    Ok(Authenticate {
        name: decode(name)?,
        password: decode(password)?,
    })
}

fn parse_query(query: &str, is_encrypted: bool) -> Result<Option<Tls>, StoreError> {
    let mut config = ClientTlsConfig::new();
    let mut files = HashMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "ca" | "cert" | "key" | "server_name" if !is_encrypted => {
                return Err(bad_url(
                    "must begin with `etcds://` if it has `ca`, `cert`, `key` or `server_name`",
                ));
            }
            "ca" | "cert" | "key" => {
                let file = fs::read(decode(value)?).map_err(|_| {
                    bad_url("names a file in `ca`, `cert` or `key` that cannot be read")
                })?;
                files.insert(name, file);
            }
            "server_name" => config = config.domain_name(decode(value)?),
            _ => {
                return Err(bad_url(
                    "has an unknown parameter: the parameters are `ca`, `cert`, `key` and `server_name`",
                ));
            }
        }
    }
    config = match files.remove("ca") {
        Some(roots) => config.ca_certificate(Certificate::from_pem(roots)),
        None => config.with_native_roots(),
    };
    let has_certificate = files.contains_key("cert");
    config = match (files.remove("cert"), files.remove("key")) {
        (Some(certificate), Some(key)) => config.identity(Identity::from_pem(certificate, key)),
        (None, None) => config,
        _ => return Err(bad_url("must have both `cert` and `key`, or neither")),
    };
    let tls = Tls {
        config,
        has_certificate,
    };
    Ok(is_encrypted.then_some(tls))
}

fn decode(text: &str) -> Result<String, StoreError> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| bad_url("must be UTF-8 after `%` is decoded"))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_members_and_the_user() {
        for (url, members) in [
            ("etcd://a", vec!["a:2379"]),
            ("etcd://a/", vec!["a:2379"]),
            (
                "etcd://a:1,10.0.0.2,[::1],[::1]:7/?",
                vec!["a:1", "10.0.0.2:2379", "[::1]:2379", "[::1]:7"],
            ),
        ] {
            let address = Address::parse(url).expect(url);
            assert_eq!(address.members, members, "{url}");
            assert!(address.login.is_none() && address.tls.is_none());
        }
        let address = Address::parse("etcds://us%40er:p%3Aa%23ss@a").expect("a URL");
        let login = address.login.expect("a user");
        assert_eq!(
            (login.name.as_str(), login.password.as_str()),
            ("us@er", "p:a#ss")
        );
        assert!(address.tls.is_some());
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_its_password() {
        for (url, reason) in [
            ("etcd2://user:s3cret@a", "must begin with `etcd://`"),
            ("etcd:a", "must begin with `etcd://`"),
            ("etcd://", "must name members"),
            ("etcd://user:s3cret@", "must name members"),
            ("etcd://a,,b", "must name members"),
            ("etcd://a:0", "must name members"),
            ("etcd://a:port", "must name members"),
            ("etcd://::1:2379", "must name members"),
            ("etcd://user@a", "must have a password"),
            ("etcd://user:s3cret@a/keys", "must have no path"),
            ("etcd://user:s3#cret@a", "must not contain `#`"),
            (
                "etcd://user:s3cret@a/?timeout=1s",
                "has an unknown parameter",
            ),
            (
                "etcd://user:s3cret@a/?ca=/s3cret",
                "must begin with `etcds://`",
            ),
            ("etcds://user:s3cret@a/?ca=/s3cret", "names a file in `ca`"),
            ("etcds://user:%ff@a", "must be UTF-8"),
        ] {
            let Err(error) = Address::parse(url) else {
                panic!("{url} was accepted");
            };
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("the etcd URL {reason}")),
                "{url}: {text}"
            );
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
