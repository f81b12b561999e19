//! The options: which there are, and which are written in the attribute.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::duration::Time;
use crate::error::{Errors, List, closest, error};
use crate::key::Key;
use crate::span::span;
use crate::value::{self, OnCancel, OnLeaseLost, OnStoreError, Release, Renew};

/// What is written in the attribute; an option that is not is `None`.
#[derive(Default)]
pub struct Options {
    pub key: Option<Key>,
    pub ttl: Option<Time>,
    pub release: Option<Release>,
    pub name: Option<LitStr>,
    pub payload: Option<Key>,
    /// Which calls are guarded.
    pub when: Option<Expr>,
    /// Where `replay = true` is written.
    pub replay: Option<Span>,
    pub replay_err: Option<(Span, Expr)>,
    pub wait: Option<Time>,
    pub lease: Option<(Span, Time)>,
    pub renew: Option<Renew>,
    pub on_cancel: Option<(Span, OnCancel)>,
    pub on_lease_lost: Option<OnLeaseLost>,
    pub on_duplicate: Option<Expr>,
    pub error: Option<Expr>,
    pub on_store_error: Option<OnStoreError>,
    pub success: Option<Expr>,
    pub tx: Option<Ident>,
    pub token: Option<Key>,
    pub operation: Option<LitStr>,
    /// Where `give_back = true` is written.
    pub give_back: Option<Span>,
    pub using: Option<Expr>,
    pub krate: Option<Path>,
    /// The names of those that are written.
    written: Vec<Ident>,
}

const NAMES: [&str; 23] = [
    "key",
    "ttl",
    "release",
    "name",
    "payload",
    "when",
    "replay",
    "replay_err",
    "wait",
    "lease",
    "renew",
    "on_cancel",
    "on_lease_lost",
    "on_duplicate",
    "error",
    "on_store_error",
    "success",
    "tx",
    "token",
    "operation",
    "give_back",
    "using",
    "crate",
];

impl Options {
    /// Reads as much as can be understood; the rest is in `errors`.
    pub fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        let list = |input: ParseStream| {
            while !input.is_empty() {
                options.parse_one(input, errors)?;
            }
            Ok(())
        };
        let parsed = list.parse2(tokens);
        errors.take(parsed);
        if errors.is_empty() {
            options.report_missing(errors);
        }
        options
    }

    /// The options that name arguments.
    pub fn parts(&self) -> impl Iterator<Item = &Key> {
        let parts = [&self.key, &self.payload, &self.token];
        parts.into_iter().flatten()
    }

    /// What a token was issued for.
    pub fn operation(&self) -> Option<&LitStr> {
        self.operation.as_ref().or(self.name.as_ref())
    }

    /// Where this option is written, if it is.
    pub fn written(&self, name: &str) -> Option<Span> {
        let name = self.written.iter().find(|written| *written == name)?;
        Some(name.span())
    }

    /// The path of what generated code calls, for a use at `span`.
    pub fn private(&self, span: Span) -> TokenStream {
        let krate = self.krate.as_ref().map(ToTokens::to_token_stream);
        let krate = krate.unwrap_or_else(|| quote_spanned!(span=> ::idempotence));
        quote_spanned!(span=> #krate::__private)
    }

    fn parse_one(&mut self, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        let name = input.call(Ident::parse_any)?;
        let value = parse_value(&name, input);
        if value.is_err() {
            skip_value(input)?;
        }
        if let Some(()) = errors.take(check_name(&name, &self.written))
            && let Some(value) = errors.take(value)
        {
            errors.take(self.set(&name, value));
        }
        self.written.push(name);
        if !input.is_empty() && input.parse::<Option<Token![,]>>()?.is_none() {
            errors.push(input.error("expected `,`"));
            if !input.peek2(Token![=]) {
                skip_value(input)?;
                input.parse::<Option<Token![,]>>()?;
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &Ident, value: Expr) -> syn::Result<()> {
        match name.to_string().as_str() {
            "key" => self.key = Some(Key::new("key", value)?),
            "ttl" => self.ttl = Some(Time::new(value)?),
            "release" => self.release = Some(Release::new(&value)?),
            "name" => self.name = Some(value::name(name, &value)?),
            "payload" => self.payload = Some(Key::new("payload", value)?),
            "when" => self.when = Some(value::condition(value)?),
            "replay" => self.replay = value::flag(name, &value)?.then(|| name.span()),
            "replay_err" => self.replay_err = Some((name.span(), value)),
            "wait" => self.wait = Some(Time::new(value)?),
            "lease" => self.lease = Some((name.span(), Time::new(value)?)),
            "renew" => self.renew = Some(Renew::new(value)?),
            "on_cancel" => self.on_cancel = Some((span(&value), OnCancel::new(&value)?)),
            "on_lease_lost" => self.on_lease_lost = Some(OnLeaseLost::new(&value)?),
            "on_duplicate" => self.on_duplicate = Some(value),
            "error" => self.error = Some(value),
            "on_store_error" => self.on_store_error = Some(OnStoreError::new(&value)?),
            "success" => self.success = Some(value),
            "tx" => self.tx = Some(value::argument(name, &value)?),
            "token" => self.token = Some(Key::token(value)?),
            "operation" => self.operation = Some(value::name(name, &value)?),
            "give_back" => self.give_back = value::flag(name, &value)?.then(|| name.span()),
            "using" => self.using = Some(value),
            _ => self.krate = Some(value::path(value)?),
        }
        Ok(())
    }

    fn report_missing(&self, errors: &mut Errors) {
        let mut missing = |name, help| {
            let message = format_args!("missing option `{name}`");
            errors.push(error(Span::call_site(), message, help));
        };
        if self.key.is_none() && self.token.is_none() {
            let help = "name the arguments that make two calls the same, as in `key = \"user_id, file_md5\"`";
            missing("key", help);
        }
        if self.ttl.is_none() {
            let help = "say how long a repeated call is refused, as in `ttl = \"30s\"`";
            missing("ttl", help);
        }
    }
}

fn check_name(name: &Ident, seen: &[Ident]) -> syn::Result<()> {
    let word = name.to_string();
    if seen.contains(name) {
        let message = format_args!("option `{word}` is given twice");
        return Err(error(name.span(), message, "keep one"));
    }
    if NAMES.contains(&word.as_str()) {
        return Ok(());
    }
    let message = format_args!("unknown option `{word}`");
    Err(match closest(&word, &NAMES) {
        Some(option) => error(
            name.span(),
            message,
            format_args!("did you mean `{option}`?"),
        ),
        None => error(
            name.span(),
            message,
            format_args!("the options are {}", List(&NAMES, " and ")),
        ),
    })
}

fn parse_value(name: &Ident, input: ParseStream) -> syn::Result<Expr> {
    if input.parse::<Option<Token![=]>>()?.is_none() || input.is_empty() || input.peek(Token![,]) {
        let message = format_args!("option `{name}` needs a value");
        let help = format_args!("write `{name} = ...`");
        return Err(error(name.span(), message, help));
    }
    input.parse()
}

fn skip_value(input: ParseStream) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}
