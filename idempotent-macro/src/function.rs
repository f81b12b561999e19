//! The function below the attribute: the names that it binds, what it borrows, and its body as tokens.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::token::Brace;
use syn::{
    Attribute, FnArg, GenericParam, LitStr, Pat, PatIdent, Path, Signature, Token, Type,
    Visibility, braced,
};

use crate::error::error;
use crate::output::Output;

/// A function. Its body stays a list of tokens, because only rustc needs to understand it.
pub struct Function {
    attrs: Vec<Attribute>,
    vis: Visibility,
    pub sig: Signature,
    brace: Brace,
    inner: Vec<Attribute>,
    pub body: TokenStream,
    pub output: Output,
}

impl Parse for Function {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if !is_function(&input.fork()) {
            let (message, help) = not_a_function(&input.fork());
            return Err(error(input.span(), message, help));
        }
        let sig: Signature = input.parse()?;
        if input.peek(Token![;]) {
            let message = format_args!(
                "`{}` has no body that `#[idempotent]` could guard",
                sig.ident
            );
            let help = "write `#[idempotent]` on the method in each `impl` of the trait";
            return Err(error(sig.ident.span(), message, help));
        }
        let content;
        let brace = braced!(content in input);
        let inner = content.call(Attribute::parse_inner)?;
        let body: TokenStream = content.parse()?;
        Ok(Self {
            attrs,
            vis,
            brace,
            inner,
            output: Output::of(&sig, mentions(body.clone(), "block_on"))?,
            body,
            sig,
        })
    }
}

