//! The key: its parts, written as a string or as tokens, and the arguments that they name.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Member, Token};

use crate::error::{List, closest, error};
use crate::expand::hidden;
use crate::function::Function;

/// The parts of the key, in the order in which they are written.
pub struct Key(Vec<Expr>);

impl Key {
    pub fn new(value: Expr) -> syn::Result<Self> {
        Ok(Self(match value {
            Expr::Group(group) => return Self::new(*group.expr),
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => parse(&text)?,
            Expr::Tuple(tuple) => tuple.elems.into_iter().collect(),
            Expr::Paren(paren) => vec![*paren.expr],
            part => vec![part],
        }))
    }

    /// Looks for parts that name no argument of `function`; what cannot be judged is left to rustc.
    pub fn check(&self, function: &Function) -> impl Iterator<Item = syn::Error> {
        let names = function.names();
        self.0.iter().filter_map(move |part| {
            let root = root(part)?;
            let name = root.to_string();
            let known = names.contains(&name) || name.starts_with(char::is_uppercase);
            (!known).then(|| unknown(root, &name, function, &names))
        })
    }

    // Output: &tenant, &self.id
    pub fn borrowed(&self) -> impl Iterator<Item = TokenStream> {
        self.0.iter().map(|part| {
            let part = Expr::Reference(syn::ExprReference {
                attrs: Vec::new(),
                and_token: Token![&](hidden(part)),
                mutability: None,
                expr: Box::new(part.clone()),
            });
            part.into_token_stream()
        })
    }

    // Output: .part(&tenant).part(&self.id)
    pub fn parts(&self) -> TokenStream {
        self.borrowed()
            .map(|part| quote_spanned!(hidden(&part)=> .part(#part)))
            .collect()
    }
}

fn parse(text: &LitStr) -> syn::Result<Vec<Expr>> {
    if text.value().trim().is_empty() {
        let help = "for one key shared by every call write `key = ()`";
        return Err(error(text.span(), "`key` names no argument", help));
    }
    let mut parts = text
        .parse_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        .map_err(|cause| {
            let message = format_args!("`key` does not parse: {cause}");
            let help = "a key is a list of arguments and their fields, as in `key = \"user_id, request.id\"`";
            error(text.span(), message, help)
        })?;
    for part in &mut parts {
        if !is_path(part) {
            let written = part.to_token_stream();
            let message = format_args!("`{written}` is neither an argument nor a field of one");
            let help = "write expressions without quotes, as in `key = (user_id, request.id())`";
            return Err(error(text.span(), message, help));
        }
        unhook(part);
    }
    Ok(parts.into_iter().collect())
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

fn unknown(root: &Ident, name: &str, function: &Function, names: &[String]) -> syn::Error {
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
            "it takes none; for one key shared by every call write `key = ()`",
        ),
        None => error(
            root.span(),
            message,
            format_args!("it takes {}", List(&names, " and ")),
        ),
    }
}
