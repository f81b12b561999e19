//! How each mistake reads. The texts are those of the pinned toolchain: `TRYBUILD=overwrite cargo test --test ui`.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    if cfg!(feature = "axum") {
        cases.compile_fail("tests/ui/axum/*.rs");
    }
}