impl Function {
    /// The function with another body.
    pub fn with_body(&self, body: &TokenStream) -> TokenStream {
        let (attrs, vis, sig, inner) = (&self.attrs, &self.vis, &self.sig, &self.inner);
        let mut function = quote!(#(#attrs)* #vis #sig);
        // These braces have the user's span. With another span `dead_code` would treat the function as generated.
        self.brace.surround(&mut function, |tokens| {
            tokens.append_all(inner);
            body.to_tokens(tokens);
        });
        function
    }

    /// The body as written, in braces that `unused_braces` does not treat as the user's braces.
    pub fn body(&self) -> Group {
        let mut body = Group::new(Delimiter::Brace, self.body.clone());
        body.set_span(self.brace.span.join().resolved_at(Span::mixed_site()));
        body
    }

    /// The body as written, without braces.
    pub fn statements(&self) -> &TokenStream {
        &self.body
    }

    /// The names that a key and a payload may use: arguments, the names in their patterns, and const parameters.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for input in &self.sig.inputs {
            match input {
                FnArg::Receiver(_) => names.push("self".to_owned()),
                FnArg::Typed(input) => {
                    let mut bound = Vec::new();
                    bind(&input.pat, &mut bound);
                    names.extend(bound.iter().map(Ident::to_string));
                }
            }
        }
        names.retain(|name| !name.starts_with(HIDDEN));
        for param in &self.sig.generics.params {
            if let GenericParam::Const(param) = param {
                names.push(param.ident.to_string());
            }
        }
        names
    }

    /// The type of an argument that is a plain name.
    pub fn argument(&self, name: &Ident) -> Option<&Type> {
        self.sig.inputs.iter().find_map(|input| match input {
            FnArg::Typed(input) => match &*input.pat {
                Pat::Ident(pat) if pat.ident == *name && is_plain(pat) => Some(&*input.ty),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        })
    }

    /// Whether a pattern that `#[async_trait]` moved into the body binds `name`.
    pub fn hides(&self, name: &str) -> bool {
        let hidden = |input: &FnArg| match input {
            FnArg::Receiver(_) => false,
            FnArg::Typed(input) => input.pat.to_token_stream().to_string().starts_with(HIDDEN),
        };
        self.sig.inputs.iter().any(hidden) && mentions(self.body.clone(), name)
    }

    /// The name that an argument binds, as it is written in the signature.
    pub fn bound(&self, name: &Ident) -> Option<Ident> {
        let mut names = Vec::new();
        for input in &self.sig.inputs {
            if let FnArg::Typed(input) = input {
                bind(&input.pat, &mut names);
            }
        }
        names.into_iter().find(|bound| bound == name)
    }

    /// The other `#[idempotent]` of this function. `krate` is the option `crate`.
    pub fn second_attribute(&self, krate: Option<&Path>) -> Option<&Path> {
        let renamed = krate.and_then(|path| path.segments.last());
        let is_of_this_crate = |module: &Ident| {
            CRATES.iter().any(|name| module == name)
                || renamed.is_some_and(|renamed| *module == renamed.ident)
        };
        let mut paths = self.attrs.iter().map(Attribute::path);
        paths.find(|path| {
            let mut names = path.segments.iter().rev().map(|segment| &segment.ident);
            names.next().is_some_and(|name| name == "idempotent")
                && names.next().is_none_or(is_of_this_crate)
        })
    }

    /// Whether the body is an expansion of `#[idempotent]`: the attribute above this one has any path.
    pub fn is_guarded(&self) -> bool {
        is_expansion(self.body.clone())
    }

    /// The first argument that is borrowed from the caller.
    pub fn borrowed(&self) -> Option<String> {
        self.sig.inputs.iter().find_map(|input| {
            let (name, ty) = match input {
                FnArg::Receiver(receiver) => ("self".to_owned(), receiver.to_token_stream()),
                FnArg::Typed(input) => (
                    input.pat.to_token_stream().to_string(),
                    input.ty.to_token_stream(),
                ),
            };
            borrows(ty).then_some(name)
        })
    }

    /// The arguments of which each run of the body needs a copy: those that the body mentions, also in a format string. And whether they
    /// are written with `mut`.
    pub fn repeated(&self) -> Vec<(Ident, bool)> {
        let mut names = Vec::new();
        for input in &self.sig.inputs {
            if let FnArg::Typed(input) = input {
                bind(&input.pat, &mut names);
            }
        }
        names.retain(|name| {
            let name = name.to_string();
            let is_captured = name.starts_with('_');
            is_captured || mentions(self.body.clone(), &name) || formats(self.body.clone(), &name)
        });
        let inputs = self.sig.inputs.to_token_stream();
        let with_mut = |name: Ident| {
            let is_mutable = is_mutable(inputs.clone(), &name);
            (name, is_mutable)
        };
        names.into_iter().map(with_mut).collect()
    }

    /// `self`, if the body mentions it and a second run could not use it: `self` by value, or `&mut self`.
    pub fn receiver_of_one_run(&self) -> Option<&syn::Receiver> {
        let receiver = self.sig.receiver()?;
        let tokens = receiver.to_token_stream();
        let is_shared = borrows(tokens.clone()) && !mentions(tokens, "mut");
        (!is_shared && mentions(self.body.clone(), "self")).then_some(receiver)
    }

    /// The arguments that the body may need only for their destructors, as `_permit`.
    pub fn captured(&self) -> Vec<Ident> {
        let mut names = Vec::new();
        for input in &self.sig.inputs {
            match input {
                FnArg::Receiver(receiver) if borrows(receiver.to_token_stream()) => {}
                FnArg::Receiver(receiver) => names.push(Ident::from(receiver.self_token)),
                FnArg::Typed(input) => bind(&input.pat, &mut names),
            }
        }
        names.retain(|name| name == "self" || name.to_string().starts_with('_'));
        names
    }
}

/// The start of the names that `#[async_trait]` gives to arguments that are patterns: `__arg1`.
const HIDDEN: &str = "__arg";

/// The crates that have the attribute.
const CRATES: [&str; 2] = ["idempotence", "idempotent_macro"];

fn is_function(ahead: ParseStream) -> bool {
    while let Ok(word) = ahead.call(Ident::parse_any) {
        match word.to_string().as_str() {
            "fn" => return true,
            "extern" => drop(ahead.parse::<Option<LitStr>>()),
            "const" | "async" | "safe" | "unsafe" => {}
            _ => return false,
        }
    }
    false
}

/// What is wrong with an item that is not a function, and what to write.
fn not_a_function(item: ParseStream) -> (String, &'static str) {
    let mut thing = None;
    while let Ok(word) = item.call(Ident::parse_any) {
        match word.to_string().as_str() {
            "unsafe" | "auto" | "default" | "async" | "const" => {}
            "impl" => {
                let help = "write `#[idempotent]` on each `async fn` in it";
                return (
                    "`#[idempotent]` is on an `impl` block, not on a function".to_owned(),
                    help,
                );
            }
            word => {
                thing = Some(word.to_owned());
                break;
            }
        }
    }
    let message = match thing.as_deref() {
        Some(word @ ("struct" | "trait" | "mod" | "type" | "static" | "union" | "use" | "let")) => {
            format!("`#[idempotent]` is on a `{word}`, not on a function")
        }
        Some(word @ "enum") => format!("`#[idempotent]` is on an `{word}`, not on a function"),
        _ => "`#[idempotent]` is not on a function".to_owned(),
    };
    (message, "write `#[idempotent]` on an `async fn`")
}

