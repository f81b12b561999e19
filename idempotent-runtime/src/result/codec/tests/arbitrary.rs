//! Arbitrary bytes instead of an encoded value.

use arbtest::arbitrary::{Result, Unstructured};

use super::*;
use crate::cases::cases;

#[derive(Debug, Serialize, Deserialize)]
enum Kind {
    Unit,
    Newtype(Box<Option<Kind>>),
    Tuple(u8, f32),
    Struct { list: Vec<Kind>, text: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(f64),
    Text(Option<String>),
    Deep(HashMap<String, Untagged>),
}

/// Pieces of JSON and `MessagePack`, right and wrong.
fn bytes(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const WORDS: [&[u8]; 20] = [
        b"[",
        b"]",
        b"{",
        b"}",
        b"\"",
        b":",
        b",",
        b"null",
        b"1",
        b"-1e999",
        b"\"Unit\"",
        b"\\u",
        b"\x93",
        b"\x82",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xa4Unit",
        b"\xc0",
        b"\xc9\x7f\xff\xff\xff\x00",
        b"7ff0000000000000",
    ];
    if u.arbitrary()? {
        return u.arbitrary();
    }
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(0..=12)? {
        bytes.extend_from_slice(u.choose(&WORDS)?);
    }
    Ok(bytes)
}

#[test]
fn any_bytes_are_read_or_refused() {
    let mut reads = 0;
    cases(200, |u| {
        let form = *u.choose(&[Form::Json, Form::MessagePack, Form::Bits, Form::None])?;
        let option_depth = *u.choose(&[0, 1, 2, 127, 128, u32::MAX])?;
        let bytes = bytes(u)?;
        fn read<T: DeserializeOwned>(form: Form, option_depth: u32, bytes: &[u8]) -> usize {
            usize::from(decode::<T>(form, option_depth, bytes).is_ok())
        }
        reads += read::<()>(form, option_depth, &bytes)
            + read::<u64>(form, option_depth, &bytes)
            + read::<i128>(form, option_depth, &bytes)
            + read::<f32>(form, option_depth, &bytes)
            + read::<String>(form, option_depth, &bytes)
            + read::<Option<Option<f64>>>(form, option_depth, &bytes)
            + read::<Vec<(Option<u8>, char)>>(form, option_depth, &bytes)
            + read::<BTreeMap<i8, Vec<u8>>>(form, option_depth, &bytes)
            + read::<Value>(form, option_depth, &bytes)
            + read::<Kind>(form, option_depth, &bytes)
            + read::<Untagged>(form, option_depth, &bytes);
        Ok(())
    });
    assert!(reads > 1000, "{reads}");
}

#[test]
fn a_value_that_was_read_is_written_as_the_same_bytes() {
    cases(200, |u| {
        let bytes = bytes(u)?;
        for codec in CODECS {
            let form = match codec {
                Codec::Json => Form::Json,
                #[cfg(feature = "msgpack")]
                Codec::MessagePack => Form::MessagePack,
            };
            if let Ok(value) = decode::<Option<Option<String>>>(form, 0, &bytes) {
                assert_eq!(back(&value, *codec), Ok(value));
            }
        }
        Ok(())
    });
}
