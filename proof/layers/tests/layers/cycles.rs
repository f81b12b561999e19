//! Small crates with planted cycles: one for each way in which a file can use another.

use idempotence_layers::Layers;

type Files = [(&'static str, &'static str)];

fn layers(files: &Files) -> Layers {
    let text = |name: &str| {
        let file = files.iter().find(|(file, _)| *file == name);
        file.map(|(_, text)| (*text).to_owned())
    };
    Layers::of(text).expect("Rust")
}

/// The files of each cycle.
fn cycles(files: &Files) -> Vec<Vec<String>> {
    let cycles = layers(files).cycles();
    cycles.into_iter().map(|cycle| cycle.files).collect()
}

const LIB: (&str, &str) = ("lib.rs", "mod a; mod b;");
const B_USES_A: (&str, &str) = ("b.rs", "use crate::a::A; pub struct B(A); pub fn b() {}");

#[test]
fn a_one_way_dependency_is_no_cycle() {
    let a = "pub struct A; impl A { fn new() -> Self { Vec::new(); std::mem::take(); Self } }";
    assert!(cycles(&[LIB, ("a.rs", a), B_USES_A]).is_empty());
}

#[test]
fn every_kind_of_path_is_followed() {
    let ways = [
        // a use
        "use crate::b::B; pub struct A;",
        "use super::b::B as Other; pub struct A;",
        "use crate::{a::A as Own, b::{self, B}}; pub struct A;",
        "use super::b::*; pub struct A;",
        "pub struct A; fn f() { use crate::b::b; }",
        "pub(in crate::a) struct A; impl PartialEq<crate::b::B> for A {}",
        // the path of an expression
        "pub struct A; fn f() { crate::b::b() }",
        "use crate::b; pub struct A; fn f() { b::b() }",
        "use crate::b as other; pub struct A; fn f() { [0; other::b()] }",
        "pub struct A; mod inner { fn f() { super::super::b::b() } }",
        "pub struct A; #[cfg(not(test))] fn f() { crate::b::b() }",
        "pub struct A; #[cfg(test)] fn f() -> [u8; 1] { [1] } fn g() { crate::b::b() }",
        "pub struct A { #[cfg(test)] of: u8, all: crate::b::B }",
        // the tokens of a macro
        "pub struct A; fn f() { println!(\"{}\", crate::b::b()) }",
        "pub struct A; macro_rules! make { ($x:expr) => { $crate::b::b($x) } }",
        "use super::b; pub struct A; make! { struct C { field: b::B } }",
        // a re-export, which is a path of the file that contains it
        "pub use crate::b::B; pub struct A;",
    ];
    for way in ways {
        let cycles = cycles(&[LIB, ("a.rs", way), B_USES_A]);
        assert_eq!(cycles, [["a.rs", "b.rs"]], "{way}");
    }
}

#[test]
fn a_re_export_leads_to_the_file_that_defines_the_item() {
    let through = [
        ("pub use b::B;", "use crate::B; pub struct A;"),
        ("pub use b::*;", "use crate::B; pub struct A;"),
        (
            "pub use b::B as Named;",
            "pub struct A; fn f() { crate::Named::new() }",
        ),
        (
            "pub use b as named;",
            "pub struct A; fn f(_: crate::named::B) {}",
        ),
        (
            "pub mod front { pub use crate::b::B; }",
            "use crate::front::B; pub struct A;",
        ),
        ("pub use self::b::Made;", "use super::Made; pub struct A;"),
    ];
    for (lib, a) in through {
        let lib = format!("mod a; mod b; {lib}").leak();
        let cycles = cycles(&[("lib.rs", lib), ("a.rs", a), B_USES_A]);
        assert_eq!(cycles, [["a.rs", "b.rs"]], "{lib}");
    }
}

#[test]
fn an_exported_macro_belongs_to_the_file_that_defines_it() {
    let b = "use crate::a::A; #[macro_export] macro_rules! make { () => {} }";
    let cycles = cycles(&[LIB, ("a.rs", "pub struct A; crate::make!();"), ("b.rs", b)]);
    assert_eq!(cycles, [["a.rs", "b.rs"]]);
}

