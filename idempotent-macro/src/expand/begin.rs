//! The expansion of a function whose guard begins the transaction and commits it.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Expr, Ident};

use super::Expansion;
use crate::span::{hidden, mixed};

impl Expansion<'_> {
    // Output: let returns = returns::<R>();
    //         let begin = { let mut call = Call::new(<endpoint>, <policy>, None); call.part(&id); call.begin_on(pool(&<begin>), …) };
    //         let mut held = match begin { Ok(held) => held, Err(refusal) => return <refused> };
    //         loop {
    //             let mut transaction = match held.attempt().await { Ok(transaction) => transaction, Err(refusal) => return <refused> };
    //             let outcome = {
    //                 let mut id = again(&id);
    //                 let body = { let tx = &mut transaction; <body> };
    //                 let mut body = pin!(body);
    //                 poll_fn(|context| held.poll_body(context, body.as_mut())).await
    //             };
    //             match held.end(&returns, transaction, outcome).await {
    //                 Ok(Some(outcome)) => return outcome,
    //                 Ok(None) => {}
    //                 Err(error) => return returns.refused(error),
    //             }
    //         }
    //
    // With `retry = false` there is no loop, and the body moves the arguments.
    //
    // All of it has the place of the pool, so that rustc reports a wrong pool once.
    pub(super) fn begin(
        &self,
        (pool, tx): (&Expr, &Ident),
        returns: &TokenStream,
        call: &TokenStream,
        refused: &TokenStream,
    ) -> TokenStream {
        let span = hidden(pool);
        let private = self.options.private(span);
        let policy = if self.options.repeats() {
            quote_spanned!(span=> #private::Retry::with_row())
        } else {
            quote_spanned!(span=> #private::Retry::with_row().tries(1))
        };
        let attempt = self.attempt(span, tx, refused);
        let run = if self.options.repeats() {
            quote_spanned! {span=>
                loop {
                    #attempt
                    match held.end(&returns, transaction, outcome).await {
                        ::core::result::Result::Ok(::core::option::Option::Some(outcome)) => return outcome,
                        ::core::result::Result::Ok(::core::option::Option::None) => {}
                        ::core::result::Result::Err(error) => return returns.refused(error),
                    }
                }
            }
        } else {
            quote_spanned! {span=>
                #attempt
                match held.end_once(&returns, transaction, outcome).await {
                    ::core::result::Result::Ok(outcome) => outcome,
                    ::core::result::Result::Err(error) => returns.refused(error),
                }
            }
        };
        quote_spanned! {span=>
            let returns = #returns;
            let begin = {
                #call
                call.begin_on(#private::pool(&#pool), #policy)
            };
            let mut held = match begin {
                ::core::result::Result::Ok(held) => held,
                ::core::result::Result::Err(refusal) => return #refused,
            };
            #run
        }
    }

    /// Begins a transaction, and runs the body in it.
    fn attempt(&self, span: Span, tx: &Ident, refused: &TokenStream) -> TokenStream {
        let (body, context) = (self.body(), self.context());
        let repeated = if self.options.repeats() {
            self.function.repeated()
        } else {
            Vec::new()
        };
        let copies = repeated.iter().map(|(name, is_mutable)| {
            let span = hidden(name);
            let private = self.options.private(span);
            let copy = quote_spanned!(span=> #private::again(&#name));
            // The body changes the copy, so `unused_mut` would report the argument.
            let used = is_mutable.then(|| mixed!(let _ = &mut #name;));
            mixed! {
                #used
                #[allow(unused_mut, unused_variables)]
                let mut #name = #copy;
            }
        });
        quote_spanned! {span=>
            let mut transaction = match held.attempt().await {
                ::core::result::Result::Ok(transaction) => transaction,
                ::core::result::Result::Err(refusal) => return #refused,
            };
            let outcome = {
                #context
                #(#copies)*
                let body = {
                    #[allow(unused_variables)]
                    let #tx = &mut transaction;
                    #body
                };
                let mut body = ::core::pin::pin!(body);
                ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
            };
        }
    }
}