fn is_plain(pat: &PatIdent) -> bool {
    pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none()
}

/// Whether a type is written as `&mut T`.
pub fn is_mutable_reference(ty: &Type) -> bool {
    match ty {
        Type::Group(ty) => is_mutable_reference(&ty.elem),
        Type::Paren(ty) => is_mutable_reference(&ty.elem),
        Type::Reference(ty) => ty.mutability.is_some(),
        _ => false,
    }
}

/// Whether a type is written as `&T`.
pub fn is_shared_reference(ty: &Type) -> bool {
    match ty {
        Type::Group(ty) => is_shared_reference(&ty.elem),
        Type::Paren(ty) => is_shared_reference(&ty.elem),
        Type::Reference(ty) => ty.mutability.is_none(),
        _ => false,
    }
}

fn bind(pat: &Pat, names: &mut Vec<Ident>) {
    match pat {
        Pat::Ident(pat) => {
            names.push(pat.ident.clone());
            if let Some((_, pat)) = &pat.subpat {
                bind(pat, names);
            }
        }
        Pat::Paren(pat) => bind(&pat.pat, names),
        Pat::Reference(pat) => bind(&pat.pat, names),
        Pat::Type(pat) => bind(&pat.pat, names),
        Pat::Struct(pat) => pat.fields.iter().for_each(|field| bind(&field.pat, names)),
        Pat::Slice(pat) => pat.elems.iter().for_each(|pat| bind(pat, names)),
        Pat::Tuple(pat) => pat.elems.iter().for_each(|pat| bind(pat, names)),
        Pat::TupleStruct(pat) => pat.elems.iter().for_each(|pat| bind(pat, names)),
        _ => {}
    }
}

fn mentions(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        _ => false,
    })
}

/// Whether a pattern binds `name` with `mut`.
fn is_mutable(tokens: TokenStream, name: &Ident) -> bool {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let binds = |window: &[TokenTree]| matches!(window, [TokenTree::Ident(word), TokenTree::Ident(bound)] if word == "mut" && bound == name);
    tokens.windows(2).any(binds)
        || tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => is_mutable(group.stream(), name),
            _ => false,
        })
}

/// Whether a format string may contain `name`, as in `"{name}"`.
fn formats(tokens: TokenStream, name: &str) -> bool {
    let opened = format!("{{{name}");
    tokens.into_iter().any(|token| match token {
        TokenTree::Literal(literal) => literal.to_string().contains(&opened),
        TokenTree::Group(group) => formats(group.stream(), name),
        _ => false,
    })
}

/// Whether the tokens call `__private::returns`, as every expansion does, or one of its variants.
fn is_expansion(tokens: TokenStream) -> bool {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let calls = |window: &[TokenTree]| match window {
        [
            TokenTree::Ident(module),
            TokenTree::Punct(_),
            TokenTree::Punct(_),
            TokenTree::Ident(function),
        ] => module == "__private" && RETURNS.iter().any(|name| function == name),
        _ => false,
    };
    tokens.windows(4).any(calls)
        || tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => is_expansion(group.stream()),
            _ => false,
        })
}

/// The functions with which every expansion begins.
const RETURNS: [&str; 3] = ["returns", "returns_with", "replaying"];

/// Whether a type contains a reference or a lifetime. `'static` and the references in `Fn(&T)` do not count.
fn borrows(ty: TokenStream) -> bool {
    let mut tokens = ty.into_iter().peekable();
    let mut is_call = false;
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                let lifetime = matches!(tokens.peek(), Some(TokenTree::Punct(quote)) if quote.as_char() == '\'');
                if !lifetime {
                    return true;
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                let lifetime = tokens.next().map(|name| name.to_string());
                if lifetime.as_deref() != Some("static") {
                    return true;
                }
            }
            TokenTree::Group(group) if !is_call && borrows(group.stream()) => return true,
            _ => {}
        }
        is_call = matches!(&token, TokenTree::Ident(name)
            if name == "fn" || name.to_string().trim_start_matches("Async").starts_with("Fn"));
    }
    false
}
