//! Compares the code that the attribute writes for each file in `expand/written` with the file of the same name in
//! `expand/expanded`. The test program `expand` compiles the latter.

use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::Parse;
use syn::{Attribute, File, ImplItem, Item, TraitItem};

use crate::expand::expand;

#[test]
fn expansions_equal_the_recorded_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/expand");
    let mut inputs: Vec<_> = fs::read_dir(folder.join("written"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    for input in inputs {
        let source = fs::read_to_string(&input).unwrap();
        let expanded = prettyplease::unparse(&expand_file(syn::parse_file(&source).unwrap()));
        compare(
            &folder.join("expanded").join(input.file_name().unwrap()),
            &expanded,
        );
    }
}

fn compare(recorded: &Path, text: &str) {
    if std::env::var_os("UPDATE_EXPANDED").is_some() {
        fs::write(recorded, text).unwrap();
    }
    let expected = fs::read_to_string(recorded).unwrap_or_default();
    assert!(
        expected == text,
        "{} differs: look at it after `UPDATE_EXPANDED=1 cargo test -p idempotent-macro`",
        recorded.display()
    );
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

/// Removes `#[idempotent(…)]` from `attrs` and returns its options.
fn options(attrs: &mut Vec<Attribute>) -> Option<TokenStream> {
    let at = attrs
        .iter()
        .position(|attr| attr.path().is_ident("idempotent"))?;
    Some(attrs.remove(at).meta.require_list().unwrap().tokens.clone())
}

fn expanded<T: Parse>(options: TokenStream, function: &impl ToTokens) -> T {
    syn::parse2(expand(options, &function.to_token_stream())).unwrap()
}
