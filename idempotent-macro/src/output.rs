//! The return type of a function: one of three kinds of future, and the output of the future.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::token::{Paren, Underscore};
use syn::{
    GenericArgument, Lifetime, PathArguments, PathSegment, ReturnType, Signature, Type, TypeInfer,
    TypeParamBound, TypeReference, TypeTuple,
};

use crate::error::error;

/// How a function returns its future, and the output of this future.
pub struct Output {
    pub future: Future,
    /// The output. `_` replaces each `impl Trait`, which has no name.
    pub ty: Type,
}

/// How a function returns its future.
pub enum Future {
    /// `async fn`
    Async,
    /// `-> Pin<Box<dyn Future<Output = R>>>`, also the expansion of `#[async_trait]`
    Boxed(Box<Type>),
    /// `-> impl Future<Output = R>`
    Impl,
}

impl Future {
    // Input:  Pin<Box<dyn Future<Output = R> + Send + 'a>>, BoxFuture<'a, R>
    // Output: Pin<Box<dyn Future<Output = R> + Send + '_>>, BoxFuture<'_, R>
    /// The type of a boxed future with inferred lifetimes: the body may borrow arguments for less time than the caller lends
    /// them.
    pub fn shortened(ty: &Type) -> Type {
        let mut ty = ty.clone();
        if let Some(segment) = last_segment_mut(&mut ty) {
            shorten(segment);
        }
        ty
    }
}

impl Output {
    /// `blocks`: whether the body blocks on a future, as the expansion of `#[tokio::main]` does.
    pub fn of(sig: &Signature, blocks: bool) -> syn::Result<Self> {
        let name = &sig.ident;
        let awaits = "write `async fn`: `#[idempotent]` awaits the store";
        if let Some(token) = &sig.constness {
            let message = format_args!("`{name}` is a `const fn`");
            return Err(error(token.span, message, awaits));
        }
        if let Some(abi) = &sig.abi {
            let message = format_args!("`{name}` is an `extern fn`");
            let help = "write `#[idempotent]` on an `async fn` that it calls: other languages cannot await a future";
            return Err(error(abi.extern_token.span, message, help));
        }
        let output = match &sig.output {
            ReturnType::Type(_, ty) => (**ty).clone(),
            ReturnType::Default => unit(name.span()),
        };
        let (future, ty) = if sig.asyncness.is_some() {
            (Future::Async, output)
        } else {
            future_of(&output).ok_or_else(|| {
                let message = format_args!("`{name}` is not async");
                let help = if blocks {
                    "write `#[idempotent]` above the attribute that makes it a plain function, as `#[tokio::main]` does"
                } else {
                    awaits
                };
                error(sig.fn_token.span, message, help)
            })?
        };
        Ok(Self {
            future,
            ty: inferred(ty),
        })
    }
}

fn unit(span: Span) -> Type {
    Type::Tuple(TypeTuple {
        attrs: Vec::new(),
        paren_token: Paren(span),
        elems: Punctuated::new(),
    })
}

// Input:  impl Future<Output = R> + Send, Pin<Box<dyn Future<Output = R> + Send + 'a>>, BoxFuture<'a, R>
// Output: R
fn future_of(ty: &Type) -> Option<(Future, Type)> {
    if let Type::ImplTrait(ty) = ungrouped(ty) {
        return Some((Future::Impl, output_of(&ty.bounds)?));
    }
    let segment = last_segment(ty)?;
    let output = match segment.ident.to_string().as_str() {
        "BoxFuture" | "LocalBoxFuture" => arguments(segment).find_map(type_argument)?.clone(),
        "Pin" => {
            let segment = last_segment(arguments(segment).find_map(type_argument)?)?;
            match arguments(segment).find_map(type_argument)? {
                Type::TraitObject(ty) if segment.ident == "Box" => output_of(&ty.bounds)?,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((Future::Boxed(Box::new(ty.clone())), output))
}

// Input:  Result<&'static str, Error>
// Output: &'static str
/// The type in the `Ok` of a `Result`, if it is a reference.
pub fn reference_in_ok(ty: &Type) -> Option<&TypeReference> {
    let segment = last_segment(ty).filter(|segment| segment.ident == "Result")?;
    match ungrouped(arguments(segment).find_map(type_argument)?) {
        Type::Reference(ok) => Some(ok),
        _ => None,
    }
}

fn output_of<'a>(bounds: impl IntoIterator<Item = &'a TypeParamBound>) -> Option<Type> {
    bounds.into_iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let segment = bound.path.segments.last()?;
        arguments(segment).find_map(|argument| match argument {
            GenericArgument::AssocType(output)
                if segment.ident == "Future" && output.ident == "Output" =>
            {
                Some(output.ty.clone())
            }
            _ => None,
        })
    })
}

fn inferred(ty: Type) -> Type {
    match ty {
        Type::ImplTrait(ty) => Type::Infer(TypeInfer {
            attrs: Vec::new(),
            underscore_token: Underscore(ty.impl_token.span),
        }),
        Type::Path(mut ty) => {
            for segment in &mut ty.path.segments {
                if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
                    for argument in &mut arguments.args {
                        if let GenericArgument::Type(ty) = argument {
                            *ty = inferred(ty.clone());
                        }
                    }
                }
            }
            Type::Path(ty)
        }
        Type::Tuple(mut ty) => {
            ty.elems = ty.elems.into_iter().map(inferred).collect();
            Type::Tuple(ty)
        }
        Type::Reference(mut ty) => {
            *ty.elem = inferred(*ty.elem);
            Type::Reference(ty)
        }
        Type::Array(mut ty) => {
            *ty.elem = inferred(*ty.elem);
            Type::Array(ty)
        }
        Type::Paren(mut ty) => {
            *ty.elem = inferred(*ty.elem);
            Type::Paren(ty)
        }
        Type::Group(ty) => inferred(*ty.elem),
        ty => ty,
    }
}

fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(ty) => ungrouped(&ty.elem),
        Type::Paren(ty) => ungrouped(&ty.elem),
        ty => ty,
    }
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ungrouped(ty) {
        Type::Path(ty) => ty.path.segments.last(),
        _ => None,
    }
}

fn shorten(segment: &mut PathSegment) {
    let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else {
        return;
    };
    for argument in &mut arguments.args {
        match argument {
            GenericArgument::Lifetime(lifetime) => *lifetime = unnamed(lifetime.span()),
            GenericArgument::Type(Type::TraitObject(ty)) => {
                for bound in &mut ty.bounds {
                    if let TypeParamBound::Lifetime(lifetime) = bound {
                        *lifetime = unnamed(lifetime.span());
                    }
                }
            }
            GenericArgument::Type(ty) if segment.ident == "Pin" => {
                if let Some(boxed) = last_segment_mut(ty) {
                    shorten(boxed);
                }
            }
            _ => {}
        }
    }
}

fn unnamed(span: Span) -> Lifetime {
    Lifetime::new("'_", span)
}

fn last_segment_mut(ty: &mut Type) -> Option<&mut PathSegment> {
    match ty {
        Type::Group(ty) => last_segment_mut(&mut ty.elem),
        Type::Paren(ty) => last_segment_mut(&mut ty.elem),
        Type::Path(ty) => ty.path.segments.last_mut(),
        _ => None,
    }
}

fn arguments(segment: &PathSegment) -> impl Iterator<Item = &GenericArgument> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten()
}

fn type_argument(argument: &GenericArgument) -> Option<&Type> {
    match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}
