//! The order of the rooms of the runtime, of the drivers, of Redis, of SQL and of HTTP, cycles, and the length of files and functions.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use idempotence_layers::Layers;

use crate::phrases::readable_files;

/// The rooms of the runtime from the bottom up: each uses only rooms before it.
const RUNTIME: [&str; 22] = [
    "mutation",
    "world",
    "sync",
    "policy",
    "key",
    "error",
    "record",
    "store",
    "batch",
    "sql",
    "result",
    "observe",
    "settings",
    "protocol",
    "handle",
    "call",
    "mechanisms",
    "operate",
    "integrations",
    "port",
    "private",
    "lib",
];

/// The order of the rooms of the drivers, in the same way.
const DRIVER: [&str; 17] = [
    "code",
    "error",
    "value",
    "fields",
    "dialect",
    "transaction",
    "pool",
    "causes",
    "database",
    "postgres",
    "mysql",
    "sqlite",
    "failure",
    "adapters",
    "chain",
    "port",
    "lib",
];

/// The order of the rooms of Redis, in the same way.
const REDIS: [&str; 11] = [
    "mutation", "script", "client", "send", "record", "bloom", "doctor", "checks", "store",
    "options", "lib",
];

/// The order of the rooms of SQL, in the same way.
const SQL: [&str; 11] = [
    "mutation", "database", "postgres", "mysql", "sqlite", "migrate", "batching", "store", "block",
    "placed", "lib",
];

/// The order of the rooms of HTTP, in the same way.
const HTTP: [&str; 17] = [
    "running",
    "context",
    "continue_layer",
    "body",
    "catalog",
    "page",
    "request",
    "profile",
    "response",
    "rejection",
    "layer",
    "actix",
    "cors",
    "peek",
    "describe",
    "integrations",
    "lib",
];

/// The crates whose files never use each other in a cycle.
const CRATES: [&str; 12] = [
    "idempotence-cli",
    "idempotent-driver",
    "idempotent-dynamodb",
    "idempotent-etcd",
    "idempotent-http",
    "idempotent-macro",
    "idempotent-redis",
    "idempotent-runtime",
    "idempotent-sql",
    "idempotent-testkit",
    "idempotence-client",
    "test-servers",
];

#[test]
fn rooms_use_only_rooms_before_them() {
    assert_eq!(layers("idempotent-runtime").violations(&RUNTIME), [""; 0]);
    assert_eq!(layers("idempotent-driver").violations(&DRIVER), [""; 0]);
    assert_eq!(layers("idempotent-redis").violations(&REDIS), [""; 0]);
    assert_eq!(layers("idempotent-sql").violations(&SQL), [""; 0]);
    assert_eq!(layers("idempotent-http").violations(&HTTP), [""; 0]);
}

#[test]
fn files_use_each_other_in_no_cycle() {
    for name in CRATES {
        let cycles = layers(name).cycles();
        let cycles: Vec<_> = cycles.iter().map(ToString::to_string).collect();
        assert_eq!(cycles, [""; 0], "{name}: {}", cycles.concat());
    }
}

#[test]
fn no_file_has_more_than_400_lines_and_no_function_more_than_60() {
    for name in CRATES {
        assert_eq!(layers(name).longer_than(400, 60), [""; 0], "{name}");
    }
}

/// Also benchmarks, examples, proofs and unit tests; the programs in `tests` have long lists of cases.
#[test]
fn no_rust_file_outside_of_tests_has_more_than_400_lines() {
    let root = root();
    let mut files = Vec::new();
    readable_files(&root, &mut files);
    let files = files.iter().filter(|file| {
        let is_rust = file.extension().is_some_and(|ending| ending == "rs");
        is_rust && !file.starts_with(root.join("tests"))
    });
    let long = files.filter_map(|file| {
        let lines = fs::read_to_string(file).expect("a file").lines().count();
        (lines > 400).then(|| format!("{} has {lines} lines", file.display()))
    });
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn each_database_has_files_of_the_same_names() {
    let names = |database: &str| {
        let folder = sources("idempotent-sql").join(database);
        let files = fs::read_dir(folder).expect("a folder for each database");
        let files = files.map(|file| file.expect("a file"));
        // A folder has the parts of the file with its name.
        let mut names: Vec<OsString> = files
            .filter(|file| file.path().is_file())
            .map(|file| file.file_name())
            .collect();
        names.sort();
        names
    };
    let postgres = names("postgres");
    for other in ["mysql", "sqlite"] {
        assert_eq!(names(other), postgres, "{other}");
    }
}

fn layers(package: &str) -> Layers {
    Layers::read(&sources(package)).expect("the sources of a crate")
}

fn sources(package: &str) -> PathBuf {
    root().join(package).join("src")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
