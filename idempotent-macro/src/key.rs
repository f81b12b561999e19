//! The key and the payload: their parts, written as a string or as tokens, and the arguments that they name.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Member, Token};

use crate::error::{List, closest, error};
use crate::function::Function;
use crate::span::{self, hidden};

/// The parts of the option `key`, `payload` or `token`, in the order in which they are written.
pub struct Key {
    option: &'static str,
    parts: Vec<Expr>,
}

impl Key {
    pub fn new(option: &'static str, value: Expr) -> syn::Result<Self> {
        let parts = match value {
            Expr::Group(group) => return Self::new(option, *group.expr),
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => parse(option, &text)?,
            Expr::Tuple(tuple) => tuple.elems.into_iter().collect(),
            Expr::Paren(paren) => vec![*paren.expr],
            part => vec![part],
        };
        Ok(Self { option, parts })
    }

    /// The option `token`: the text of the token, and whom it was issued to.
    pub fn token(value: Expr) -> syn::Result<Self> {
        let span = span::span(&value);
        let token = Self::new("token", value)?;
        if token.parts.len() < 2 {
            let message = "`token` does not say whom the token was issued to";
            let help = "name the user beside it, as in `token = \"form.token, user_id\"`; for one that anybody may \
                        use write `token = (form.token, ())`";
            return Err(error(span, message, help));
        }
        Ok(token)
    }

    /// Looks for parts that name no argument of `function`; what cannot be judged is left to rustc.
    pub fn check(&self, function: &Function) -> impl Iterator<Item = syn::Error> {
        let names = function.names();
        self.parts.iter().filter_map(move |part| {
            let root = root(part)?;
            let name = root.to_string();
            let known = names.contains(&name) || name.starts_with(char::is_uppercase);
            (!known).then(|| unknown(self.option, root, &name, function, &names))
        })
    }

    // Output: &tenant, &self.id
    pub fn borrowed(&self) -> impl Iterator<Item = TokenStream> {
        self.parts.iter().map(borrowed)
    }

    // Output: .part(<&tenant>).part(<&self.id>)
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
                quote_spanned!(span=> .#method(#part))
            })
            .collect()
    }

    // Output: .token(&form.token, &user_id, "orders.submit")
    //         .token(&form.token, &(&tenant, &user_id), "orders.submit")
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
        Some(quote_spanned!(span=> .#method(#token, #subject, #operation)))
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
        let message = format_args!("`{option}` names no argument");
        return Err(error(text.span(), message, without_parts(option)));
    }
    let mut parts = text
        .parse_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        .map_err(|cause| {
            let message = format_args!("`{option}` does not parse: {cause}");
            let help = format_args!(
                "a {option} is a list of arguments and their fields, as in `{option} = \"{}\"`",
                example(option, "id")
            );
            error(text.span(), message, help)
        })?;
    for part in &mut parts {
        if !is_path(part) {
            let written = part.to_token_stream();
            let message = format_args!("`{written}` is neither an argument nor a field of one");
            let help = format_args!(
                "write expressions without quotes, as in `{option} = ({})`",
                example(option, "id()")
            );
            return Err(error(text.span(), message, help));
        }
        unhook(part);
    }
    Ok(parts.into_iter().collect())
}

fn example(option: &str, id: &str) -> String {
    match option {
        "token" => "form.token, user_id".to_owned(),
        _ => format!("user_id, request.{id}"),
    }
}

fn is_path(expr: &Expr) -> bool {
    match expr {
        Expr::Field(field) => is_path(&field.base),
        Expr::Path(path) => path.path.get_ident().is_some() && path.qself.is_none(),
        _ => false,
    }
}

/// Keeps rustc from proposing to replace the whole string when it has a better name for a field.
fn unhook(expr: &mut Expr) {
    if let Expr::Field(field) = expr {
        match &mut field.member {
            Member::Named(name) => name.set_span(name.span().resolved_at(Span::mixed_site())),
            Member::Unnamed(index) => index.span = index.span.resolved_at(Span::mixed_site()),
        }
        unhook(&mut field.base);
    }
}

/// The name that a simple expression starts with.
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

/// That an option names an argument which is not there.
pub fn unknown(
    option: &str,
    root: &Ident,
    name: &str,
    function: &Function,
    names: &[String],
) -> syn::Error {
    let upload = &function.sig.ident;
    if function.hides(name) {
        let message = format_args!(
            "`{name}` is bound by a pattern, which `#[async_trait]` moves into the body"
        );
        let help =
            format_args!("give that argument of `{upload}` a name, and take it apart in the body");
        return error(root.span(), message, help);
    }
    let message = format_args!("`{upload}` has no argument named `{name}`");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match closest(name, &names) {
        Some(name) => error(root.span(), message, format_args!("did you mean `{name}`?")),
        None if names.is_empty() => error(
            root.span(),
            message,
            format_args!("it takes none; {}", without_parts(option)),
        ),
        None => error(
            root.span(),
            message,
            format_args!("it takes {}", List(&names, " and ")),
        ),
    }
}

fn without_parts(option: &str) -> &'static str {
    match option {
        "key" => "for one key shared by every call write `key = ()`",
        "payload" => "leave `payload` out",
        "token" => "take the token and its user as arguments, or leave `token` out",
        _ => "take a transaction, as in `tx: &mut Transaction<'_, Postgres>`",
    }
}
