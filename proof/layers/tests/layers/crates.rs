//! The order of the rooms of the runtime, cycles, and the length of files and functions.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use idempotence_layers::Layers;

/// The rooms of the runtime from the bottom up: each uses only rooms before it.
const RUNTIME: [&str; 30] = [
    "broken",
    "world",
    "sync",
    "policy",
    "key",
    "error",
    "record",
    "store",
    "batch",
    "redis/script",
    "redis/client",
    "redis/send",
    "redis/record",
    "redis/bloom",
    "redis/doctor",
    "redis",
    "sql",
    "result",
    "observe",
    "settings",
    "protocol",
    "handle",
    "call",
    "mechanisms",
    "operate",
    "port",
    "http",
    "integrations",
    "private",
    "lib",
];

/// The rooms that may become a crate of their own.
const ABOVE_THE_PORT: [&str; 2] = ["http", "integrations"];

/// The crates whose files never use each other in a cycle.
const CRATES: [&str; 6] = [
    "idempotence-cli",
    "idempotent-macro",
    "idempotent-runtime",
    "idempotent-testkit",
    "idempotence-client",
    "test-servers",
];

#[test]
fn rooms_of_the_runtime_use_only_rooms_before_them() {
    assert_eq!(layers("idempotent-runtime").violations(&RUNTIME), [""; 0]);
}

#[test]
fn http_imports_only_its_port_and_public_names() {
    let mut files = Vec::new();
    for room in ABOVE_THE_PORT {
        let source = sources("idempotent-runtime");
        files.push(source.join(room).with_extension("rs"));
        rust_files(&source.join(room), &mut files);
    }
    let found: Vec<String> = files.iter().flat_map(|file| inner_paths(file)).collect();
    assert_eq!(found, [""; 0]);
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

#[test]
fn each_database_has_files_of_the_same_names() {
    let names = |database: &str| {
        let folder = sources("idempotent-runtime").join("sql").join(database);
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
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    root.join(package).join("src")
}

/// The paths in the product code of a file that lead into rooms of the runtime, and not through the port.
fn inner_paths(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("a file in UTF-8");
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    let is_public = |path: &str| {
        let rooms = ABOVE_THE_PORT.iter().any(|room| path.starts_with(room));
        let is_name = path.starts_with(|first: char| first.is_uppercase() || first == '{');
        rooms || is_name || path.starts_with("port::http::") || path.starts_with("store::")
    };
    let inner = paths.filter(|path| !is_public(path));
    inner
        .map(|path| format!("{}: crate::{path}", file.display()))
        .collect()
}

/// The files below a folder, without files of tests.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_test = ["tests.rs", "properties.rs", "wire.rs"]
            .iter()
            .any(|name| path.ends_with(name));
        if path.is_dir() {
            rust_files(&path, files);
        } else if !is_test {
            files.push(path);
        }
    }
}
