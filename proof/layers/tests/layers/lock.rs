//! The packages in the lock file of a user, for each feature: what only tests need must not be among them.
//!
//! `UPDATE_LOCK=1 cargo test -p idempotence-layers lock` writes the list again. Read the diff.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use crate::features::features;

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layers/lock.txt");

/// A user's program, in a folder that is removed at the end.
struct Program(PathBuf);

impl Program {
    fn new() -> Self {
        let folder = env::temp_dir().join(format!("idempotence-lock-{}", process::id()));
        fs::create_dir_all(folder.join("src")).expect("a folder");
        fs::write(folder.join("src/main.rs"), "fn main() {}").expect("a file");
        Self(folder)
    }

    /// The packages in the lock file of the program with these features.
    fn locked(&self, features: &[&str]) -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().expect("the repository");
        let manifest = format!(
            "[package]\nname = \"program\"\nedition = \"2024\"\n\n\
             [dependencies]\nidempotence = {{ path = \"{}\", features = {features:?} }}\n\n[workspace]\n",
            root.display()
        );
        fs::write(self.0.join("Cargo.toml"), manifest).expect("a file");
        // The versions of this repository: Cargo only removes what the program does not need, and asks no registry.
        let lock = self.0.join("Cargo.lock");
        fs::copy(root.join("Cargo.lock"), &lock).expect("a lock file");
        let output = Command::new(env!("CARGO"))
            .args(["update", "--workspace", "--offline"])
            .current_dir(&self.0)
            .output()
            .expect("Cargo");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{features:?}: {errors}");
        let lock = fs::read_to_string(&lock).expect("a lock file");
        let names = lock
            .lines()
            .filter_map(|line| line.strip_prefix("name = \""));
        let names = names.map(|name| name.trim_end_matches('"').to_owned());
        names.filter(|name| name != "program").collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_lock_file_of_a_user_has_no_package_that_only_tests_need() {
    let program = Program::new();
    let always = program.locked(&[]);
    let mut found = format!("without features: {}\n", joined(&always));
    for feature in features("Cargo.toml") {
        let more = &program.locked(&[&feature]) - &always;
        writeln!(found, "{feature}: {}", joined(&more)).expect("a text");
    }
    assert!(!always.contains("shuttle"));
    if env::var_os("UPDATE_LOCK").is_some() {
        fs::write(LIST, &found).expect("the list");
    }
    let expected = fs::read_to_string(LIST).unwrap_or_default();
    assert!(
        found == expected,
        "the packages changed: read the diff after `UPDATE_LOCK=1 cargo test -p idempotence-layers lock`\n{found}"
    );
}

fn joined(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    names.join(" ")
}
