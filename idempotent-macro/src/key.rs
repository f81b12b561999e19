//! The options `key`, `payload`, `token` and `also`: their parts, written as a string or as expressions, and the arguments that they
//! name.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Member, Token, UnOp};

use crate::error::{List, closest, error};
use crate::function::Function;
use crate::span::{self, hidden};

/// The parts of the option `key`, `payload` or `token`, or of one key of `also`, in the order in which they are written.
pub struct Key {
    option: &'static str,
    parts: Vec<Expr>,
    /// Whether the parts are written as a string, whose tokens all have the span of the string.
    is_string: bool,
}

impl Key {
    pub fn new(option: &'static str, value: Expr) -> syn::Result<Self> {
        let span = span::span(&value);
        let (is_string, parts) = match value {
            Expr::Group(group) => return Self::new(option, *group.expr),
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => (true, parse(option, &text)?),
            Expr::Tuple(tuple) => (false, tuple.elems.into_iter().collect()),
            Expr::Paren(paren) => (false, vec![*paren.expr]),
            part => (false, vec![part]),
        };
        if option != "token" && !parts.is_empty() && parts.iter().all(is_constant) {
            return Err(constant(option, span));
        }
        if parts.iter().any(|part| matches!(part, Expr::Infer(_))) {
            return Err(no_name(option, span));
        }
        Ok(Self {
            option,
            parts,
            is_string,
        })
    }

    /// The option `token`: the text of the token, then the user that it was issued to.
    pub fn token(value: Expr) -> syn::Result<Self> {
        let span = span::span(&value);
        let token = Self::new("token", value)?;
        if token.parts.len() < 2 {
            let message = "`token` does not name the user that the token was issued to";
            let help = "name the user after the token, as in `token = \"form.token, user_id\"`; for a token without a \
                        user write `token = (form.token, ())`";
            return Err(error(span, message, help));
        }
        Ok(token)
    }

    /// The option `also`: one further key, or several in brackets.
    pub fn further(value: Expr) -> syn::Result<Vec<Self>> {
        let span = span::span(&value);
        let keys = match value {
            Expr::Array(array) => array.elems.into_iter().collect(),
            key => vec![key],
        };
        if keys.is_empty() {
            return Err(error(span, "`also` is empty", without_parts("also")));
        }
        keys.into_iter().map(|key| Self::new("also", key)).collect()
    }

    /// The number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Reports the parts that name no argument of `function`. rustc checks the parts that the macro cannot check.
    pub fn check(&self, function: &Function) -> impl Iterator<Item = syn::Error> {
        let names = function.names();
        self.parts.iter().filter_map(move |part| {
            let root = root(part)?;
            let name = root.to_string();
            let known = names.contains(&name) || name.starts_with(char::is_uppercase);
            (!known).then(|| unknown(self.option, root, &name, function, &names))
        })
    }

    /// Gives each part that is a bare argument the place of this argument in the signature.
    ///
    /// A macro cannot underline a piece of a string. If a string has several parts, an error at the argument shows which part
    /// is wrong.
    pub fn point_at_arguments(&mut self, function: &Function) {
        // Several parts of a user become one tuple, and an error in the tuple belongs to the whole string.
        let is_alone = self.parts.len() < 2;
        let is_one_value = self.option == "token" && self.parts.len() > 2;
        if !self.is_string || is_alone || is_one_value {
            return;
        }
        for part in &mut self.parts {
            if let Expr::Path(path) = part
                && let Some(segment) = path.path.segments.first_mut()
                && let Some(argument) = function.bound(&segment.ident)
            {
                let span = segment.ident.span().located_at(argument.span());
                segment.ident.set_span(span);
            }
        }
    }

    // Output: &tenant, &self.id
    pub fn borrowed(&self) -> impl Iterator<Item = TokenStream> {
        self.parts.iter().map(borrowed)
    }

