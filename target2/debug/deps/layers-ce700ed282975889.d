/work/main/target2/debug/deps/layers-ce700ed282975889.d: proof/layers/tests/layers/main.rs proof/layers/tests/layers/crates.rs proof/layers/tests/layers/cycles.rs proof/layers/tests/layers/features.rs proof/layers/tests/layers/phrases.rs

/work/main/target2/debug/deps/layers-ce700ed282975889: proof/layers/tests/layers/main.rs proof/layers/tests/layers/crates.rs proof/layers/tests/layers/cycles.rs proof/layers/tests/layers/features.rs proof/layers/tests/layers/phrases.rs

proof/layers/tests/layers/main.rs:
proof/layers/tests/layers/crates.rs:
proof/layers/tests/layers/cycles.rs:
proof/layers/tests/layers/features.rs:
proof/layers/tests/layers/phrases.rs:

# env-dep:CARGO_MANIFEST_DIR=/work/main/proof/layers
