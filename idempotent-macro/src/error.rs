//! Compile errors: each says what is wrong and what to write instead, and all are reported at once.

use std::fmt::{self, Display};

use proc_macro2::{Span, TokenStream};
use strsim::osa_distance;

/// An error: `message` is one clause with the mistake, `help` is a second line with what to write.
pub fn error(span: Span, message: impl Display, help: impl Display) -> syn::Error {
    syn::Error::new(span, format_args!("{message}\nhelp: {help}"))
}

/// The mistakes of one attribute, in the order in which they were found.
#[derive(Default)]
pub struct Errors(Option<syn::Error>);

impl Errors {
    pub fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Collects the error of `result`, or returns its value.
    pub fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn into_compile_error(self) -> Option<TokenStream> {
        self.0.map(|errors| errors.to_compile_error())
    }
}

/// Prints `` `a`, `b` and `c` ``.
pub struct List<'a>(pub &'a [&'a str], pub &'static str);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.0.iter().enumerate() {
            let joint = match self.0.len() - i {
                _ if i == 0 => "",
                1 => self.1,
                _ => ", ",
            };
            write!(f, "{joint}`{word}`")?;
        }
        Ok(())
    }
}

/// The candidate that `word` most resembles, if they differ only by a typing mistake.
pub fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .iter()
        .map(|candidate| (osa_distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
