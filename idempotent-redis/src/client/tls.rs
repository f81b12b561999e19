//! The certificates that servers are checked against, and the certificate of this client.

use std::fmt;

use ::redis::{Client, ConnectionInfo};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

use crate::client::failure::refused;

/// The caller's certificates, in PEM.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) client: Option<ClientCertificate>,
}

#[derive(Clone)]
pub(crate) struct ClientCertificate {
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Certificates {
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_none() && self.client.is_none()
    }

    /// # Errors
    ///
    /// If a text is not in PEM. The client would then trust no server, and fail with every handshake.
    pub(crate) fn check(&self, tls: bool) -> Result<(), StoreError> {
        if !self.is_empty() && !tls {
            return Err(bad_certificates(
                "need a URL of TLS: write `rediss://`, `rediss-cluster://` or `rediss-sentinel://`",
            ));
        }
        let has = |pem: &[u8], what: &str| String::from_utf8_lossy(pem).contains(what);
        let certificate = "-----BEGIN CERTIFICATE-----";
        if self
            .roots
            .as_ref()
            .is_some_and(|pem| !has(pem, certificate))
        {
            return Err(bad_certificates(
                "are not in PEM: the root certificates must have `-----BEGIN CERTIFICATE-----`",
            ));
        }
        let Some(client) = &self.client else {
            return Ok(());
        };
        if has(&client.chain, certificate) && has(&client.key, "PRIVATE KEY-----") {
            return Ok(());
        }
        Err(bad_certificates(
            "are not in PEM: the client's certificate must have `-----BEGIN CERTIFICATE-----`, and its key \
             `-----BEGIN PRIVATE KEY-----`",
        ))
    }

    /// A client for one server.
    #[cfg_attr(
        not(any(feature = "redis-rustls", feature = "redis-native-tls")),
        expect(
            clippy::unused_self,
            reason = "the features do not change the signature"
        )
    )]
    pub(crate) fn client(&self, info: ConnectionInfo) -> Result<Client, StoreError> {
        #[cfg(any(feature = "redis-rustls", feature = "redis-native-tls"))]
        if matches!(info.addr(), ::redis::ConnectionAddr::TcpTls { .. }) {
            install_crypto();
            return Client::build_with_tls(info, self.client_config()).map_err(unusable);
        }
        Client::open(info).map_err(unusable)
    }

    #[cfg(any(feature = "redis-rustls", feature = "redis-native-tls"))]
    pub(crate) fn client_config(&self) -> ::redis::TlsCertificates {
        let client_tls = self.client.clone().map(|client| ::redis::ClientTlsConfig {
            client_cert: client.chain,
            client_key: client.key,
        });
        ::redis::TlsCertificates {
            client_tls,
            root_cert: self.roots.clone(),
        }
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("roots", &self.roots.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}

/// Installs the cryptography of this crate in rustls, unless the program has installed other cryptography. Without cryptography
/// the first handshake panics.
#[cfg(any(feature = "redis-rustls", feature = "redis-native-tls"))]
pub(crate) fn install_crypto() {
    #[cfg(feature = "redis-rustls")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, so cryptography is installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// A refusal of the certificates that the caller gave.
pub(crate) fn bad_certificates(reason: &'static str) -> StoreError {
    refused("the certificates for Redis", reason)
}

/// The refusal of a URL or of certificates by the client. The client's error contains no part of a certificate or key.
pub(crate) fn unusable(error: ::redis::RedisError) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, error)
        .reason("or the certificates with it cannot be used")
        .place("the Redis URL")
}
