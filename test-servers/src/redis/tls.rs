//! Certificates for a server that speaks TLS. `openssl` makes them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

/// The certificates of a [`RedisServer`](super::RedisServer) that speaks TLS, as PEM.
#[derive(Debug, Clone)]
pub struct Certificates {
    ca: String,
    client: String,
    client_key: String,
}

impl Certificates {
    /// The authority that signed the certificate of the server for `127.0.0.1` and `localhost`.
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// The certificate of a client, signed by the same authority.
    pub fn client_pem(&self) -> &str {
        &self.client
    }

    /// The private key of the client.
    pub fn client_key_pem(&self) -> &str {
        &self.client_key
    }

    /// Makes the certificates in this folder. Returns the lines of a server's configuration that use them.
    pub(super) fn make(folder: &Path, port: u16) -> io::Result<String> {
        fs::write(folder.join(CONFIG), EXTENSIONS)?;
        let new_key = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1";
        openssl(
            folder,
            &format!(
                "req -x509 {new_key} -config {CONFIG} -extensions ca -days 30 -subj /CN=authority \
                 -keyout ca.key -out ca.pem"
            ),
        )?;
        for name in ["server", "client"] {
            openssl(
                folder,
                &format!(
                    "req {new_key} -config {CONFIG} -subj /CN={name} -keyout {name}.key \
                     -out {name}.csr"
                ),
            )?;
            openssl(
                folder,
                &format!(
                    "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 \
                     -extfile {CONFIG} -extensions {name} -out {name}.pem"
                ),
            )?;
        }
        // The server has changed into this folder before it reads the files.
        Ok(format!(
            "port 0\ntls-port {port}\ntls-cert-file server.pem\ntls-key-file server.key\n\
             tls-ca-cert-file ca.pem\ntls-auth-clients optional\n"
        ))
    }

    /// Reads the certificates that [`make`](Self::make) wrote into this folder.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let read = |name| fs::read_to_string(folder.join(name));
        Ok(Self {
            ca: read("ca.pem")?,
            client: read("client.pem")?,
            client_key: read("client.key")?,
        })
    }
}

const CONFIG: &str = "openssl.cnf";

/// The authority and the server have separate certificates, because clients refuse a server that is its own authority.
const EXTENSIONS: &str = "
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1, DNS:localhost
[client]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = clientAuth
";

fn openssl(folder: &Path, args: &str) -> io::Result<()> {
    let output = Command::new("openssl")
        .args(args.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            let message = format!(
                "cannot run `openssl`: {error}; install it with `apt-get install openssl` or \
                 `brew install openssl`"
            );
            io::Error::new(error.kind(), message)
        })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("openssl {args}: {text}")))
}
