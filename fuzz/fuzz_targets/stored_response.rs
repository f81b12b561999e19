//! Any stored bytes as a response of HTTP: they are read or refused, and any response is read as it was written. hyper sends what
//! is read, and the bytes on the wire are compared. The first byte of the input chooses between arbitrary bytes, a damaged response,
//! a whole response and a forged header.
#![no_main]
#![allow(dead_code)]

use arbtest::arbitrary::Unstructured;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

#[path = "../../idempotent-runtime/src/http"]
mod http {
    pub(crate) mod body;
    pub(crate) mod headers;
    pub(crate) mod stored;

    #[path = "stored/properties.rs"]
    pub(crate) mod properties;

    #[path = "stored/wire.rs"]
    pub(crate) mod wire;
}

#[path = "../../idempotent-runtime/src/record"]
mod record {
    pub(crate) mod form;
    pub(crate) mod kept;
}

/// What the sources of HTTP use of the runtime.
mod port {
    pub(crate) mod http {
        pub(crate) use crate::record::form::Form;
        pub(crate) use crate::record::kept::Stored;
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    match first % 4 {
        0 => http::properties::check_bytes(&Bytes::copy_from_slice(bytes)),
        // Skip inputs with too few bytes.
        1 => drop(http::properties::check_damage(&mut Unstructured::new(
            bytes,
        ))),
        3 => drop(http::properties::check_forged(&mut Unstructured::new(
            bytes,
        ))),
        _ => drop(http::properties::check_response(&mut Unstructured::new(
            bytes,
        ))),
    }
});
