//! The call that the guarded function makes: its endpoint, its policy, its key.

use std::fmt::Debug;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};

use crate::expand::{Expansion, hidden, mixed};
use crate::key::Key;
use crate::value::{OnCancel, Renew};

impl Expansion<'_> {
    // Output: Call::new(<endpoint>, <policy>, None).part(&id)
    //
    // It only looks at the arguments and keeps none of them, so that the body can still have them.
    pub fn call(&self) -> TokenStream {
        let private = self.private(Span::mixed_site());
        let (endpoint, policy) = (self.endpoint(), self.policy());
        let using = match &self.options.using {
            None => mixed!(::core::option::Option::None),
            Some(using) => {
                let span = hidden(using);
                let private = self.private(span);
                let using = quote_spanned!(span=> #private::Using::idempotency(&#using));
                mixed!(::core::option::Option::Some(#using))
            }
        };
        let parts = self.options.key.as_ref().map(Key::parts);
        mixed!(#private::Call::new(#endpoint, #policy, #using) #parts)
    }

    // Output: Endpoint::named("orders.pay")
    //         Endpoint::at(path_of(|| {}))
    //
    // The type name of a closure says in which function it stands, and on which type that is called: in a
    // generic `impl`, in a default method, and without a receiver, too.
    fn endpoint(&self) -> TokenStream {
        let private = self.private(Span::mixed_site());
        if let Some(name) = &self.options.name {
            return mixed!(#private::Endpoint::named(#name));
        }
        mixed!(#private::Endpoint::at(#private::path_of(|| {})))
    }

    // Output: Policy::new(Duration::from_millis(30000u64)).release(Release::Always)
    fn policy(&self) -> TokenStream {
        let (private, options) = (self.private(Span::mixed_site()), self.options);
        let ttl = &options.ttl;
        let mut policy = mixed!(#private::Policy::new(#ttl));
        if let Some(release) = options.release {
            let release = variant(release);
            policy.extend(mixed!(.release(#private::Release::#release)));
        }
        if let Some((_, lease)) = &options.lease {
            policy.extend(mixed!(.lease(#lease)));
        }
        if let Some(renew) = &options.renew {
            let renew = match renew {
                Renew::Yes => mixed!(Yes),
                Renew::No => mixed!(No),
                Renew::Cap(_, cap) => mixed!(Cap(#cap)),
            };
            policy.extend(mixed!(.renew(#private::Renew::#renew)));
        }
        if let Some((_, on_cancel @ (OnCancel::Keep | OnCancel::Release))) = options.on_cancel {
            let on_cancel = variant(on_cancel);
            policy.extend(mixed!(.on_cancel(#private::OnCancel::#on_cancel)));
        }
        if let Some(on_lease_lost) = options.on_lease_lost.map(variant) {
            policy.extend(mixed!(.on_lease_lost(#private::OnLeaseLost::#on_lease_lost)));
        }
        if let Some(on_store_error) = options.on_store_error.map(variant) {
            policy.extend(mixed!(.on_store_error(#private::OnStoreError::#on_store_error)));
        }
        policy
    }
}

fn variant(value: impl Debug) -> Ident {
    format_ident!("{value:?}", span = Span::mixed_site())
}
