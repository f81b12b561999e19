//! The compile error of each typical mistake. The pinned toolchain writes them: `TRYBUILD=overwrite ./test --test ui`.

#[test]
fn each_mistake_has_an_error_that_says_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
    cases.compile_fail("axum/*.rs");
    cases.compile_fail("http/*.rs");
}