#[test]
fn a_child_may_use_its_parent_if_the_parent_does_not_use_the_child() {
    let child = ("a/c.rs", "pub fn c(_: super::A) {}");
    let b = ("b.rs", "");
    let declared = ("a.rs", "mod c; pub struct A;");
    assert!(cycles(&[LIB, declared, child, b]).is_empty());
    let used = ("a.rs", "mod c; pub struct A; fn f() { c::c(A) }");
    assert_eq!(cycles(&[LIB, used, child, b]), [["a.rs", "a/c.rs"]]);
}

#[test]
fn paths_in_tests_do_not_count() {
    let ways = [
        "pub struct A; #[cfg(test)] mod tests;",
        "pub struct A; #[cfg(test)] use crate::b::{B, b};",
        "pub struct A; #[cfg(all(test, unix))] impl PartialEq<u8, crate::b::B> for A { }",
        "pub struct A; #[cfg(test)] #[inline] pub(crate) fn f() -> crate::b::B { crate::b::b() }",
        "pub struct A { #[cfg(test)] pub b: crate::b::B, c: u8 }",
        "pub struct A; fn f() { #[cfg(test)] let b = crate::b::b(); #[cfg(test)] crate::b::b(); }",
        "pub struct A; /// `crate::b::b`\nconst TEXT: &str = \"crate::b::b\";",
        "use quote::quote; pub struct A; fn f(b: ::b::B) { quote::b() }",
    ];
    for way in ways {
        assert!(cycles(&[LIB, ("a.rs", way), B_USES_A]).is_empty(), "{way}");
    }
}

#[test]
fn a_cycle_reports_its_files_and_the_paths_between_them() {
    let a = ("a.rs", "pub struct A; fn f() { crate::c::c() }");
    let c = ("c.rs", "pub fn c() { crate::b::b() }");
    let cycles = layers(&[("lib.rs", "mod a; mod b; mod c;"), a, B_USES_A, c]).cycles();
    let reports: Vec<String> = cycles.iter().map(ToString::to_string).collect();
    let expected = "a cycle of a.rs, b.rs, c.rs\n  a.rs uses c.rs: crate::c::c\n  b.rs uses a.rs: crate::a::A\n  c.rs uses b.rs: crate::b::b\n";
    assert_eq!(reports, [expected]);
}

#[test]
fn a_room_must_not_use_a_room_above_it() {
    let a = ("a.rs", "mod c; mod d; pub struct A;");
    let c = ("a/c.rs", "fn f() { super::d::d(crate::b::b()) }");
    let d = ("a/d.rs", "pub fn d() {}");
    let layers = layers(&[LIB, a, B_USES_A, c, d]);
    assert_eq!(layers.violations(&["a", "b", "a/c", "lib"]), [""; 0]);
    let violations = layers.violations(&["b", "a", "lib"]);
    assert_eq!(
        violations,
        ["room `b` must not use `a`, which is above it: b.rs uses a.rs: crate::a::A"]
    );
    let violations = layers.violations(&["a", "b"]);
    assert_eq!(
        violations,
        [
            "lib.rs is in no room",
            "room `a` must not use `b`, which is above it: a/c.rs uses b.rs: crate::b::b"
        ]
    );
}

#[test]
fn an_error_names_the_missing_or_invalid_file() {
    let missing = Layers::of(|file| (file == "lib.rs").then(|| "mod a;".to_owned()));
    assert_eq!(missing.expect_err("no file"), "the file a.rs is missing");
    let broken = Layers::of(|_| Some("fn (".to_owned()));
    assert!(broken.expect_err("no Rust").starts_with("lib.rs: "));
}

#[test]
fn long_files_and_functions_are_reported() {
    let a = "fn short() { }
fn declared();

impl A {
    pub fn long(&self)
    {
        short()
    }
}

#[cfg(test)]
mod tests {
    fn test()
    {


    }
}
";
    let layers = layers(&[("lib.rs", "mod a;"), ("a.rs", a)]);
    assert_eq!(layers.longer_than(18, 4), [""; 0]);
    let longer = ["a.rs has 18 lines", "a.rs: long has 4 lines"];
    assert_eq!(layers.longer_than(17, 3), longer);
}
