//! The values of options: words, names, paths, conditions and functions.

use proc_macro2::Span;
use quote::ToTokens;
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

#[derive(Debug, Clone, Copy)]
pub enum Settle {
    Await,
    Background,
}

pub enum Renew {
    Yes,
    No,
    Cap(Span, Time),
}

/// How many calls hold a key at once: a number, or an expression over the arguments.
pub struct Permits(pub Expr);

impl Release {
    pub fn new(option: &Ident, value: &Expr) -> syn::Result<Self> {
        match literal(value) {
            Some(Lit::Bool(LitBool { value: true, .. })) => Ok(Self::Always),
            Some(Lit::Bool(_)) => Ok(Self::Never),
            Some(Lit::Str(text)) if text.value() == "on_error" => Ok(Self::OnError),
            _ => Err(not_one_of(
                option,
                value,
                &["true", "false", "\"on_error\""],
            )),
        }
    }
}

impl OnCancel {
    pub fn new(option: &Ident, value: &Expr) -> syn::Result<Self> {
        let words = [
            ("keep", Self::Keep),
            ("release", Self::Release),
            ("finish", Self::Finish),
        ];
        word(option, value, &words)
    }
}

impl OnLeaseLost {
    pub fn new(option: &Ident, value: &Expr) -> syn::Result<Self> {
        let words = [("stop", Self::Stop), ("continue", Self::Continue)];
        word(option, value, &words)
    }
}

impl OnStoreError {
    pub fn new(option: &Ident, value: &Expr) -> syn::Result<Self> {
        word(
            option,
            value,
            &[("refuse", Self::Refuse), ("run", Self::Run)],
        )
    }
}

impl Settle {
    pub fn new(option: &Ident, value: &Expr) -> syn::Result<Self> {
        let words = [("await", Self::Await), ("background", Self::Background)];
        word(option, value, &words)
    }
}

impl Renew {
    pub fn new(option: &Ident, value: Expr) -> syn::Result<Self> {
        match literal(&value) {
            Some(Lit::Bool(LitBool { value: true, .. })) => Ok(Self::Yes),
            Some(Lit::Bool(_)) => Ok(Self::No),
            Some(Lit::Str(text)) if ["true", "false"].contains(&text.value().as_str()) => {
                let (span, flag) = (text.span(), text.value());
                let message = format_args!(
                    "`{option}` must be `true`, `false` or a duration, not `\"{flag}\"`"
                );
                let help = format_args!("write `{option} = {flag}`, without quotes");
                Err(error(span, message, help))
            }
            _ => Ok(Self::Cap(span(&value), Time::new(option, value)?)),
        }
    }
}

impl Permits {
    pub fn new(value: Expr) -> syn::Result<Self> {
        let fits = match literal(&value) {
            None => true,
            Some(Lit::Int(number)) => {
                (number.base10_parse()).is_ok_and(|n: u8| (1..=100).contains(&n))
            }
            Some(_) => false,
        };
        if fits {
            return Ok(Self(value));
        }
        let message = "`permits` must be a number from 1 to 100";
        let help = "write how many calls with one key may run at once, as in `permits = 3`";
        Err(error(span(&value), message, help))
    }
}

/// The value of an option that is `true` or `false`.
pub fn flag(option: &Ident, value: &Expr) -> syn::Result<bool> {
    match literal(value) {
        Some(Lit::Bool(flag)) => Ok(flag.value),
        _ => Err(not_one_of(option, value, &["true", "false"])),
    }
}

/// An expression over the arguments that decides which calls are guarded.
pub fn condition(value: Expr) -> syn::Result<Expr> {
    let help = match literal(&value) {
        None => return Ok(value),
        Some(Lit::Str(text)) => format!("write it without quotes, as in `when = {}`", text.value()),
        Some(Lit::Bool(always)) => {
            let (which, help) = if always.value() {
                ("every", "leave `when` out")
            } else {
                (
                    "no",
                    "remove the attribute, or use the setting `disabled` to run unguarded for a while",
                )
            };
            let message = format_args!("`when = {}` guards {which} call", always.value());
            return Err(error(span(&value), message, help));
        }
        Some(_) => "write an expression over the arguments, as in `when = idempotency_key.is_some()`, or leave `when` out".to_owned(),
    };
    let message = "`when` must be an expression of type `bool` that says which calls are guarded";
    Err(error(span(&value), message, help))
}

/// The value of the option `begin`. Only a literal is certainly not a pool.
pub fn pool(option: &Ident, value: Expr) -> syn::Result<Expr> {
    let help = match literal(&value) {
        None => return Ok(value),
        Some(Lit::Str(text)) => format!(
            "write it without quotes, as in `{option} = {}`",
            text.value()
        ),
        Some(_) => format!(
            "write an expression over the arguments, as in `{option} = pool` or `{option} = self.pool`"
        ),
    };
    let message =
        format_args!("`{option}` must be the pool on which the guard begins the transaction");
    Err(error(span(&value), message, help))
}

