//! How each mistake reads. The texts are those of the pinned toolchain: `TRYBUILD=overwrite cargo test --test ui`.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