    // Output: call.part(<&tenant>); call.part(<&self.id>);
    pub fn added_by(
        &self,
        method: &str,
        written: impl Fn(TokenStream) -> TokenStream,
    ) -> TokenStream {
        self.borrowed()
            .map(|part| {
                let span = hidden(&part);
                let method = Ident::new(method, span);
                let part = written(part);
                quote_spanned!(span=> call.#method(#part);)
            })
            .collect()
    }

    // Output: call.token(&form.token, &user_id, "orders.submit");
    //         call.token(&form.token, &(&tenant, &user_id), "orders.submit");
    pub fn redeemed_for(&self, operation: &LitStr) -> Option<TokenStream> {
        let (token, subject) = self.parts.split_first()?;
        let span = hidden(token);
        let (token, method) = (borrowed(token), Ident::new("token", span));
        let subject = match subject {
            [one] => borrowed(one),
            parts => {
                let span = parts.first().map_or(span, hidden);
                let parts = parts.iter().map(borrowed);
                quote_spanned!(span=> &(#(#parts),*))
            }
        };
        Some(quote_spanned!(span=> call.#method(#token, #subject, #operation);))
    }
}

fn borrowed(part: &Expr) -> TokenStream {
    let part = Expr::Reference(syn::ExprReference {
        attrs: Vec::new(),
        and_token: Token![&](hidden(part)),
        mutability: None,
        expr: Box::new(part.clone()),
    });
    part.into_token_stream()
}

fn parse(option: &str, text: &LitStr) -> syn::Result<Vec<Expr>> {
    if text.value().trim().is_empty() {
        let message = format_args!("`{option}` is empty");
        return Err(error(text.span(), message, without_parts(option)));
    }
    let mut parts = text
        .parse_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        .map_err(|cause| {
            if let Some(without) = without_hashes(text) {
                let message = format_args!("`{option}` has a `#`");
                let help = format_args!("write arguments without it, as in `{option} = \"{without}\"`");
                return error(text.span(), message, help);
            }
            let message = format_args!("`{option}` is not a list of arguments: {cause}");
            let help = format_args!(
                "name arguments and their fields, with commas between them, as in `{option} = \"{}\"`",
                example(option, "id")
            );
            error(text.span(), message, help)
        })?;
    if option != "token" && parts.iter().all(is_constant) {
        return Err(constant(option, text.span()));
    }
    for part in &mut parts {
        if !is_path(part) {
            return Err(no_path(option, part, text.span()));
        }
        hide_from_suggestions(part);
    }
    Ok(parts.into_iter().collect())
}

/// The text without `#` before its arguments, as expressions of Spring have them, if that makes a list of arguments of it.
fn without_hashes(text: &LitStr) -> Option<String> {
    let value = text.value();
    let parts = value
        .split(',')
        .map(|part| part.trim().trim_start_matches('#'));
    let without = parts.collect::<Vec<_>>().join(", ");
    let parts = LitStr::new(&without, text.span())
        .parse_with(Punctuated::<Expr, Token![,]>::parse_separated_nonempty)
        .ok()?;
    parts.iter().all(is_path).then_some(without)
}

/// The error of a part in a string that is no path of names.
fn no_path(option: &str, part: &Expr, span: Span) -> syn::Error {
    let named = match part {
        Expr::Infer(_) => return no_name(option, span),
        Expr::Reference(reference) => Some(("&", &*reference.expr)),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => Some(("*", &*unary.expr)),
        _ => None,
    };
    if let Some((sign, name)) = named.filter(|(_, name)| is_path(name)) {
        let name = name.to_token_stream().to_string().replace(' ', "");
        let message = format_args!("`{sign}{name}` is an expression, and a string takes names");
        let help = format_args!(
            "write the name alone, as in `{option} = \"{name}\"`: each part is borrowed, and a reference is equal to its value"
        );
        return error(span, message, help);
    }
    let written = part.to_token_stream();
    let message = format_args!("`{written}` is neither an argument nor a field of one");
    let help = if matches!(part, Expr::Block(_)) {
        format!(
            "write names without braces, as in `{option} = \"{}\"`",
            example(option, "id")
        )
    } else {
        format!(
            "write expressions without quotes, as in `{option} = ({})`",
            example(option, "id()")
        )
    };
    error(span, message, help)
}

/// The error of a part that is `_`.
fn no_name(option: &str, span: Span) -> syn::Error {
    let message = format_args!("`_` in `{option}` names no argument");
    let otherwise = match option {
        "payload" => "or leave `payload` out",
        "also" => "or leave `also` out",
        option => without_parts(option),
    };
    let help = format_args!(
        "give the argument a name, as in `_user_id: u64`, and write `{option} = \"_user_id\"`; {otherwise}"
    );
    error(span, message, help)
}

fn example(option: &str, id: &str) -> String {
    match option {
        "token" => "form.token, user_id".to_owned(),
        _ => format!("user_id, request.{id}"),
    }
}

/// Whether `part` is written as a literal, so that it is equal in all calls.
fn is_constant(part: &Expr) -> bool {
    match part {
        Expr::Lit(_) => true,
        Expr::Unary(unary) => !matches!(unary.op, UnOp::Deref(_)) && is_constant(&unary.expr),
        Expr::Reference(reference) => is_constant(&reference.expr),
        Expr::Paren(paren) => is_constant(&paren.expr),
        Expr::Group(group) => is_constant(&group.expr),
        _ => false,
    }
}

fn constant(option: &str, span: Span) -> syn::Error {
    let message = format_args!("`{option}` is a constant, so it is equal in all calls");
    let help = match option {
        "key" => {
            "name the arguments that make two calls the same, as in `key = \"user_id, file_md5\"`; for one key for all calls \
             write `key = ()`"
        }
        "also" => {
            "name the arguments that make the key of another call, as in `also = \"to_account\"`; for the key of all calls \
             with `key = ()` write `also = ()`"
        }
        _ => {
            "name the arguments that a duplicate must have in common with the first call, as in `payload = \"amount\"`, or leave \
             `payload` out"
        }
    };
    error(span, message, help)
}

fn is_path(expr: &Expr) -> bool {
    match expr {
        Expr::Field(field) => is_path(&field.base),
        Expr::Path(path) => path.path.get_ident().is_some() && path.qself.is_none(),
        _ => false,
    }
}

/// Prevents rustc from proposing a similar field name as a replacement for the whole string.
fn hide_from_suggestions(expr: &mut Expr) {
    if let Expr::Field(field) = expr {
        match &mut field.member {
            Member::Named(name) => name.set_span(name.span().resolved_at(Span::mixed_site())),
            Member::Unnamed(index) => index.span = index.span.resolved_at(Span::mixed_site()),
        }
        hide_from_suggestions(&mut field.base);
    }
}

/// The first name in a simple expression.
fn root(part: &Expr) -> Option<&Ident> {
    match part {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        Expr::Field(field) => root(&field.base),
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Reference(reference) => root(&reference.expr),
        Expr::Unary(unary) => root(&unary.expr),
        Expr::Index(index) => root(&index.expr),
        Expr::Cast(cast) => root(&cast.expr),
        Expr::Paren(paren) => root(&paren.expr),
        Expr::Group(group) => root(&group.expr),
        _ => None,
    }
}

/// The error of an option that names an argument that the function does not have.
pub fn unknown(
    option: &str,
    root: &Ident,
    name: &str,
    function: &Function,
    names: &[String],
) -> syn::Error {
    let function_name = &function.sig.ident;
    if function.hides(name) {
        let message = format_args!(
            "`{name}` is bound by a pattern, which `#[async_trait]` moves into the body"
        );
        let help = format_args!(
            "give that argument of `{function_name}` a name, and use the pattern in the body"
        );
        return error(root.span(), message, help);
    }
    if name == "self" {
        let message = format_args!("`{option}` names `self`, and `{function_name}` has no `self`");
        let help = match names {
            [] => format!("add `&self` to the arguments; {}", without_parts(option)),
            names => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!(
                    "add `&self`, or name one of the arguments: {}",
                    List(&names, " or ")
                )
            }
        };
        return error(root.span(), message, help);
    }
    let message = format_args!("`{function_name}` has no argument named `{name}`");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match closest(name, &names) {
        Some(name) => error(root.span(), message, format_args!("did you mean `{name}`?")),
        None if names.is_empty() => error(
            root.span(),
            message,
            format_args!("the function has no arguments: {}", without_parts(option)),
        ),
        None => error(
            root.span(),
            message,
            format_args!("its arguments are {}", List(&names, " and ")),
        ),
    }
}

fn without_parts(option: &str) -> &'static str {
    match option {
        "key" => "for one key for all calls write `key = ()`",
        "payload" => "leave `payload` out",
        "also" => "leave `also` out",
        "token" => "add the token and its user as arguments, or leave `token` out",
        _ => "add an argument, as in `tx: &mut Transaction<'_, Postgres>`",
    }
}
