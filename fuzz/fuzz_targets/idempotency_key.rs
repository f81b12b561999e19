//! Any header value as a key: every syntax reads it or refuses it, and they agree about the keys that they read.
#![no_main]
#![allow(
    unexpected_cfgs,
    reason = "the parser names a feature of its own crate"
)]

use key::text::{KeySyntax, read};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../idempotent-http/src/request/key"]
mod key {
    pub(crate) mod parameters;
    pub(crate) mod text;
}

fuzz_target!(|value: &[u8]| {
    let lenient = read(value, KeySyntax::Lenient);
    let strict = read(value, KeySyntax::Strict);
    let uuid = read(value, KeySyntax::Uuid);
    if let Ok(key) = &lenient {
        assert!((1..=255).contains(&key.len()), "{key:?}");
        assert!(key.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        let quoted = format!("\"{}\"", key.replace('\\', r"\\").replace('"', r#"\""#));
        assert_eq!(read(quoted.as_bytes(), KeySyntax::Strict).as_ref(), Ok(key));
    }
    if strict.is_ok() {
        assert_eq!(strict, lenient);
    }
    if let Ok(uuid) = uuid {
        assert!(lenient.is_ok_and(|key| key.eq_ignore_ascii_case(&uuid)));
    }
});
