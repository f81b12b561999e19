#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parse;
use syn::{Attribute, File, ImplItem, Item, TraitItem};

use crate::duration::millis;
use crate::error::{List, closest};
use crate::expand::expand;

#[test]
fn durations_are_whole_numbers_with_units() {
    // The runtime reads its settings by the same table.
    for line in include_str!("../tests/durations.txt").lines() {
        let (text, expected) = line.rsplit_once(' ').unwrap();
        let (text, expected) = (text.trim_matches('"'), expected.parse().ok());
        assert_eq!(millis(text), expected, "{text:?}");
    }
}

#[test]
fn the_closest_word_is_a_typing_mistake_away() {
    let options = ["key", "ttl", "release", "on_cancel", "on_duplicate"];
    let table = [
        ("tll", Some("ttl")),
        ("relese", Some("release")),
        ("realese", Some("release")),
        ("on_cancle", Some("on_cancel")),
        ("onduplicate", Some("on_duplicate")),
        ("keys", Some("key")),
        ("color", None),
        ("", None),
    ];
    for (word, expected) in table {
        assert_eq!(closest(word, &options), expected, "{word:?}");
    }
}

#[test]
fn a_list_reads_as_a_sentence() {
    assert_eq!(List(&["a"], " and ").to_string(), "`a`");
    assert_eq!(List(&["a", "b"], " or ").to_string(), "`a` or `b`");
    assert_eq!(
        List(&["a", "b", "c"], " and ").to_string(),
        "`a`, `b` and `c`"
    );
}

#[test]
fn every_mistake_of_an_attribute_is_reported_once() {
    let function = quote!(
        async fn pay(id: u64) -> R {
            body
        }
    );
    let count = |options: TokenStream| {
        let expanded = expand(options, &function).to_string();
        assert!(expanded.contains("fn pay"), "{expanded}");
        expanded.matches("compile_error").count()
    };
    assert_eq!(count(quote!()), 2);
    assert_eq!(count(quote!(key = "id")), 1);
    assert_eq!(count(quote!(tll = "30s", relese = true, color)), 3);
    assert_eq!(count(quote!(key = "idd, ib", ttl = 30)), 3);
    assert_eq!(count(quote!(key = "id" ttl = "30")), 2);
    assert_eq!(count(quote!(key = , ttl = "30s")), 1);
    assert_eq!(count(quote!(key("id"), ttl = "30s")), 1);
    assert_eq!(
        count(quote!(
            key = "id",
            ttl = "30s",
            wait = "1s",
            on_duplicate = |a, b| c
        )),
        1
    );
    assert_eq!(count(quote!(key = "id", ttl = "30s",)), 0);
}

#[test]
fn an_expression_that_cannot_be_judged_is_left_to_rustc() {
    let function = quote!(
        async fn pay(id: u64, self_: S) -> R {
            body
        }
    );
    for key in [
        quote!(()),
        quote!(id),
        quote!((id)),
        quote!((
            id,
            "pay",
            7,
            LIMIT,
            Unit,
            one(id),
            shop::two(id),
            { three },
            format!("{four}")
        )),
        quote!((&id, *id, id as u32, id.a.0.1, self_.tenant()[0], (id))),
    ] {
        let expanded = expand(quote!(key = #key, ttl = "1s"), &function).to_string();
        assert!(!expanded.contains("compile_error"), "{expanded}");
    }
}

#[test]
fn expansions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/expand");
    let mut inputs: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().ends_with(".expanded.rs"))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    for input in inputs {
        let source = fs::read_to_string(&input).unwrap();
        let expanded = prettyplease::unparse(&expand_file(syn::parse_file(&source).unwrap()));
        let recorded = input.with_extension("expanded.rs");
        if std::env::var_os("UPDATE_EXPANDED").is_some() {
            fs::write(&recorded, &expanded).unwrap();
        }
        let expected = fs::read_to_string(&recorded).unwrap_or_default();
        assert!(
            expected == expanded,
            "{} differs: look at it after `UPDATE_EXPANDED=1 cargo test -p idempotent-macro`",
            recorded.display()
        );
    }
}

fn expand_file(mut file: File) -> File {
    for item in &mut file.items {
        match item {
            Item::Fn(function) => {
                if let Some(options) = options(&mut function.attrs) {
                    *item = expanded(options, function);
                }
            }
            Item::Impl(block) => {
                for item in &mut block.items {
                    if let ImplItem::Fn(function) = item
                        && let Some(options) = options(&mut function.attrs)
                    {
                        *item = expanded(options, function);
                    }
                }
            }
            Item::Trait(block) => {
                for item in &mut block.items {
                    if let TraitItem::Fn(function) = item
                        && let Some(options) = options(&mut function.attrs)
                    {
                        *item = expanded(options, function);
                    }
                }
            }
            _ => {}
        }
    }
    file
}

/// Takes `#[idempotent(…)]` from among the attributes.
fn options(attrs: &mut Vec<Attribute>) -> Option<TokenStream> {
    let at = attrs
        .iter()
        .position(|attr| attr.path().is_ident("idempotent"))?;
    Some(attrs.remove(at).meta.require_list().unwrap().tokens.clone())
}

fn expanded<T: Parse>(options: TokenStream, function: &impl ToTokens) -> T {
    syn::parse2(expand(options, &function.to_token_stream())).unwrap()
}
