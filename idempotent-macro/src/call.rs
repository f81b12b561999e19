//! The statements that build the call of a guarded function: its endpoint, its policy and its key.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use crate::key::Key;
use crate::options::Options;
use crate::policy::PolicyValue;
use crate::span::{hidden, mixed, typed};

/// The statements that build the variable `call` of `function` from `options` and the arguments.
pub fn call(options: &Options, function: &Ident) -> TokenStream {
    Call { options, function }.call()
}

struct Call<'a> {
    options: &'a Options,
    function: &'a Ident,
}

impl Call<'_> {
    // Output: let mut call = Call::new(<endpoint>, <policy>, None); call.part(Part::of(&id).checked()); call.payload(&amount);
    //         let mut call = Call::new(<endpoint>, <policy>, None); call.token(&form.token, &user_id, "orders.submit"); call.keyed();
    //         let when = <when>; let mut call = Call::new(…); if when { call.part(&id); } else { call.when(false); }
    //
    // The statements borrow the arguments and do not keep them, so that the body can take them. An unguarded call does not
    // evaluate the parts of its key, because they may exist only in a guarded call.
    fn call(&self) -> TokenStream {
        let private = self.options.private(Span::mixed_site());
        let (endpoint, policy) = (self.endpoint(), self.registered());
        let using = match &self.options.using {
            None => mixed!(::core::option::Option::None),
            Some(using) => {
                let span = hidden(using);
                let private = self.options.private(span);
                let using = quote_spanned!(span=> #private::Using::idempotency(&#using));
                mixed!(::core::option::Option::Some(#using))
            }
        };
        let (parts, token) = (self.parts(), self.token());
        let additions = mixed!(#parts #token);
        let new = mixed!(#private::Call::new(#endpoint, #policy, #using));
        let Some(when) = &self.options.when else {
            let mutable = (!additions.is_empty()).then(|| mixed!(mut));
            return mixed!(let #mutable call = #new; #additions);
        };
        let when = typed(when, "primitive", "bool");
        mixed! {
            let when = #when;
            let mut call = #new;
            if when { #additions } else { call.when(false); }
        }
    }

    // Output: call.part(Part::of(&id).checked()); call.payload(&amount);
    //         call.part(&id); call.payload(&amount);
    //         call.part(Part::of(&from).checked()); call.also(); call.also_part(Part::of(&to).checked());
    //
    // With `when`, a part of the key may be missing.
    fn parts(&self) -> TokenStream {
        let (key, payload) = (&self.options.key, &self.options.payload);
        let checked = |part| {
            let span = hidden(&part);
            let private = self.options.private(span);
            quote_spanned!(span=> #private::Part::of(#part).checked())
        };
        let added = |key: &Key, method| match self.options.when {
            Some(_) => key.added_by(method, |part| part),
            None => key.added_by(method, checked),
        };
        let key = key.as_ref().map(|key| added(key, "part"));
        let also = self.options.also.iter().map(|key| {
            let parts = added(key, "also_part");
            mixed!(call.also(); #parts)
        });
        let payload = payload.as_ref();
        let payload = payload.map(|payload| payload.added_by("payload", |part| part));
        mixed!(#key #payload #(#also)*)
    }

    // Output: call.token(&form.token, &user_id, "orders.submit"); call.keyed();
    //         call.token(&form.token, &user_id, "orders.submit");
    //
    // Without the option `key`, the token is also the key.
    fn token(&self) -> Option<TokenStream> {
        let (options, operation) = (self.options, self.options.operation()?);
        let token = options.token.as_ref()?.redeemed_for(operation)?;
        let keyed = options.key.is_none().then(|| mixed!(call.keyed();));
        Some(mixed!(#token #keyed))
    }

    // Output: Endpoint::named("orders.pay")
    //         Endpoint::at(path_of(|| {}))
    //         Endpoint::written_at(path_of(|| {}), &("src/orders.rs", 12, 21))
    //
    // The type name of a closure contains the function around it and the type on which this function is called, also in a
    // generic `impl`, in a default method, and without a receiver. Functions in two blocks of one function have the same type
    // name: their places tell them apart.
    fn endpoint(&self) -> TokenStream {
        let private = self.options.private(Span::mixed_site());
        if let Some(name) = &self.options.name {
            return mixed!(#private::Endpoint::named(#name));
        }
        match place(self.function) {
            None => mixed!(#private::Endpoint::at(#private::path_of(|| {}))),
            Some(place) => {
                mixed!(#private::Endpoint::written_at(#private::path_of(|| {}), &#place))
            }
        }
    }

    // Output: { const POLICY: Policy = <policy>; register! { "orders.pay", Some(|| POLICY) } POLICY }
    //         { register! { "orders.pay", None } <policy> }
    //         { register! { "orders.pay", None, tx = true, at = ("src/orders.rs", 12, 21) } <policy> }
    //
    // Spans hide a local variable from the body, but not an item: the braces hide the item.
    fn registered(&self) -> TokenStream {
        let (private, policy) = (self.options.private(Span::mixed_site()), self.policy());
        let tx = self.options.tx.as_ref().map(|_| mixed!(, tx = true));
        let place = place(self.function).map(|place| mixed!(, at = #place));
        match &self.options.name {
            None => policy,
            Some(name) if self.is_fixed() => mixed!({
                const POLICY: #private::Policy = #policy;
                #private::register! { #name, ::core::option::Option::Some(|| POLICY) #tx #place }
                POLICY
            }),
            Some(name) => mixed!({
                #private::register! { #name, ::core::option::Option::None #tx #place }
                #policy
            }),
        }
    }

    /// Whether the policy is known before the function is called.
    fn is_fixed(&self) -> bool {
        let mut values = self.options.in_policy().map(|(_, value)| value);
        self.options.ttl.is_fixed() && values.all(PolicyValue::is_fixed)
    }

    // Output: Policy::new(Duration::from_millis(30000u64)).release(Release::Always)
    fn policy(&self) -> TokenStream {
        let (private, ttl) = (self.options.private(Span::mixed_site()), &self.options.ttl);
        let calls = self.options.in_policy().filter_map(|(method, value)| {
            let argument = value.argument(&private)?;
            let method = Ident::new(method, Span::mixed_site());
            Some(mixed!(.#method(#argument)))
        });
        mixed!(#private::Policy::new(#ttl) #(#calls)*)
    }
}

/// The place where the name of the function is written. In a function that a macro writes, the name may come from the use of the
/// macro, or from the macro itself. In the second case all uses have the same place.
fn place(name: &Ident) -> Option<TokenStream> {
    // Only a running rustc knows places.
    if !proc_macro::is_available() {
        return None;
    }
    let span = name.span().unwrap();
    let (file, line, column) = (span.file(), span.line(), span.column());
    Some(mixed!((#file, #line, #column)))
}
