//! The options: their names, and the values that the attribute gives them.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::duration::Time;
use crate::error::{Errors, List, closest, error};
use crate::function::Function;
use crate::key::Key;
use crate::policy::PolicyValue;
use crate::span::span;
use crate::value::{self, OnCancel, OnLeaseLost, OnStoreError, Permits, Release, Renew, Settle};

/// The table of the options: from each row come the field, the name in the attribute (unless it is the field's name), the value
/// that errors show as an example, what reads `value`, and the method of the policy, if the option is part of it. Without the option, the
/// field has the default of its type.
macro_rules! options {
    (
        |$name:ident, $value:ident|
        $($(#[$doc:meta])* $field:ident $(= $word:literal)?: $type:ty, $example:literal, $read:expr $(, policy.$method:ident)?;)*
    ) => {
        /// The options of one attribute.
        #[derive(Default)]
        pub struct Options {
            $($(#[$doc])* pub $field: $type,)*
            /// The names of the options that are written.
            written: Vec<Ident>,
        }

        /// The names of the options, in the order of errors and of the guide.
        pub const NAMES: &[&str] = &[$(word!($field $($word)?)),*];

        /// A value of each option.
        const EXAMPLES: &[&str] = &[$($example),*];

        impl Options {
            fn set(&mut self, $name: &Ident, $value: Expr) -> syn::Result<()> {
                $(if $name == word!($field $($word)?) {
                    self.$field = $read;
                    return Ok(());
                })*
                Ok(())
            }

            /// The options that are part of the policy, each with the name of its method there.
            pub fn in_policy(&self) -> impl Iterator<Item = (&'static str, &dyn PolicyValue)> {
                let options = [$($((stringify!($method), &self.$field as &dyn PolicyValue),)?)*];
                options.into_iter()
            }
        }
    };
}

macro_rules! word {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $word:literal) => {
        $word
    };
}

options! {
    |name, value|
    key: Option<Key>, "\"user_id, file_md5\"", Some(Key::new("key", value)?);
    ttl: Option<Time>, "\"30s\"", Some(Time::new(name, value)?);
    release: Option<Release>, "true", Some(Release::new(name, &value)?), policy.release;
    name: Option<LitStr>, "\"orders.pay\"", Some(value::name(name, &value)?);
    payload: Option<Key>, "\"user_id, file_md5\"", Some(Key::new("payload", value)?);
    /// Decides which calls are guarded.
    when: Option<Expr>, "request_id.is_some()", Some(value::condition(value)?);
    /// Where `replay = true` is written.
    replay: Option<Span>, "true", value::flag(name, &value)?.then(|| name.span()), policy.replay;
    replay_err: Option<(Span, Expr)>, "...", Some((name.span(), value::function(name, value)?));
    /// Decides after which errors the outcome is unknown.
    hold_err: Option<Expr>, "|error| error.is_timeout()", Some(value::function(name, value)?);
    wait: Option<Time>, "\"30s\"", Some(Time::new(name, value)?), policy.wait;
    lease: Option<Time>, "\"30s\"", Some(Time::new(name, value)?), policy.lease;
    at_least: Option<Time>, "\"30s\"", Some(Time::new(name, value)?), policy.at_least;
    renew: Option<Renew>, "false", Some(Renew::new(name, value)?), policy.renew;
    on_cancel: Option<(Span, OnCancel)>, "\"finish\"", Some((span(&value), OnCancel::new(name, &value)?)), policy.on_cancel;
    on_lease_lost: Option<OnLeaseLost>, "\"continue\"", Some(OnLeaseLost::new(name, &value)?), policy.on_lease_lost;
    on_duplicate: Option<Expr>, "...", Some(value::function(name, value)?);
    error: Option<Expr>, "|error| error.to_string()", Some(value::function(name, value)?);
    on_store_error: Option<OnStoreError>, "\"run\"", Some(OnStoreError::new(name, &value)?), policy.on_store_error;
    settle: Option<Settle>, "\"background\"", Some(Settle::new(name, &value)?), policy.settle;
    success: Option<Expr>, "|outcome| outcome.is_ok()", Some(value::function(name, value)?);
    tx: Option<Ident>, "tx", Some(value::argument(name, &value)?), policy.tx;
    /// The pool on which the guard begins the transaction.
    begin: Option<Expr>, "pool", Some(value::pool(name, value)?);
    /// `false`: with `begin`, the body runs at most once.
    retry: Option<bool>, "false", Some(value::flag(name, &value)?);
    token: Option<Key>, "\"form.token, user_id\"", Some(Key::token(value)?), policy.token;
    operation: Option<LitStr>, "\"orders.submit\"", Some(value::name(name, &value)?);
    /// Where `give_back = true` is written.
    give_back: Option<Span>, "true", value::flag(name, &value)?.then(|| name.span()), policy.give_back;
    /// The name of the context in the body.
    context: Option<Ident>, "cx", Some(value::variable(name, &value)?);
    /// Where `fence = true` is written.
    fence: Option<Span>, "true", value::flag(name, &value)?.then(|| name.span()), policy.fence;
    /// The further keys.
    also: Vec<Key>, "\"to_account\"", Key::further(value)?, policy.also;
    /// How many calls hold a key at once.
    permits: Option<Permits>, "3", Some(Permits::new(value)?), policy.permits;
    using: Option<Expr>, "...", Some(value);
    krate = "crate": Option<Path>, "::idempotence", Some(value::path(value)?);
}

impl Options {
    /// Parses every option that has no mistake, and adds the mistakes of the other options to `errors`.
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

    /// Gives the parts of a key that is written as a string better places for errors.
    pub fn point_at_arguments(&mut self, function: &Function) {
        let parts = [&mut self.key, &mut self.payload, &mut self.token];
        for key in parts.into_iter().flatten().chain(&mut self.also) {
            key.point_at_arguments(function);
        }
    }

    /// The options that name arguments.
    pub fn parts(&self) -> impl Iterator<Item = &Key> {
        let parts = [&self.key, &self.payload, &self.token];
        parts.into_iter().flatten().chain(&self.also)
    }

    /// The operation for which a token was issued.
    pub fn operation(&self) -> Option<&LitStr> {
        self.operation.as_ref().or(self.name.as_ref())
    }

    /// Whether the guard may run the body again in another transaction.
    pub fn repeats(&self) -> bool {
        self.begin.is_some() && self.retry != Some(false)
    }

    /// Where the option `name` is written.
    pub fn written(&self, name: &str) -> Option<Span> {
        let name = self.written.iter().find(|written| *written == name)?;
        Some(name.span())
    }

    /// The path of the module that generated code calls, for a use at `span`.
    pub fn private(&self, span: Span) -> TokenStream {
        let krate = self.krate.as_ref().map(ToTokens::to_token_stream);
        let krate = krate.unwrap_or_else(|| quote_spanned!(span=> ::idempotence));
        quote_spanned!(span=> #krate::__private)
    }

    fn parse_one(&mut self, input: ParseStream, errors: &mut Errors) -> syn::Result<()> {
        let name = input.call(Ident::parse_any).map_err(|_| {
            let help = "write options with their names, as in `key = \"user_id\", ttl = \"30s\"`";
            error(input.span(), "expected the name of an option", help)
        })?;
        let value = parse_value(&name, input);
        if value.is_err() {
            skip_value(input)?;
        }
        if let Some(()) = errors.take(check_name(&name, value.is_ok(), &self.written))
            && let Some(value) = errors.take(value)
        {
            errors.take(self.set(&name, value));
        }
        self.written.push(name);
        if !input.is_empty() && input.parse::<Option<Token![,]>>()?.is_none() {
            let help =
                "write a comma between two options, as in `key = \"user_id\", ttl = \"30s\"`";
            errors.push(error(input.span(), "expected `,`", help));
            if !input.peek2(Token![=]) {
                skip_value(input)?;
                input.parse::<Option<Token![,]>>()?;
            }
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

fn check_name(name: &Ident, has_value: bool, seen: &[Ident]) -> syn::Result<()> {
    let word = name.to_string();
    if seen.contains(name) {
        let message = format_args!("option `{word}` is given twice");
        let help = match word.as_str() {
            "key" | "payload" => {
                format!("write all parts into one, as in `{word} = \"user_id, file_md5\"`")
            }
            word => format!("keep one `{word}`, and remove the other"),
        };
        return Err(error(name.span(), message, help));
    }
    if NAMES.contains(&word.as_str()) {
        return Ok(());
    }
    let message = format_args!("unknown option `{word}`");
    if !has_value
        && let Some(option) = seen.last()
        && ["key", "payload", "token", "also"]
            .iter()
            .any(|parts| option == parts)
    {
        let help = if option == "also" {
            "write several keys in brackets, as in `also = [\"to_account\", \"fee_account\"]`"
                .to_owned()
        } else {
            let example = example(option);
            format!("write several parts in one string, as in `{option} = {example}`")
        };
        return Err(error(name.span(), message, help));
    }
    if word == "disabled" {
        let help = "`disabled` is a setting: write it into the file of the settings or an environment variable, so that it can change \
                    without a new build";
        return Err(error(name.span(), message, help));
    }
    Err(match closest(&word, NAMES) {
        Some(option) => error(
            name.span(),
            message,
            format_args!("did you mean `{option}`?"),
        ),
        None => error(
            name.span(),
            message,
            format_args!("the options are {}", List(NAMES, " and ")),
        ),
    })
}

fn parse_value(name: &Ident, input: ParseStream) -> syn::Result<Expr> {
    if input.parse::<Option<Token![=]>>()?.is_none() || input.is_empty() || input.peek(Token![,]) {
        let message = format_args!("option `{name}` needs a value");
        let help = format_args!("write `{name} = {}`", example(name));
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

/// A value that the option `name` may have.
fn example(name: &Ident) -> &'static str {
    let rows = NAMES.iter().zip(EXAMPLES);
    rows.filter(|(word, _)| name == **word)
        .map(|(_, example)| *example)
        .next()
        .unwrap_or("...")
}
