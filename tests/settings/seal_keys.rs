//! Seal keys from the environment and from a file. This binary starts itself again with other variables.
#![allow(clippy::print_stdout)]

use std::env;
use std::process::Command;

use idempotent_runtime::{Error, Idempotency, MemoryStore, SealKey, SealKeys, Settings};

use crate::{File, secs};

/// Whether a result that `key` has sealed is read with these keys.
async fn opens(keys: SealKeys, key: u8) -> bool {
    let store = MemoryStore::new();
    let pay = async |keys: SealKeys| {
        let handle = Idempotency::builder(store.clone()).seal(keys);
        let handle = handle.settings(Settings::env()).build().unwrap();
        let call = handle.call("orders.pay").key(&1).ttl(secs(30)).replay();
        call.run(async { Ok::<_, Error>(42) }).await
    };
    pay(SealKey::new([key; 32]).into()).await.unwrap();
    matches!(pay(keys).await, Ok(42))
}

fn two_keys() -> [String; 2] {
    ["0a".repeat(32), "0B".repeat(32)]
}

#[tokio::test]
async fn seal_keys_are_read_from_a_file() {
    let [one, two] = two_keys();
    let file = File::new(&format!("# the new key\n{one}\n{two} # the old key\n"));
    let keys = SealKeys::from_file(file.path()).unwrap();
    assert!(opens(keys.clone(), 0x0a).await && opens(keys.clone(), 0x0b).await);
    assert!(!opens(keys, 0x0c).await);

    file.write(&one[..62]);
    let error = SealKeys::from_file(file.path()).unwrap_err().to_string();
    assert!(
        error.contains("seal key 1 of") && error.contains("64 hexadecimal digits"),
        "{error}"
    );
    assert!(!error.contains("0a0a"), "{error}");
    SealKeys::from_file("/no/such/file").unwrap_err();
}

#[test]
fn seal_keys_are_read_from_a_variable() {
    let [one, two] = two_keys();
    assert_eq!(seen_by_a_child(&format!("{one},{two}")), "true true false");
    let error = seen_by_a_child(&format!("{one},{}", two.replace('B', "x")));
    let expected = "seal key 2 of the variable `IDEMPOTENCE_SEAL` is not 64 hexadecimal digits; \
                    make one with `openssl rand -hex 32`";
    assert_eq!(error, expected);
    let absent = SealKeys::from_env("IDEMPOTENCE_SEAL").unwrap_err();
    assert_eq!(
        absent.to_string(),
        "no seal keys in the variable `IDEMPOTENCE_SEAL`: it is not set"
    );
}

fn seen_by_a_child(keys: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "seal_keys::child", "--ignored", "--nocapture"])
        .env("IDEMPOTENCE_SEAL", keys)
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let lines = output.lines().find_map(|line| line.split_once(SEEN));
    lines.expect(&output).1.to_owned()
}

const SEEN: &str = "seen: ";

#[tokio::test]
#[ignore = "runs in a process that another test starts"]
async fn child() {
    match SealKeys::from_env("IDEMPOTENCE_SEAL") {
        Ok(keys) => {
            let opened = [0x0a, 0x0b, 0x0c].map(|key| opens(keys.clone(), key));
            let [a, b, c] = opened;
            println!("{SEEN}{} {} {}", a.await, b.await, c.await);
        }
        Err(error) => println!("{SEEN}{error}"),
    }
}