/// The value of an option that is a function. Only a literal is certainly not a function.
pub fn function(option: &Ident, value: Expr) -> syn::Result<Expr> {
    if literal(&value).is_none() {
        return Ok(value);
    }
    let (purpose, example) = match option.to_string().as_str() {
        "error" => (
            "turns an `idempotence::Error` into the error of this function",
            "|error| error.to_string()",
        ),
        "on_duplicate" => (
            "makes the answer to a duplicate call",
            "|duplicate| Ok(Reply::AlreadyDone)",
        ),
        "success" => (
            "says whether an outcome is a success",
            "|outcome| outcome.is_ok()",
        ),
        "hold_err" => (
            "says after which errors it is not known whether the work is done",
            "|error| error.is_timeout()",
        ),
        _ => (
            "says which errors are stored for duplicates",
            "|error| error.is_final()",
        ),
    };
    let message = format_args!("`{option}` must be a function that {purpose}");
    let help =
        format_args!("write a closure or the name of a function, as in `{option} = {example}`");
    Err(error(span(&value), message, help))
}

const LONGEST_NAME: usize = 128;

/// The name of an endpoint or an operation. It is a part of keys, so its characters and its length are limited.
pub fn name(option: &Ident, value: &Expr) -> syn::Result<LitStr> {
    let example = match option.to_string().as_str() {
        "name" => "name = \"orders.pay\"",
        _ => "operation = \"orders.submit\"",
    };
    let Some(Lit::Str(name)) = literal(value) else {
        let message = format_args!("`{option}` must be a string in quotes");
        let help = format_args!("write the text in the attribute itself, as in `{example}`");
        return Err(error(span(value), message, help));
    };
    let text = name.value();
    let help = format_args!("use `A-Z a-z 0-9 . _ -`, as in `{example}`");
    if text.is_empty() {
        let message = format_args!("`{option}` is empty");
        return Err(error(name.span(), message, help));
    }
    if text.len() > LONGEST_NAME {
        let message = format_args!("`{option}` is longer than {LONGEST_NAME} characters");
        let help = format_args!("write a short name, as in `{example}`: it is part of every key");
        return Err(error(name.span(), message, help));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    match text.chars().find(|c| !fits(*c)) {
        Some(c) => {
            let message = format_args!("`{option}` contains the character {c:?}");
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
            "`crate` must be a path, without quotes",
            "write `crate = ::idempotence`",
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
    let message = format_args!("`{option}` must be the name of an argument");
    let help = match literal(value) {
        Some(Lit::Str(text)) => format!("write `{option} = {}`, without quotes", text.value()),
        _ => "take the transaction as an argument, as in `tx: &mut Transaction<'_, Postgres>`"
            .to_owned(),
    };
    Err(error(span(value), message, help))
}

/// The name that an option gives to a new variable of the body.
pub fn variable(option: &Ident, value: &Expr) -> syn::Result<Ident> {
    let reserved = ["self", "Self", "super", "crate"];
    if let Expr::Path(path) = ungrouped(value)
        && path.qself.is_none()
        && let Some(name) = path.path.get_ident()
        && !reserved.iter().any(|word| name == word)
    {
        return Ok(name.clone());
    }
    let message = format_args!("`{option}` must be a name, which the body then uses");
    let help = match literal(value) {
        Some(Lit::Str(text)) if text.parse::<Ident>().is_ok() => {
            format!("write `{option} = {}`, without quotes", text.value())
        }
        _ => format!("choose a name, as in `{option} = cx`"),
    };
    Err(error(span(value), message, help))
}

fn word<T: Copy>(option: &Ident, value: &Expr, words: &[(&str, T)]) -> syn::Result<T> {
    if let Some(Lit::Str(text)) = literal(value)
        && let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value())
    {
        return Ok(*value);
    }
    let quoted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
    Err(not_one_of(option, value, &quoted))
}

/// The error of an option whose value is none of `choices`. In `choices` words have their quotes.
fn not_one_of(option: &Ident, value: &Expr, choices: &[&str]) -> syn::Error {
    let (choice, literal) = (List(choices, " or "), literal(value));
    let tokens = value.to_token_stream().to_string();
    let message = match ungrouped(value) {
        Expr::Lit(_) | Expr::Path(_) => format!("`{option}` must be {choice}, not `{tokens}`"),
        _ => format!("`{option}` must be {choice}"),
    };
    // The comparison ignores quotes, because missing and extra quotes are the most frequent mistakes.
    let words: Vec<&str> = choices.iter().map(|word| word.trim_matches('"')).collect();
    let written = match literal {
        Some(Lit::Str(text)) => text.value(),
        _ => tokens,
    };
    let meant = closest(&written.replace('-', "_"), &words);
    let meant = meant.and_then(|meant| words.iter().position(|word| *word == meant));
    let help = match meant {
        Some(meant) => format!("write `{option} = {}`", choices[meant]),
        None => format!(
            "write one of these in the attribute itself, as in `{option} = {}`",
            choices[0]
        ),
    };
    error(span(value), message, help)
}
