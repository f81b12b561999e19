//! Damaged encodings.

use super::*;

#[test]
fn bytes_after_the_value_are_an_error() {
    fn with_more<T: Serialize + DeserializeOwned>(value: &T, codec: Codec) -> bool {
        let encoded = encode(value, codec, NO_CAP).unwrap();
        let bytes = [&encoded.bytes[..], b"{}"].concat();
        decode::<T>(encoded.form, encoded.option_depth, &bytes).is_ok()
    }
    for codec in CODECS.iter().copied() {
        assert!(!with_more(&7_u8, codec), "{codec:?}");
        assert!(!with_more(&Some(Some(7_u8)), codec), "{codec:?}");
        assert!(!with_more(&Value::Null, codec), "{codec:?}");
        assert!(!with_more(&None::<u8>, codec), "{codec:?}");
        assert!(!with_more(&f32::NAN, codec), "{codec:?}");
    }
    assert!(decode::<f32>(Form::Bits, 0, b"7fc0000000").is_err());
}

#[test]
fn bytes_that_are_no_text_are_an_error_also_in_a_field_that_is_not_read() {
    for bytes in [&b"\"\xff\""[..], b"{\"other\":\"\xc3\x28\"}", b"[\xf5]"] {
        let read = decode::<serde::de::IgnoredAny>(Form::Json, 0, bytes);
        assert!(read.is_err(), "{bytes:?}");
    }
}

#[test]
fn an_error_about_another_type_does_not_quote_the_value() {
    for codec in CODECS.iter().copied() {
        let Encoded {
            form,
            option_depth,
            bytes,
        } = encode(&"secret", codec, NO_CAP).unwrap();
        let error = decode::<u8>(form, option_depth, &bytes).unwrap_err();
        assert!(!format!("{} {error:?}", error.why()).contains("secret"));
    }
}

#[cfg(not(feature = "msgpack"))]
#[test]
fn message_pack_says_that_the_feature_is_missing() {
    let error = decode::<u8>(Form::MessagePack, 0, &[7]).unwrap_err();
    assert_eq!(error, Undecodable::MessagePack);
    assert!(error.why().contains("`msgpack`"));
}

fn decode_as_everything(form: Form, option_depth: u32, bytes: &[u8]) {
    let _ = decode::<()>(form, option_depth, bytes);
    let _ = decode::<u8>(form, option_depth, bytes);
    let _ = decode::<i128>(form, option_depth, bytes);
    let _ = decode::<f32>(form, option_depth, bytes);
    let _ = decode::<Option<f64>>(form, option_depth, bytes);
    let _ = decode::<char>(form, option_depth, bytes);
    let _ = decode::<String>(form, option_depth, bytes);
    let _ = decode::<CString>(form, option_depth, bytes);
    let _ = decode::<Unit>(form, option_depth, bytes);
    let _ = decode::<Value>(form, option_depth, bytes);
    let _ = decode::<Sample>(form, option_depth, bytes);
    let _ = decode::<Plain>(form, option_depth, bytes);
    let _ = decode::<Untagged>(form, option_depth, bytes);
    let _ = decode::<Internal<u8>>(form, option_depth, bytes);
    let _ = decode::<Flat<Value>>(form, option_depth, bytes);
    let _ = decode::<Vec<HashMap<String, Option<()>>>>(form, option_depth, bytes);
    let _ = decode::<Chain>(form, option_depth, bytes);
}

#[test]
fn garbage_does_not_panic() {
    let mut random = StdRng::seed_from_u64(5);
    for _ in 0..3000 {
        let mut bytes = vec![0; random.random_range(0..40)];
        random.fill_bytes(&mut bytes);
        let option_depth = random.random_range(0..3);
        for form in [Form::Json, Form::MessagePack, Form::Bits, Form::None] {
            decode_as_everything(form, option_depth, &bytes);
        }
    }
}

#[test]
fn broken_encodings_do_not_panic() {
    let mut random = StdRng::seed_from_u64(6);
    for codec in CODECS.iter().copied() {
        for _ in 0..50 {
            let sample = Sample::random(&mut random);
            let encoded = encode(&sample, codec, NO_CAP).unwrap();
            for _ in 0..20 {
                let mut bytes = encoded.bytes.clone();
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
                decode_as_everything(encoded.form, 0, &bytes);
            }
        }
    }
}

#[test]
fn truncated_encodings_are_errors() {
    let mut random = StdRng::seed_from_u64(7);
    for codec in CODECS.iter().copied() {
        for _ in 0..5 {
            let sample = Sample::random(&mut random);
            let encoded = encode(&sample, codec, NO_CAP).unwrap();
            for end in 0..encoded.bytes.len() {
                let bytes = &encoded.bytes[..end];
                assert!(decode::<Sample>(encoded.form, 0, bytes).is_err());
                decode_as_everything(encoded.form, 0, bytes);
            }
        }
    }
    for digits in [
        "",
        "7",
        "7f80000",
        "7f8000000",
        "7ff00000000000000",
        "7FF00000",
    ] {
        assert!(decode::<f64>(Form::Bits, 0, digits.as_bytes()).is_err());
    }
}
