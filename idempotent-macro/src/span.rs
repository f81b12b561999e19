//! Spans: the place where an error is reported, and the scope of the names in generated code.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit};

/// Like `quote!`. The names are invisible to the user's code, and the user's names are invisible to them.
macro_rules! mixed {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

pub(crate) use mixed;

/// The place of an error about `tokens`, with the scope of generated names.
pub fn hidden(tokens: impl ToTokens) -> Span {
    let mut tokens = tokens.into_token_stream().into_iter();
    let first = tokens
        .next()
        .map_or_else(Span::call_site, |token| token.span());
    first.resolved_at(Span::mixed_site())
}

/// The place of an error about `value`: its first token, because stable Rust cannot join spans.
pub fn span(value: &Expr) -> Span {
    ungrouped(value).span()
}

/// Removes the invisible groups that `macro_rules!` puts around what it substitutes.
pub fn ungrouped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungrouped(&group.expr),
        expr => expr,
    }
}

/// The literal, if `value` is one.
pub fn literal(value: &Expr) -> Option<&Lit> {
    match ungrouped(value) {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

// Output: { let value: ::core::time::Duration = <expr>; value }
//
// The type has the span of the expression, so that rustc underlines the expression once.
pub fn typed(expr: &Expr, module: &str, ty: &str) -> TokenStream {
    let first = hidden(expr);
    let last = expr.to_token_stream().into_iter().last();
    let last = last.map_or(first, hidden);
    let (module, ty) = (Ident::new(module, first), Ident::new(ty, last));
    let module = quote_spanned!(first=> ::core::#module);
    let ty = quote_spanned!(last=> #module::#ty);
    quote_spanned!(first=> { let value: #ty = #expr; value })
}
