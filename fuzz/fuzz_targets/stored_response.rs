//! Any stored bytes as a response of HTTP: they are read or refused, and any response is read as it was written. hyper sends what
//! is read, and the bytes on the wire are compared. The first byte of the input chooses between arbitrary bytes, a damaged response,
//! a whole response and a forged header.
#![no_main]
#![allow(dead_code)]

use arbtest::arbitrary::Unstructured;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

#[path = "../../idempotent-http/src/body.rs"]
mod body;
#[path = "../../idempotent-http/src/response/stored/properties.rs"]
mod properties;
#[path = "../../idempotent-http/src/response"]
mod response {
    pub(crate) mod headers;
    pub(crate) mod stored;
}
#[path = "../../idempotent-http/src/response/stored/wire.rs"]
mod wire;

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    match first % 4 {
        0 => properties::check_bytes(&Bytes::copy_from_slice(bytes)),
        // Skip inputs with too few bytes.
        1 => drop(properties::check_damage(&mut Unstructured::new(
            bytes,
        ))),
        3 => drop(properties::check_forged(&mut Unstructured::new(
            bytes,
        ))),
        _ => drop(properties::check_response(&mut Unstructured::new(
            bytes,
        ))),
    }
});
