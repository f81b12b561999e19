//! Durations: `"1h30m"` to milliseconds, or any expression of type `Duration`.

use proc_macro2::{Ident, TokenStream};
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
const HELP: &str = "the units are `ms`, `s`, `m`, `h` and `d`";

/// The value of an option that is a duration.
pub enum Time {
    Literal(LitStr, u64),
    Expr(Box<Expr>),
}

impl Time {
    pub fn new(option: &Ident, value: Expr) -> syn::Result<Self> {
        match ungrouped(&value) {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => match millis(&text.value()) {
                Some(millis) if millis <= LONGEST => Ok(Self::Literal(text.clone(), millis)),
                millis => Err(not_a_time(option, text, millis)),
            },
            expr if is_number(expr) => {
                let written = expr.to_token_stream().to_string();
                let message = format_args!("`{option} = {written}` has no unit");
                Err(error(expr.span(), message, with_unit(option, &written)))
            }
            Expr::Lit(literal) => {
                let written = literal.to_token_stream();
                let message = format_args!("`{option}` must be a duration, not `{written}`");
                Err(error(literal.span(), message, with_unit(option, "")))
            }
            _ => Ok(Self::Expr(Box::new(value))),
        }
    }

    /// The milliseconds of a literal, and its text. `None` for an expression: the program evaluates it.
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

/// The error of a text that is not a duration between one millisecond and the longest.
fn not_a_time(option: &Ident, text: &LitStr, millis: Option<u64>) -> syn::Error {
    let (written, span) = (text.value(), text.span());
    if millis.is_some() {
        let message = format_args!("`{option} = \"{written}\"` is too long");
        let help = format_args!("write at most 100 years: `{option} = \"36500d\"`");
        return error(span, message, help);
    }
    if is_zero(&written) {
        let message = format_args!("`{option} = \"{written}\"` is zero");
        let without = match &*option.to_string() {
            "wait" | "at_least" => format!("leave `{option}` out, or "),
            "renew" => "write `renew = false`, or ".to_owned(),
            _ => String::new(),
        };
        let help =
            format_args!("{without}write a duration longer than zero, as in `{option} = \"30s\"`");
        return error(span, message, help);
    }
    if !written.is_empty() && written.chars().all(|c| c.is_ascii_digit()) {
        let message = format_args!("`{option} = \"{written}\"` has no unit");
        return error(span, message, with_unit(option, &written));
    }
    let message = format_args!("`{option} = \"{written}\"` is not a duration");
    let help = format_args!(
        "write whole numbers with units, the largest first, as in `{option} = \"30s\"` or `{option} = \"1h30m\"`; {HELP}"
    );
    error(span, message, help)
}

/// Proposes seconds for `number`, which has no unit.
fn with_unit(option: &Ident, number: &str) -> String {
    let seconds = match number.parse() {
        Ok(1..=u32::MAX) => number,
        _ => "30",
    };
    format!("write `{option} = \"{seconds}s\"` if you mean seconds; {HELP}")
}

/// Whether `written` would be a duration if it were not zero.
fn is_zero(written: &str) -> bool {
    !written.contains(|c| ('1'..='9').contains(&c)) && millis(&written.replace('0', "1")).is_some()
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_number(&unary.expr),
        _ => false,
    }
}

/// The milliseconds of whole numbers, each with a unit, the largest unit first. `None` for zero.
pub fn millis(text: &str) -> Option<u64> {
    let mut units = UNITS.as_slice();
    let mut rest = text;
    let mut sum = 0u64;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| !c.is_ascii_digit());
        let at = units.iter().position(|(name, _)| *name == unit)?;
        // A number that does not fit `u64` is reported as too long, not as a typing error.
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
