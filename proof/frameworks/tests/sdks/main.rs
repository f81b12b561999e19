//! SDKs of vendors from PyPI and npm, on services behind the layer, through a proxy that loses and cuts replies.
//!
//! `./test-sdks` installs the SDKs and runs these tests.
#![allow(clippy::unwrap_used, missing_docs)]

mod proxy;
mod services;

use std::process::Command;

use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use proxy::Proxy;

/// Runs a program of the installed SDKs. `SERVICE` and `PROXY` are the addresses of the services and of the proxy before them.
async fn run(program: &str, args: &[&str]) {
    let sdks = std::env::var_os("SDKS").expect("`./test-sdks` sets `SDKS`");
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut test = Command::new(program);
    test.args(args).current_dir(sdks);
    test.env(
        "SERVICE",
        format!("http://{}", service.local_addr().unwrap()),
    );
    test.env("PROXY", format!("http://{}", outside.local_addr().unwrap()));

    let proxy = Proxy::new(service.local_addr().unwrap());
    let app = services::app(&proxy);
    tokio::spawn(proxy.serve(outside));
    tokio::spawn(async { axum::serve(service, app).await });
    let output = spawn_blocking(move || test.output()).await;
    let output = output.unwrap().unwrap();
    let texts =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}", texts.concat());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the SDKs that `./test-sdks` installs"]
async fn each_call_of_an_sdk_in_python_has_one_effect() {
    run("python/bin/python", &["python/test_sdks.py"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the SDKs that `./test-sdks` installs"]
async fn each_call_of_an_sdk_in_node_has_one_effect() {
    run("node", &["--test", "node/sdks.test.mjs"]).await;
}
