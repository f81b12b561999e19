//! The values of options that are part of the policy of a call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident};

use crate::duration::Time;
use crate::key::Key;
use crate::span::{literal, mixed, typed};
use crate::value::{OnCancel, OnLeaseLost, OnStoreError, Permits, Release, Renew, Settle};

/// The value of an option that is part of the policy.
pub trait PolicyValue {
    /// The argument of the policy's method, or nothing if the method has none. `None` if the method is not called.
    fn argument(&self, private: &TokenStream) -> Option<TokenStream>;

    /// Whether the value is known before the function is called.
    fn is_fixed(&self) -> bool {
        true
    }
}

impl<T: PolicyValue> PolicyValue for Option<T> {
    fn argument(&self, private: &TokenStream) -> Option<TokenStream> {
        self.as_ref()?.argument(private)
    }

    fn is_fixed(&self) -> bool {
        self.as_ref().is_none_or(T::is_fixed)
    }
}

impl PolicyValue for Time {
    fn argument(&self, _: &TokenStream) -> Option<TokenStream> {
        Some(self.to_token_stream())
    }

    fn is_fixed(&self) -> bool {
        self.literal().is_some()
    }
}

impl PolicyValue for Permits {
    fn argument(&self, _: &TokenStream) -> Option<TokenStream> {
        Some(typed(&self.0, "primitive", "u32"))
    }

    fn is_fixed(&self) -> bool {
        literal(&self.0).is_some()
    }
}

impl PolicyValue for Renew {
    fn argument(&self, private: &TokenStream) -> Option<TokenStream> {
        Some(match self {
            Self::Yes => mixed!(#private::Renew::Yes),
            Self::No => mixed!(#private::Renew::No),
            Self::Cap(_, cap) => mixed!(#private::Renew::Cap(#cap)),
        })
    }

    fn is_fixed(&self) -> bool {
        match self {
            Self::Cap(_, cap) => cap.is_fixed(),
            Self::Yes | Self::No => true,
        }
    }
}

impl PolicyValue for (Span, OnCancel) {
    fn argument(&self, private: &TokenStream) -> Option<TokenStream> {
        match self.1 {
            OnCancel::Keep => Some(mixed!(#private::OnCancel::Keep)),
            OnCancel::Release => Some(mixed!(#private::OnCancel::Release)),
            OnCancel::Finish => None,
        }
    }
}

/// Types whose variants are those of the runtime's type of the same name.
macro_rules! variants {
    ($($type:ident)*) => {$(
        impl PolicyValue for $type {
            fn argument(&self, private: &TokenStream) -> Option<TokenStream> {
                let variant = format_ident!("{self:?}", span = Span::mixed_site());
                Some(mixed!(#private::$type::#variant))
            }
        }
    )*};
}

variants! { Release OnLeaseLost OnStoreError Settle }

/// Types of which the policy knows only that the option is written.
macro_rules! flags {
    ($($type:ident)*) => {$(
        impl PolicyValue for $type {
            fn argument(&self, _: &TokenStream) -> Option<TokenStream> {
                Some(TokenStream::new())
            }
        }
    )*};
}

flags! { Span Ident Key }

impl PolicyValue for Vec<Key> {
    fn argument(&self, private: &TokenStream) -> Option<TokenStream> {
        self.first()?.argument(private)
    }
}
