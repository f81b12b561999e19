//! The expansion: the guarded function, or the errors and the function as it is written.

mod begin;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Type;

use crate::call;
use crate::error::Errors;
use crate::function::{self, Function};
use crate::options::Options;
use crate::output::Future;
use crate::rules;
use crate::span::{hidden, mixed};
use crate::steps;
use crate::value::{OnCancel, Release};

pub fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut options = Options::parse(options, &mut errors);
    rules::check_options(&options, &mut errors);
    let function = errors.take(syn::parse2::<Function>(item.clone()));
    if let Some(function) = &function {
        rules::check_function(&options, function, &mut errors);
        steps::check(&options, function, &mut errors);
        options.point_at_arguments(function);
    }
    match (errors.into_compile_error(), function) {
        (None, Some(function)) => Expansion::new(&options, &function).function(),
        (errors, Some(function)) => {
            let function = unguarded(&options, &function);
            quote!(#errors #function)
        }
        (errors, None) => quote!(#errors #[allow(unused)] #item),
    }
}

// Output: #[allow(unused, unexpected_cfgs)] async fn pay(id: u64) { #[cfg(rust_analyzer)] { _ = (&id,); } <body> }
//
// The function is expanded without the guard, so that its callers compile. rust-analyzer completes the names of an unfinished
// key. The body may use its context.
fn unguarded(options: &Options, function: &Function) -> TokenStream {
    let keys = options.parts().map(|key| {
        let parts = key.borrowed();
        quote!(#[cfg(rust_analyzer)] { _ = (#(#parts,)*); })
    });
    let statements = function.statements();
    let context = options.context.as_ref().map(|name| {
        let ty = context_type(options);
        mixed!(let #name: #ty = ::core::todo!();)
    });
    let transaction = match (&options.begin, &options.tx) {
        (Some(pool), Some(tx)) => {
            let private = options.private(Span::mixed_site());
            Some(mixed! {
                let mut transaction = #private::begun(&#pool);
                let #tx = &mut transaction;
            })
        }
        _ => None,
    };
    let function = function.with_body(&quote!(#(#keys)* #context #transaction #statements));
    quote!(#[allow(unused, unexpected_cfgs)] #function)
}

// Output: IdempotencyContext<OneIntent>
//
// With `release = true` an equal call may be a new intent, so its context has no downstream keys. With `fence = true` the type is
// `IdempotencyContext<Fenced<OneIntent>>`.
fn context_type(options: &Options) -> TokenStream {
    let private = options.private(Span::mixed_site());
    let intent = if options.release == Some(Release::Always) {
        mixed!(AnyIntent)
    } else {
        mixed!(OneIntent)
    };
    let intent = mixed!(#private::#intent);
    let state = match options.fence {
        Some(_) => mixed!(#private::Fenced<#intent>),
        None => intent,
    };
    mixed!(#private::IdempotencyContext<#state>)
}

/// The input of every part of the expansion.
struct Expansion<'a> {
    options: &'a Options,
    function: &'a Function,
}

/// The argument through which the row of the call is written.
struct Transaction<'a> {
    name: &'a Ident,
    ty: &'a Type,
}

impl<'a> Expansion<'a> {
    fn new(options: &'a Options, function: &'a Function) -> Self {
        Self { options, function }
    }

    // Output: async fn pay(id: u64) -> R { <guarded> }
    //         fn pay(id: u64) -> impl Future<Output = R> { let future = async move { <guarded> }; future }
    //         fn pay(id: u64) -> Pin<Box<dyn Future<Output = R>>> { Box::pin(async move { <guarded> }) }
    //
    // Nothing runs before the first poll. So the three forms behave alike, for example in the scope of their caller.
    fn function(&self) -> TokenStream {
        let guarded = self.guarded();
        self.function.with_body(&match self.function.output.future {
            Future::Async => guarded,
            Future::Boxed(_) => mixed!(::std::boxed::Box::pin(async move { #guarded })),
            // Without the variable, `clippy::manual_async_fn` would ask for an `async fn`.
            Future::Impl => mixed! {
                let future = async move { #guarded };
                future
            },
        })
    }

    // Output: let returns = returns::<R>();
    //         let claim = { let mut call = Call::new(<endpoint>, <policy>, None); call.part(&id); call.claim() };
    //         let mut held = match claim.await { Ok(held) => held, Err(refusal) => return <refused> };
    //         <run the body, settle>
    fn guarded(&self) -> TokenStream {
        let (returns, call) = (
            self.returns(),
            call::call(self.options, &self.function.sig.ident),
        );
        let refused = match &self.options.on_duplicate {
            None => mixed!(returns.refused(refusal)),
            Some(answer) => {
                quote_spanned!(hidden(answer)=> returns.answered(refusal, #answer))
            }
        };
        if let (Some(pool), Some(tx)) = (&self.options.begin, &self.options.tx) {
            return self.begin((pool, tx), &returns, &call, &refused);
        }
        if let Some(tx) = self.transaction() {
            return self.in_transaction(&tx, &returns, &call, &refused);
        }
        let finishes = matches!(self.options.on_cancel, Some((_, OnCancel::Finish)));
        let (mutable, run) = if finishes {
            (None, self.finish())
        } else {
            (Some(mixed!(mut)), self.poll())
        };
        mixed! {
            let returns = #returns;
            let claim = {
                #call
                call.claim()
            };
            let #mutable held = match claim.await {
                ::core::result::Result::Ok(held) => held,
                ::core::result::Result::Err(refusal) => return #refused,
            };
            #run
        }
    }

    // Output: let returns = returns::<R>();
    //         let rows = rows(&mut *tx);
    //         let claim = { let mut call = Call::new(<endpoint>, <policy>, None); call.part(&id); call.claim_in(rows(&mut *tx)) };
    //         let mut held = match claim.await { Ok(held) => held, Err(refusal) => return <refused> };
    //         let outcome = {
    //             let body = { let tx = &mut *tx; <body> };
    //             let mut body = pin!(body);
    //             poll_fn(|context| held.poll_body(context, body.as_mut())).await
    //         };
    //         returns.settle_in(held, outcome, rows(tx)).await
    //
    // With `tx: &Transaction` the first line is `let mut shared = tx;`, the calls are `rows(&mut shared)`, and the body has a copy of `tx`.
    //
    // The body has the transaction while it runs. The row is written before and after the body.
    fn in_transaction(
        &self,
        tx: &Transaction,
        returns: &TokenStream,
        call: &TokenStream,
        refused: &TokenStream,
    ) -> TokenStream {
        let (body, context) = (self.body(), self.context());
        let Transaction { name, ty } = tx;
        let span = hidden(ty);
        let private = self.options.private(span);
        let (share, borrowed, again, last) = if function::is_shared_reference(ty) {
            let shared = quote_spanned!(span=> &mut shared);
            let share = quote_spanned!(span=> let mut shared = #name;);
            (Some(share), shared.clone(), quote!(#name), shared)
        } else {
            let borrowed = quote_spanned!(span=> &mut *#name);
            (None, borrowed.clone(), borrowed, quote!(#name))
        };
        let rows = quote_spanned!(span=> #private::rows(#borrowed));
        mixed! {
            let returns = #returns;
            #share
            let rows = #rows;
            let claim = {
                #call
                call.claim_in(rows(#borrowed))
            };
            let mut held = match claim.await {
                ::core::result::Result::Ok(held) => held,
                ::core::result::Result::Err(refusal) => return #refused,
            };
            let outcome = {
                #context
                let body = {
                    #[allow(unused_variables)]
                    let #name = #again;
                    #body
                };
                let mut body = ::core::pin::pin!(body);
                ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
            };
            returns.settle_in(held, outcome, rows(#last)).await
        }
    }

    // Output: let cx: IdempotencyContext<OneIntent> = held.context();
    //
    // The name has the user's span, so the body sees it, and rustc reports it if the body does not use it.
    fn context(&self) -> Option<TokenStream> {
        let name = self.options.context.as_ref()?;
        let ty = context_type(self.options);
        Some(mixed!(let #name: #ty = held.context();))
    }

    /// The argument of the option `tx`.
    fn transaction(&self) -> Option<Transaction<'a>> {
        let name = self.options.tx.as_ref()?;
        let ty = self.function.argument(name)?;
        Some(Transaction { name, ty })
    }

    // Output: replaying::<R, _, _>(returns::<R>().success(|outcome| …)).replay_err(|error| …).hold_err(|error| …)
    //
    // Only this expression has bounds on the return type. With bounds in two places rustc would report the same mistake twice.
    fn returns(&self) -> TokenStream {
        let ty = &self.function.output.ty;
        let span = self
            .options
            .error
            .as_ref()
            .map_or_else(|| hidden(ty), hidden);
        let private = self.options.private(span);
        let mut returns = match &self.options.error {
            None => quote_spanned!(span=> #private::returns::<#ty>()),
            Some(error) => quote_spanned!(span=> #private::returns_with::<#ty, _>(#error)),
        };
        if let Some(success) = &self.options.success {
            returns.extend(quote_spanned!(hidden(success)=> .success(#success)));
        }
        if self.options.replay.is_some() {
            let span = hidden(ty);
            let private = self.options.private(span);
            returns = quote_spanned!(span=> #private::replaying::<#ty, _, _>(#returns));
        }
        if let Some((_, replay_err)) = &self.options.replay_err {
            returns.extend(quote_spanned!(hidden(replay_err)=> .replay_err(#replay_err)));
        }
        if let Some(hold_err) = &self.options.hold_err {
            returns.extend(quote_spanned!(hidden(hold_err)=> .hold_err(#hold_err)));
        }
        returns
    }

    // Output: let outcome = match { let mut body = pin!(<body>); poll_fn(|context| …).await } {
    //             Ok(outcome) => outcome,
    //             Err(error) => return <refused>,
    //         };
    //         returns.settle(held, &outcome).await;
    //         outcome
    //
    // The body is dropped before the claim, so that the key is never free while the body holds anything. The outcome is in
    // one variable while it is settled: two variables would make the future larger.
    fn poll(&self) -> TokenStream {
        let (body, context) = (self.body(), self.context());
        let outcome = quote_spanned!(hidden(&self.function.output.ty)=> outcome);
        mixed! {
            let #outcome = match {
                #context
                let body = #body;
                let mut body = ::core::pin::pin!(body);
                ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
            } {
                ::core::result::Result::Ok(outcome) => outcome,
                ::core::result::Result::Err(error) => return returns.refused(error),
            };
            returns.settle(held, &#outcome).await;
            #outcome
        }
    }

    // Output: let body = Box::pin(<body>);
    //         match returns.finish(held, body).await { Ok(outcome) => outcome, Err(error) => … }
    fn finish(&self) -> TokenStream {
        let (body, context) = (self.body(), self.context());
        mixed! {
            #context
            let body = ::std::boxed::Box::pin(#body);
            match returns.finish(held, body).await {
                ::core::result::Result::Ok(outcome) => outcome,
                ::core::result::Result::Err(error) => returns.refused(error),
            }
        }
    }

    // Output: async move { if let Some(outcome) = None::<R> { return outcome; } let _ = &_permit; { <body as written> } }
    //         async move { (move || -> Pin<Box<dyn Future<Output = R>>> { <body as written> })().await }
    //
    // Both forms give the body its type, because coercions need it. An early `return` ends only the closure. The closure is
    // called when the body is polled, so that its panic is a panic of the body.
    fn body(&self) -> TokenStream {
        let (body, ty) = (self.function.body(), &self.function.output.ty);
        let hint = quote_spanned! {hidden(ty)=>
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<#ty> {
                return outcome;
            }
        };
        match &self.function.output.future {
            // `async move` captures only the names that the block mentions.
            Future::Async => {
                let captured = self.function.captured();
                mixed! {
                    async move {
                        #hint
                        #(#[allow(clippy::used_underscore_binding)] let _ = &#captured;)*
                        #body
                    }
                }
            }
            Future::Boxed(future) if self.options.tx.is_some() => {
                let future = Future::shortened(future);
                mixed!(async move { (move || -> #future #body)().await })
            }
            Future::Boxed(future) => mixed!(async move { (move || -> #future #body)().await }),
            Future::Impl => mixed!(async move { (move || #body)().await }),
        }
    }
}
