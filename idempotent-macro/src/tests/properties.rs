//! Any options and any item give tokens for rustc, or an error for a person.

use std::env;

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use proc_macro2::TokenStream;
use syn::{Item, parse2};

use crate::duration::{Time, millis};
use crate::expand::expand;
use crate::options::NAMES;

/// Tests `property` on a fifth of the cases of `IDEMPOTENCE_CASES`. The cases are the same in every run.
fn cases(bytes: u32, mut property: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    let count = env::var("IDEMPOTENCE_CASES");
    let count: u32 = count.map_or(10_000, |count| {
        count.parse().expect("`IDEMPOTENCE_CASES` is a number")
    });
    for case in 1..=count / 5 {
        // The lower half of a seed is the number of bytes. The upper half must not be zero.
        let size = 16 + (u64::from(case).wrapping_mul(0x9e37_79b9) >> 7) % u64::from(bytes);
        arbtest(|bytes| {
            let _ = property(bytes);
            Ok(())
        })
        .seed(u64::from(case) << 32 | size)
        .run();
    }
}

const FUNCTIONS: [&str; 9] = [
    "async fn pay(id: u64, user_id: String) -> R { body }",
    "async fn pay(&self, id: &u64) -> R { body }",
    "async fn pay<'a, T: Into<u64>>(self: Arc<Self>, (id, _): (u64, T)) -> Result<T, E> where T: 'a {}",
    "fn pay(id: u64) -> impl Future<Output = R> + Send { async move { id } }",
    "fn pay(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> { Box::pin(async move { id }) }",
    "fn pay(id: u64) -> R { id }",
    "async fn pay(id: u64)",
    "pub(crate) async unsafe fn pay([id, ..]: [u64; 2], _: u8) {}",
    "#[cfg(x)] #[doc = \"y\"] async fn r#async(r#type: u64, mut id: u64) -> R { #![allow(x)] id }",
];

const VALUES: [&str; 46] = [
    "\"id\"",
    "\"id, user_id\"",
    "id",
    "(id, user_id)",
    "()",
    "(id,)",
    "\"id.0.a\"",
    "\"\"",
    "\"id..\"",
    "\"(\"",
    "\"self.a\"",
    "self",
    "&id",
    "id as u8",
    "-id",
    "id[0]",
    "id.a().b",
    "true",
    "false",
    "\"30s\"",
    "\"1h30m\"",
    "\"0s\"",
    "\"99999999999999999999d\"",
    "\"é\"",
    "30",
    "-1.5",
    "\"on_error\"",
    "\"keep\"",
    "\"finish\"",
    "\"release\"",
    "\"stop\"",
    "\"run\"",
    "\"orders.pay\"",
    "\"{}\"",
    "\"\\0\"",
    "::idempotence",
    "<T as U>::V",
    "|a, b| c",
    "Duration::ZERO",
    "b\"x\"",
    "c\"x\"",
    "'x'",
    "0x_f_u8",
    "r#type",
    "{ let x = 1; x }",
    "async move {}",
];

const OTHERS: [&str; 25] = [
    "kye = ", "=", ",", ", ", ";", "::", ".", "..", "#", "!", "?", "'a", "$", "(", ")", "[", "]",
    "{", "}", "<", ">", "|", "é", "\u{0}", "fn",
];

/// Options without a mistake.
const GOOD: [&str; 20] = [
    "release = true, ",
    "release = false, ",
    "release = \"on_error\", ",
    "name = \"orders.pay\", ",
    "payload = id, ",
    "replay = true, ",
    "wait = \"2s\", ",
    "lease = \"10s\", ",
    "renew = \"1h\", ",
    "renew = false, ",
    "on_cancel = \"keep\", ",
    "on_cancel = \"finish\", ",
    "on_lease_lost = \"continue\", ",
    "on_duplicate = |_| Ok(id), ",
    "error = E::from, ",
    "success = |r| r.is_ok(), ",
    "token = (id, user_id), operation = \"orders.submit\", ",
    "name = \"orders.pay\", token = \"id, user_id\", give_back = true, ",
    "using = self.handle, ",
    "crate = ::shop::idempotence, ",
];

fn options(u: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    if u.ratio(3, 4)? {
        text.push_str("key = id, ttl = \"1h\", ");
        for _ in 0..u.int_in_range(0..=3)? {
            text.push_str(u.choose(&GOOD)?);
        }
        if u.arbitrary()? {
            return Ok(text);
        }
    }
    for _ in 0..u.int_in_range(0..=8)? {
        if u.ratio(1, 12)? {
            text.push_str(u.choose(&OTHERS)?);
            continue;
        }
        text.push_str(u.choose(NAMES)?);
        text.push_str(if u.ratio(1, 20)? { " " } else { " = " });
        text.push_str(u.choose(&VALUES)?);
        text.push_str(if u.ratio(1, 20)? { " " } else { ", " });
    }
    Ok(text)
}

/// Any tokens in any order.
fn garbage(u: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    for _ in 0..u.int_in_range(0..=20)? {
        text.push_str(match u.int_in_range(0..=5)? {
            0 => u.choose(NAMES)?,
            1 => u.choose(&VALUES)?,
            2 => u.choose(&FUNCTIONS)?,
            3 => u.arbitrary()?,
            _ => u.choose(&OTHERS)?,
        });
        text.push(' ');
    }
    Ok(text)
}

#[test]
fn any_options_on_a_function_give_the_function_and_sometimes_errors() {
    let (mut fine, mut wrong) = (0, 0);
    cases(200, |u| {
        let text = options(u)?;
        let function = *u.choose(&FUNCTIONS)?;
        // rustc itself reports a text that is not tokens.
        let (Ok(options), Ok(item)) = (text.parse::<TokenStream>(), function.parse()) else {
            return Ok(());
        };
        let expanded = expand(options, &item);
        let has_errors = expanded.to_string().contains("compile_error");
        if has_errors {
            wrong += 1;
        } else {
            let item = parse2::<Item>(expanded);
            assert!(matches!(item, Ok(Item::Fn(_))), "{text}\n{function}");
            fine += 1;
        }
        Ok(())
    });
    assert!(fine > 100 && wrong > 500, "{fine} {wrong}");
}

#[test]
fn any_tokens_give_tokens() {
    let mut tokens = 0;
    cases(500, |u| {
        let (options, item) = (garbage(u)?, garbage(u)?);
        if let (Ok(options), Ok(item)) = (options.parse::<TokenStream>(), item.parse()) {
            assert!(!expand(options, &item).is_empty());
            tokens += 1;
        }
        Ok(())
    });
    assert!(tokens > 50, "{tokens}");
}

#[test]
fn any_text_is_a_duration_or_none() {
    cases(100, |u| {
        let mut text = String::new();
        for _ in 0..u.int_in_range(0..=8)? {
            let pieces = [
                "1",
                "0",
                "30",
                "99999999999999999999",
                "ms",
                "s",
                "m",
                "h",
                "d",
                " ",
                "-",
                "é",
                "\0",
            ];
            text.push_str(u.choose(&pieces)?);
        }
        let read = millis(&text);
        assert!(read.is_none_or(|millis| millis > 0), "{text:?}");
        let literal = syn::LitStr::new(&text, proc_macro2::Span::call_site());
        let time = Time::new(&syn::parse_quote!(ttl), syn::parse_quote!(#literal));
        assert!(time.is_err() || read.is_some(), "{text:?}");
        Ok(())
    });
}
