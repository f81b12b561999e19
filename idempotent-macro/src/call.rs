//! The call that the guarded function makes: its endpoint, its policy, its key.

use std::fmt::Debug;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};

use crate::expand::{Expansion, hidden, mixed};
use crate::value::{OnCancel, Renew};

impl Expansion<'_> {
    // Output: Call::new(<endpoint>, <policy>, None).part(&id).payload(&amount)
    //         Call::new(<endpoint>, <policy>, None).token(&form.token, &user_id, "orders.submit").keyed()
    //
    // It only looks at the arguments and keeps none of them, so that the body can still have them.
    pub fn call(&self) -> TokenStream {
        let private = self.private(Span::mixed_site());
        let (endpoint, policy) = (self.endpoint(), self.registered());
        let using = match &self.options.using {
            None => mixed!(::core::option::Option::None),
            Some(using) => {
                let span = hidden(using);
                let private = self.private(span);
                let using = quote_spanned!(span=> #private::Using::idempotency(&#using));
                mixed!(::core::option::Option::Some(#using))
            }
        };
        let (key, payload) = (&self.options.key, &self.options.payload);
        let parts = key.as_ref().map(|key| key.added_by("part"));
        let payload = payload.as_ref().map(|key| key.added_by("payload"));
        let token = self.token();
        mixed!(#private::Call::new(#endpoint, #policy, #using) #parts #payload #token)
    }

    // Output: .token(&form.token, &user_id, "orders.submit").keyed()
    //         .token(&form.token, &user_id, "orders.submit")
    //
    // Without a key of its own, the call has that of its token.
    fn token(&self) -> Option<TokenStream> {
        let (options, operation) = (self.options, self.options.operation()?);
        let token = options.token.as_ref()?.redeemed_for(operation)?;
        let keyed = options.key.is_none().then(|| mixed!(.keyed()));
        Some(mixed!(#token #keyed))
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

    // Output: { const POLICY: Policy = <policy>; register! { "orders.pay", Some(|| POLICY) } POLICY }
    //         { register! { "orders.pay", None } <policy> }
    //
    // Spans do not hide an item as they hide a local: in these braces it is out of the body's sight.
    fn registered(&self) -> TokenStream {
        let (private, policy) = (self.private(Span::mixed_site()), self.policy());
        match &self.options.name {
            None => policy,
            Some(name) if self.is_fixed() => mixed!({
                const POLICY: #private::Policy = #policy;
                #private::register! { #name, ::core::option::Option::Some(|| POLICY) }
                POLICY
            }),
            Some(name) => mixed!({
                #private::register! { #name, ::core::option::Option::None }
                #policy
            }),
        }
    }

    /// Whether the policy is known before the function is called.
    fn is_fixed(&self) -> bool {
        let options = self.options;
        let cap = match &options.renew {
            Some(Renew::Cap(_, cap)) => Some(cap),
            _ => None,
        };
        let lease = options.lease.as_ref().map(|(_, lease)| lease);
        let times = [options.ttl.as_ref(), lease, cap, options.wait.as_ref()];
        times
            .into_iter()
            .flatten()
            .all(|time| time.literal().is_some())
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
        if let Some(wait) = &options.wait {
            policy.extend(mixed!(.wait(#wait)));
        }
        if options.replay.is_some() {
            policy.extend(mixed!(.replay()));
        }
        if options.give_back.is_some() {
            policy.extend(mixed!(.give_back()));
        }
        if options.tx.is_some() {
            policy.extend(mixed!(.tx()));
        }
        policy
    }
}

fn variant(value: impl Debug) -> Ident {
    format_ident!("{value:?}", span = Span::mixed_site())
}
