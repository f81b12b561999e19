//! Any body as JSON: another parser reads what this one reads, and the canonical text is its own canonical text. The first byte
//! of the input chooses between arbitrary bytes and two written values.
#![no_main]

use arbtest::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use payload::{canonical, json};
use serde::de::IgnoredAny;
use value::Value;

#[allow(dead_code)]
#[path = "../../idempotent-http/src/request/payload"]
mod payload {
    pub(crate) mod canonical;
    pub(crate) mod json;
}

#[path = "../../idempotent-http/src/request/payload/properties/value.rs"]
mod value;

fn canonical_text(body: &[u8]) -> Option<String> {
    let value = json::parse(body).ok()?;
    let mut text = String::new();
    canonical::write(&value, &mut text).ok()?;
    Some(text)
}

fn read(body: &[u8]) {
    if let Some(text) = canonical_text(body) {
        let body = std::str::from_utf8(body).expect("JSON is UTF-8");
        serde_json::from_str::<IgnoredAny>(body).expect("the other parser reads it");
        assert_eq!(canonical_text(text.as_bytes()), Some(text));
    }
}

fn compare(u: &mut Unstructured<'_>) -> Result<()> {
    let one = Value::any(u, 4)?;
    let other = if u.arbitrary()? {
        one.clone()
    } else {
        one.almost(u)?
    };
    let mut texts = [String::new(), String::new()];
    one.write(u, &mut texts[0])?;
    other.write(u, &mut texts[1])?;
    let [first, second] = texts.each_ref().map(|text| canonical_text(text.as_bytes()));
    assert!(first.is_some() && second.is_some(), "{texts:?}");
    assert_eq!(first == second, one == other, "{texts:?}");
    Ok(())
}

fuzz_target!(|input: &[u8]| match input {
    [] => {}
    [first, body @ ..] if first % 2 == 0 => read(body),
    // Skip inputs with too few bytes.
    [_, bytes @ ..] => drop(compare(&mut Unstructured::new(bytes))),
});
