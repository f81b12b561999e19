//! Crates of a few lines, with a circle planted in each way in which one file can know another.

use idempotence_layers::Layers;

type Files = [(&'static str, &'static str)];

fn layers(files: &Files) -> Layers {
    let text = |name: &str| {
        let file = files.iter().find(|(file, _)| *file == name);
        file.map(|(_, text)| (*text).to_owned())
    };
    Layers::of(text).expect("Rust")
}

/// The files of each circle.
fn circles(files: &Files) -> Vec<Vec<String>> {
    let circles = layers(files).circles();
    circles.into_iter().map(|circle| circle.files).collect()
}

const LIB: (&str, &str) = ("lib.rs", "mod a; mod b;");
const B_KNOWS_A: (&str, &str) = ("b.rs", "use crate::a::A; pub struct B(A); pub fn b() {}");

#[test]
fn files_that_know_each_other_one_way_are_no_circle() {
    let a = "pub struct A; impl A { fn new() -> Self { Vec::new(); std::mem::take(); Self } }";
    assert!(circles(&[LIB, ("a.rs", a), B_KNOWS_A]).is_empty());
}

#[test]
fn a_circle_is_found_in_whatever_way_a_file_knows_the_other() {
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
        // a re-export, which is a path of the file that has it
        "pub use crate::b::B; pub struct A;",
    ];
    for way in ways {
        let circles = circles(&[LIB, ("a.rs", way), B_KNOWS_A]);
        assert_eq!(circles, [["a.rs", "b.rs"]], "{way}");
    }
}

#[test]
fn a_re_export_leads_to_the_file_that_defines() {
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
        let circles = circles(&[("lib.rs", lib), ("a.rs", a), B_KNOWS_A]);
        assert_eq!(circles, [["a.rs", "b.rs"]], "{lib}");
    }
}

#[test]
fn an_exported_macro_is_of_the_file_that_writes_it() {
    let b = "use crate::a::A; #[macro_export] macro_rules! make { () => {} }";
    let circles = circles(&[LIB, ("a.rs", "pub struct A; crate::make!();"), ("b.rs", b)]);
    assert_eq!(circles, [["a.rs", "b.rs"]]);
}

#[test]
fn a_parent_that_its_child_uses_is_a_circle_only_if_it_uses_the_child() {
    let child = ("a/c.rs", "pub fn c(_: super::A) {}");
    let b = ("b.rs", "");
    let declared = ("a.rs", "mod c; pub struct A;");
    assert!(circles(&[LIB, declared, child, b]).is_empty());
    let used = ("a.rs", "mod c; pub struct A; fn f() { c::c(A) }");
    assert_eq!(circles(&[LIB, used, child, b]), [["a.rs", "a/c.rs"]]);
}

#[test]
fn what_only_tests_know_is_no_circle() {
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
        assert!(
            circles(&[LIB, ("a.rs", way), B_KNOWS_A]).is_empty(),
            "{way}"
        );
    }
}

#[test]
fn a_circle_names_its_files_and_the_paths_between_them() {
    let a = ("a.rs", "pub struct A; fn f() { crate::c::c() }");
    let c = ("c.rs", "pub fn c() { crate::b::b() }");
    let circles = layers(&[("lib.rs", "mod a; mod b; mod c;"), a, B_KNOWS_A, c]).circles();
    let said: Vec<String> = circles.iter().map(ToString::to_string).collect();
    let expected = "a circle of a.rs, b.rs, c.rs\n  a.rs knows c.rs: crate::c::c\n  b.rs knows a.rs: crate::a::A\n  c.rs knows b.rs: crate::b::b\n";
    assert_eq!(said, [expected]);
}

#[test]
fn a_room_may_not_know_one_above_it() {
    let a = ("a.rs", "mod c; mod d; pub struct A;");
    let c = ("a/c.rs", "fn f() { super::d::d(crate::b::b()) }");
    let d = ("a/d.rs", "pub fn d() {}");
    let layers = layers(&[LIB, a, B_KNOWS_A, c, d]);
    assert_eq!(layers.climbs(&["a", "b", "a/c", "lib"]), [""; 0]);
    let climbs = layers.climbs(&["b", "a", "lib"]);
    assert_eq!(
        climbs,
        ["room `b` may not know `a`: b.rs knows a.rs: crate::a::A"]
    );
    let climbs = layers.climbs(&["a", "b"]);
    assert_eq!(
        climbs,
        [
            "lib.rs is in no room",
            "room `a` may not know `b`: a/c.rs knows b.rs: crate::b::b"
        ]
    );
}

#[test]
fn a_file_that_is_missing_or_is_not_rust_is_named() {
    let missing = Layers::of(|file| (file == "lib.rs").then(|| "mod a;".to_owned()));
    assert_eq!(missing.expect_err("no file"), "there is no a.rs");
    let broken = Layers::of(|_| Some("fn (".to_owned()));
    assert!(broken.expect_err("no Rust").starts_with("lib.rs: "));
}

#[test]
fn a_file_or_function_that_is_too_long_is_named() {
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
