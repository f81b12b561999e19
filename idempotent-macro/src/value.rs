//! The values of options: one word of a few, a name, a path.

use proc_macro2::Span;
use syn::{Expr, Ident, Lit, LitBool, LitStr, Path};

use crate::duration::Time;
use crate::error::{List, closest, error};
use crate::span::{literal, span, ungrouped};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Release {
    Always,
    OnError,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OnCancel {
    Keep,
    Release,
    Finish,
}

#[derive(Debug, Clone, Copy)]
pub enum OnLeaseLost {
    Stop,
    Continue,
}

#[derive(Debug, Clone, Copy)]
pub enum OnStoreError {
    Refuse,
    Run,
}

pub enum Renew {
    Yes,
    No,
    Cap(Span, Time),
}

impl Release {
    pub fn new(value: &Expr) -> syn::Result<Self> {
        let words = ["true", "false", "on_error"];
        match literal(value) {
            Some(Lit::Bool(LitBool { value: true, .. })) => Ok(Self::Always),
            Some(Lit::Bool(_)) => Ok(Self::Never),
            Some(Lit::Str(text)) if text.value() == words[2] => Ok(Self::OnError),
            Some(Lit::Str(text)) => Err(match closest(&text.value(), &words) {
                Some("on_error") => error(
                    text.span(),
                    "expected `true`, `false` or `\"on_error\"`",
                    "did you mean `\"on_error\"`?",
                ),
                _ => error(
                    text.span(),
                    "expected `true`, `false` or `\"on_error\"`",
                    "write `true` and `false` without quotes",
                ),
            }),
            _ => Err(error(
                span(value),
                "expected `true`, `false` or `\"on_error\"`",
                "it says when the key becomes free, and must be known when this is compiled",
            )),
        }
    }
}

impl OnCancel {
    pub fn new(value: &Expr) -> syn::Result<Self> {
        let words = [
            ("keep", Self::Keep),
            ("release", Self::Release),
            ("finish", Self::Finish),
        ];
        word(value, &words)
    }
}

impl OnLeaseLost {
    pub fn new(value: &Expr) -> syn::Result<Self> {
        word(value, &[("stop", Self::Stop), ("continue", Self::Continue)])
    }
}

impl OnStoreError {
    pub fn new(value: &Expr) -> syn::Result<Self> {
        word(value, &[("refuse", Self::Refuse), ("run", Self::Run)])
    }
}

impl Renew {
    pub fn new(value: Expr) -> syn::Result<Self> {
        match literal(&value) {
            Some(Lit::Bool(LitBool { value: true, .. })) => Ok(Self::Yes),
            Some(Lit::Bool(_)) => Ok(Self::No),
            Some(Lit::Str(text)) if ["true", "false"].contains(&text.value().as_str()) => {
                let message = "expected `true`, `false` or a duration";
                Err(error(
                    text.span(),
                    message,
                    "write `true` and `false` without quotes",
                ))
            }
            _ => Ok(Self::Cap(span(&value), Time::new(value)?)),
        }
    }
}

/// Whether the result is stored, or the token given back.
pub fn flag(option: &Ident, value: &Expr) -> syn::Result<bool> {
    let help = match literal(value) {
        Some(Lit::Bool(flag)) => return Ok(flag.value),
        Some(Lit::Str(_)) => "write `true` and `false` without quotes",
        _ if option == "replay" => {
            "it says whether the result is stored, and must be known when this is compiled"
        }
        _ => "it says whether the token is given back, and must be known when this is compiled",
    };
    Err(error(span(value), "expected `true` or `false`", help))
}

/// Which calls are guarded: an expression over the arguments.
pub fn condition(value: Expr) -> syn::Result<Expr> {
    let help = match literal(&value) {
        None => return Ok(value),
        Some(Lit::Str(text)) => format!("write it without quotes, as in `when = {}`", text.value()),
        Some(_) => "write one over the arguments, as in `when = idempotency_key.is_some()`, or leave `when` out".to_owned(),
    };
    let message = "`when` is an expression of type `bool` that says which calls are guarded";
    Err(error(span(&value), message, help))
}

const LONGEST_NAME: usize = 128;

/// The name of an endpoint, or of an operation, fit for a key of any store.
pub fn name(option: &Ident, value: &Expr) -> syn::Result<LitStr> {
    let (thing, example) = match option.to_string().as_str() {
        "name" => ("an endpoint", "name = \"orders.pay\""),
        _ => ("an operation", "operation = \"orders.submit\""),
    };
    let Some(Lit::Str(name)) = literal(value) else {
        let message = format_args!("the name of {thing} is a string");
        let help = format_args!("write `{example}`");
        return Err(error(span(value), message, help));
    };
    let text = name.value();
    let help = format_args!("use `A-Z a-z 0-9 . _ -`, as in `{example}`");
    if text.is_empty() {
        let message = format_args!("the name of {thing} is empty");
        return Err(error(name.span(), message, help));
    }
    if text.len() > LONGEST_NAME {
        let message = format_args!("the name of {thing} is longer than {LONGEST_NAME} characters");
        return Err(error(
            name.span(),
            message,
            "it is part of every key: choose a short one",
        ));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    match text.chars().find(|c| !fits(*c)) {
        Some(c) => {
            let message = format_args!("{c:?} cannot be in the name of {thing}");
            Err(error(name.span(), message, help))
        }
        None => Ok(name.clone()),
    }
}

pub fn path(value: Expr) -> syn::Result<Path> {
    match value {
        Expr::Group(group) => path(*group.expr),
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        value => Err(error(
            span(&value),
            "`crate` needs a path",
            "write `crate = ::idempotence`, without quotes",
        )),
    }
}

/// The argument that an option names.
pub fn argument(option: &Ident, value: &Expr) -> syn::Result<Ident> {
    if let Expr::Path(path) = ungrouped(value)
        && path.qself.is_none()
        && let Some(name) = path.path.get_ident()
    {
        return Ok(name.clone());
    }
    let message = format_args!("`{option}` is the name of an argument");
    let help = match literal(value) {
        Some(Lit::Str(text)) => format!("write `{option} = {}`, without quotes", text.value()),
        _ => "take the transaction as an argument, as in `tx: &mut Transaction<'_, Postgres>`"
            .to_owned(),
    };
    Err(error(span(value), message, help))
}

fn word<T: Copy>(value: &Expr, words: &[(&str, T)]) -> syn::Result<T> {
    let quoted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
    let written = match literal(value) {
        Some(Lit::Str(text)) => text.value(),
        _ => String::new(),
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == written) {
        return Ok(*value);
    }
    let message = format_args!("expected {}", List(&quoted, " or "));
    Err(match closest(&format!("{written:?}"), &quoted) {
        Some(word) => error(span(value), message, format_args!("did you mean `{word}`?")),
        None => error(
            span(value),
            message,
            "write one of these words, with its quotes",
        ),
    })
}
