//! Connections by TLS.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use idempotence::store::{Bytes, Claim};
use idempotence::{EtcdStore, Store as _};
use idempotence_test_servers::{EtcdCluster, Port};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_show_a_certificate() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tls");
    make_certificates(&folder);
    let path = |name: &str| folder.join(name).display().to_string();
    let port = Port::free().unwrap();
    let port = port.number();
    let listen = format!("--listen-client-urls=http://127.0.0.1:{{port}},https://127.0.0.1:{port}");
    let files = [
        ("cert", "leaf.pem"),
        ("key", "leaf.key"),
        ("trusted-ca", "ca.pem"),
    ];
    let [cert, key, ca] = files.map(|(option, file)| format!("--{option}-file={}", path(file)));
    let args = [listen.as_str(), &cert, &key, &ca, "--client-cert-auth"];
    let _cluster = EtcdCluster::start_with(1, args).unwrap();

    let url = format!("etcds://127.0.0.1:{port}/?ca={}", path("ca.pem"));
    let client = format!("{url}&cert={}&key={}", path("leaf.pem"), path("leaf.key"));
    let store = EtcdStore::connect(&client).await.unwrap();
    let (value, ttl) = (Bytes::from_static(b"value"), Duration::from_mins(1));
    assert_eq!(
        store.claim("key", &value, ttl).await.unwrap(),
        Claim::Claimed
    );
    // The certificate may name a user.
    let found = store.examine("key", ttl).await;
    let auth = found.iter().find(|one| one.found().contains("auth is off"));
    assert!(auth.is_none(), "{found:#?}");

    for (refused, why) in [
        (url, "no certificate of the client"),
        (client.replace("?ca=", "?cert_of="), "an unknown parameter"),
        (
            client.replacen(&format!("ca={}&", path("ca.pem")), "", 1),
            "an unknown authority",
        ),
        (
            format!("{client}&server_name=other.example"),
            "another name",
        ),
        (client.replace("leaf.key", "ca.pem"), "no key in its file"),
    ] {
        let connected = EtcdStore::connect(&refused).await;
        assert!(connected.is_err(), "{why} was accepted");
    }
}

/// An authority, and a certificate of both a server and a client.
fn make_certificates(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let extensions = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n";
    fs::write(folder.join("extensions"), extensions).unwrap();
    let new_key = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1";
    for command in [
        format!("req -x509 {new_key} -days 30 -subj /CN=authority -keyout ca.key -out ca.pem"),
        format!("req {new_key} -subj /CN=leaf -keyout leaf.key -out leaf.csr"),
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile extensions -out leaf.pem".to_owned(),
    ] {
        let done = Command::new("openssl").args(command.split(' ')).current_dir(folder).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
