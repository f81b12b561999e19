//! The scripts build every feature.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).expect("a file of the repository")
}

/// The features of a package, without `default`.
pub(crate) fn features(manifest: &str) -> BTreeSet<String> {
    let manifest = read(manifest);
    let (_, section) = manifest.split_once("[features]\n").expect("features");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(" = "));
    let names = names.map(|(name, _)| name.to_owned());
    names.filter(|name| name != "default").collect()
}

/// The words between two texts in a script.
fn words(script: &str, begin: &str, end: &str) -> BTreeSet<String> {
    let script = read(script);
    let (_, rest) = script.split_once(begin).expect(begin);
    let (list, _) = rest.split_once(end).expect(end);
    list.split([',', ' ']).map(str::to_owned).collect()
}

#[test]
fn each_feature_is_enabled_by_a_package_of_tests() {
    let manifests = [
        "tests/Cargo.toml",
        "proof/adapters/Cargo.toml",
        "proof/frameworks/Cargo.toml",
        "idempotent-dynamodb/Cargo.toml",
        "idempotent-etcd/Cargo.toml",
    ];
    let manifests = manifests.map(read).concat();
    let missing: Vec<_> = features("Cargo.toml")
        .into_iter()
        .filter(|feature| {
            !manifests.contains(&format!("\"{feature}\""))
                && !manifests.contains(&format!("/{feature}\""))
        })
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn each_feature_is_built_alone() {
    let all = features("Cargo.toml");
    assert_eq!(words(".ci/more", "for features in \"\" ", ";"), all);
}

/// Without a runtime sqlx panics when it first connects.
#[test]
fn each_database_brings_the_runtime_of_its_client() {
    let manifest = read("idempotent-driver/Cargo.toml");
    let brings = |feature: &str| {
        let mut lines = manifest.lines();
        let line = lines.find(|line| line.starts_with(&format!("{feature} = [")));
        line.expect(feature).contains("\"sqlx/runtime-tokio\"")
    };
    for feature in ["mysql", "postgres", "sqlite"] {
        assert!(brings(feature), "{feature}");
    }
}
