//! The compile error of each typical mistake. The pinned toolchain writes them: `TRYBUILD=overwrite cargo test --test ui`.

#[test]
fn each_mistake_has_an_error_that_says_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    if cfg!(feature = "axum") {
        cases.compile_fail("tests/ui/axum/*.rs");
    }
    if cfg!(feature = "http") {
        cases.compile_fail("tests/ui/http/*.rs");
    }
}
