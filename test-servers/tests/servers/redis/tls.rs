//! Tests of the private Redis server that speaks TLS.

use std::io::Write;
use std::process::{Command, Stdio};
use std::{env, fs, process};

use idempotence_test_servers::RedisServer;

use super::ask;

/// The answers that `openssl s_client` reads with these arguments. It runs in a folder with the certificates.
fn asked_by_openssl(server: &RedisServer, args: &[&str]) -> String {
    let folder = env::temp_dir().join(format!("tls-{}-{}", process::id(), server.port()));
    fs::create_dir_all(&folder).unwrap();
    let certificates = server.certificates().unwrap();
    for (name, pem) in [
        ("ca.pem", certificates.ca_pem()),
        ("client.pem", certificates.client_pem()),
        ("client.key", certificates.client_key_pem()),
    ] {
        fs::write(folder.join(name), pem).unwrap();
    }
    let address = format!("127.0.0.1:{}", server.port());
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error"])
        .args(["-verify_ip", "127.0.0.1", "-connect", &address])
        .args(args)
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = client.stdin.take().unwrap();
    // The server closes the connection after `QUIT`.
    let asked = questions.write_all(b"PING\r\nQUIT\r\n");
    let output = client.wait_with_output().unwrap();
    drop((asked, questions));
    fs::remove_dir_all(&folder).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_client_that_trusts_the_authority_is_answered() {
    let server = RedisServer::start_tls().unwrap();
    assert_eq!(
        server.url(),
        format!("rediss://127.0.0.1:{}", server.port())
    );
    assert!(
        !ask(server.port(), "PING")
            .unwrap_or_default()
            .contains("PONG")
    );
    assert_eq!(
        asked_by_openssl(&server, &["-CAfile", "ca.pem"]),
        "+PONG\r\n+OK\r\n"
    );
    assert_eq!(asked_by_openssl(&server, &["-no-CAfile"]), "");
    server.restart().unwrap();
    assert_eq!(
        asked_by_openssl(&server, &["-CAfile", "ca.pem"]),
        "+PONG\r\n+OK\r\n"
    );
}

#[test]
fn a_server_can_require_a_certificate_of_its_clients() {
    let server = RedisServer::start_tls_with(["--tls-auth-clients", "yes"]).unwrap();
    let trusting = ["-CAfile", "ca.pem"];
    assert_eq!(asked_by_openssl(&server, &trusting), "");
    let known = [
        &trusting[..],
        &["-cert", "client.pem", "-key", "client.key"],
    ]
    .concat();
    assert_eq!(asked_by_openssl(&server, &known), "+PONG\r\n+OK\r\n");
    let plain = RedisServer::start().unwrap();
    assert!(plain.certificates().is_none());
}
