//! Durations: `"1h30m"` to milliseconds, or any expression of type `Duration`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit, LitStr, UnOp};

use crate::error::error;
use crate::span::{hidden, typed, ungrouped};

const UNITS: [(&str, u64); 5] = [
    ("d", 24 * 60 * 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
];
const LONGEST: u64 = 36_500 * UNITS[0].1;
const HELP: &str = "write whole numbers with a unit of `ms`, `s`, `m`, `h` or `d`, as in `ttl = \"30s\"` or `ttl = \"1h30m\"`";

/// Whether all that is wrong with `written` is its zeros.
fn is_zero(written: &str) -> bool {
    !written.contains(|c| ('1'..='9').contains(&c)) && millis(&written.replace('0', "1")).is_some()
}

/// The value of an option that is a duration.
pub enum Time {
    Literal(LitStr, u64),
    Expr(Box<Expr>),
}

impl Time {
    pub fn new(value: Expr) -> syn::Result<Self> {
        match ungrouped(&value) {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => {
                let written = text.value();
                match millis(&written) {
                    Some(millis) if millis <= LONGEST => Ok(Self::Literal(text.clone(), millis)),
                    Some(_) => {
                        let message = format_args!("`{written}` is too long for a duration");
                        let help = "write at most 100 years, `\"36500d\"`";
                        Err(error(text.span(), message, help))
                    }
                    None if is_zero(&written) => {
                        let message = format_args!("`{written}` is no time at all");
                        let help = "write a duration longer than zero, as in `ttl = \"30s\"`";
                        Err(error(text.span(), message, help))
                    }
                    None => {
                        let message = format_args!("`{written}` is not a duration");
                        Err(error(text.span(), message, HELP))
                    }
                }
            }
            expr if is_number(expr) => Err(error(expr.span(), "a duration needs a unit", HELP)),
            _ => Ok(Self::Expr(Box::new(value))),
        }
    }

    /// A literal and its milliseconds; those of an expression are known only when it runs.
    pub fn literal(&self) -> Option<(u64, String)> {
        match self {
            Self::Literal(text, millis) => Some((*millis, text.value())),
            Self::Expr(_) => None,
        }
    }
}

// Output: Duration::from_millis(5400000u64)
//         { let time: Duration = self.ttl(); time }        so that a wrong type is reported at the expression
impl ToTokens for Time {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::Literal(text, millis) => {
                quote_spanned!(hidden(text)=> ::core::time::Duration::from_millis(#millis))
            }
            Self::Expr(expr) => typed(expr, "time", "Duration"),
        });
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_number(&unary.expr),
        _ => false,
    }
}

/// Whole numbers with a unit each, the larger unit first; more than zero in all.
pub fn millis(text: &str) -> Option<u64> {
    let mut units = UNITS.as_slice();
    let mut rest = text;
    let mut sum = 0u64;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| !c.is_ascii_digit());
        let at = units.iter().position(|(name, _)| *name == unit)?;
        // A number too large for `u64` is too long in any unit, which is another mistake than a typing error.
        let number = match number {
            "" => return None,
            digits => digits.parse().unwrap_or(u64::MAX),
        };
        sum = sum.saturating_add(units[at].1.saturating_mul(number));
        units = &units[at + 1..];
        rest = after;
    }
    (sum > 0).then_some(sum)
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}
