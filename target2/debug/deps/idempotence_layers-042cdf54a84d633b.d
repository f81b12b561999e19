/work/main/target2/debug/deps/idempotence_layers-042cdf54a84d633b.d: proof/layers/src/lib.rs proof/layers/src/resolve.rs proof/layers/src/source.rs

/work/main/target2/debug/deps/idempotence_layers-042cdf54a84d633b: proof/layers/src/lib.rs proof/layers/src/resolve.rs proof/layers/src/source.rs

proof/layers/src/lib.rs:
proof/layers/src/resolve.rs:
proof/layers/src/source.rs:
