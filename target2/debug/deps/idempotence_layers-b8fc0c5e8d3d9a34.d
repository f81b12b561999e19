/work/main/target2/debug/deps/idempotence_layers-b8fc0c5e8d3d9a34.d: proof/layers/src/lib.rs proof/layers/src/resolve.rs proof/layers/src/source.rs

/work/main/target2/debug/deps/libidempotence_layers-b8fc0c5e8d3d9a34.rlib: proof/layers/src/lib.rs proof/layers/src/resolve.rs proof/layers/src/source.rs

/work/main/target2/debug/deps/libidempotence_layers-b8fc0c5e8d3d9a34.rmeta: proof/layers/src/lib.rs proof/layers/src/resolve.rs proof/layers/src/source.rs

proof/layers/src/lib.rs:
proof/layers/src/resolve.rs:
proof/layers/src/source.rs:
