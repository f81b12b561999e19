//! Values that are too large or too deep.

use std::cell::Cell;

use serde::ser::SerializeSeq as _;

use super::*;

/// A sequence of zeros that counts how many were read.
struct Zeros<'a> {
    length: usize,
    asked: &'a Cell<usize>,
    length_is_known: bool,
}

impl Serialize for Zeros<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let length = self.length_is_known.then_some(self.length);
        let mut zeros = serializer.serialize_seq(length)?;
        for _ in 0..self.length {
            self.asked.set(self.asked.get() + 1);
            zeros.serialize_element(&0)?;
        }
        zeros.end()
    }
}

#[test]
fn exactly_the_cap_fits_and_one_byte_more_does_not() {
    let mut random = StdRng::seed_from_u64(4);
    for codec in CODECS.iter().copied() {
        let value = Some(Sample::random(&mut random));
        let whole = encode(&value, codec, NO_CAP).unwrap();
        assert_eq!(encode(&value, codec, whole.bytes.len()), Ok(whole.clone()));
        for most in 0..whole.bytes.len() {
            assert_eq!(encode(&value, codec, most), Err(NotStored::TooLarge));
        }
        assert!(encode(&None::<u8>, codec, 0).is_ok());
        assert_eq!(encode(&(), codec, 0), Err(NotStored::TooLarge));
    }
    assert!(encode(&f64::NAN, Codec::Json, 16).is_ok());
    assert_eq!(encode(&f64::NAN, Codec::Json, 15), Err(NotStored::TooLarge));
}

#[test]
fn writing_stops_at_the_cap() {
    for codec in CODECS.iter().copied() {
        let asked = Cell::new(0);
        let zeros = Zeros {
            length: 1_000_000,
            asked: &asked,
            length_is_known: true,
        };
        assert_eq!(encode(&zeros, codec, 100), Err(NotStored::TooLarge));
        assert!(asked.get() <= 101, "{codec:?}: {}", asked.get());
    }
}

#[cfg(feature = "msgpack")]
#[test]
fn message_pack_buffers_a_sequence_of_unknown_length_before_it_measures_it() {
    let asked = Cell::new(0);
    let zeros = Zeros {
        length: 1000,
        asked: &asked,
        length_is_known: false,
    };
    assert_eq!(
        encode(&zeros, Codec::MessagePack, 100),
        Err(NotStored::TooLarge)
    );
    assert_eq!(asked.get(), 1000);
}

/// A type that continues after a field could not be written.
struct Careless;

impl Serialize for Careless {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(2))?;
        let _ = list.serialize_element("a text that is longer than the cap");
        let _ = list.serialize_element(&0);
        list.end()
    }
}

#[test]
fn a_value_that_exceeded_the_limit_on_the_way_is_not_stored() {
    for codec in CODECS.iter().copied() {
        assert_eq!(encode(&Careless, codec, 10), Err(NotStored::TooLarge));
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Nested(Vec<Nested>);

impl Nested {
    fn of(levels: u32) -> Self {
        Self((1..levels).fold(vec![], |inner, _| vec![Self(inner)]))
    }
}

impl Chain {
    fn of(levels: u32) -> Self {
        (0..levels).fold(Self::End, |chain, _| Self::Next(Box::new(chain)))
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Options(Option<Box<Options>>);

impl Options {
    fn of(levels: u32) -> Self {
        (0..levels).fold(Self(None), |inner, _| Self(Some(Box::new(inner))))
    }
}

#[test]
fn a_value_that_is_nested_too_deep_to_be_read_is_not_written() {
    comes_back(Nested::of(LEVELS));
    comes_back(Chain::of(LEVELS));
    comes_back(Options::of(LEVELS));
    for codec in CODECS.iter().copied() {
        is_not_written(&Nested::of(LEVELS + 1), codec);
        is_not_written(&Chain::of(LEVELS + 1), codec);
        is_not_written(&Options::of(LEVELS + 1), codec);
    }
}

#[test]
fn values_side_by_side_are_not_nested() {
    comes_back(vec![vec![Chain::Next(Box::new(Chain::End))]; 1000]);
}

/// A sequence in a sequence, this many times.
struct Deep(u32);

impl Serialize for Deep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.checked_sub(1) {
            Some(levels) => [Self(levels)].serialize(serializer),
            None => serializer.serialize_unit(),
        }
    }
}

#[test]
fn nesting_does_not_overflow_the_stack() {
    is_not_written(&Deep(1_000_000), Codec::Json);

    let deep = "[".repeat(100_000);
    assert!(decode::<Nested>(Form::Json, 0, deep.as_bytes()).is_err());
    let deep = r#"{"Next":"#.repeat(100_000);
    assert!(decode::<Chain>(Form::Json, 0, deep.as_bytes()).is_err());
    assert!(decode::<Options>(Form::None, u32::MAX, b"").is_err());
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Next(Option<Box<Next>>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Newtype(Box<Newtype>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Field {
    next: Next,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Variant {
    One(Next),
    Several(u8, Next),
    Named { next: Next },
}

/// Reads the bytes of a record on a thread with the default stack.
fn is_refused<T: DeserializeOwned + 'static>(form: Form, bytes: &[u8]) {
    for option_depth in [0, 1, LEVELS] {
        let bytes = bytes.to_vec();
        let reading = std::thread::Builder::new()
            .stack_size(2 * 1024 * 1024)
            .spawn(move || decode::<T>(form, option_depth, &bytes).is_err());
        let refused = reading
            .expect("the thread starts")
            .join()
            .expect("the thread does not panic");
        assert!(refused, "{}", std::any::type_name::<T>());
    }
}

#[test]
fn a_type_that_reads_itself_without_end_is_refused() {
    for value in ["1", "[]", "{}", r#""a""#, "true", "1.5"] {
        is_refused::<Next>(Form::Json, value.as_bytes());
        is_refused::<Newtype>(Form::Json, value.as_bytes());
        let within = |before: &str, after: &str| format!("{before}{value}{after}").into_bytes();
        is_refused::<Field>(Form::Json, &within(r#"{"next":"#, "}"));
        is_refused::<Vec<Next>>(Form::Json, &within("[", "]"));
        is_refused::<(u8, Next)>(Form::Json, &within("[1,", "]"));
        is_refused::<BTreeMap<String, Next>>(Form::Json, &within(r#"{"a":"#, "}"));
        is_refused::<Variant>(Form::Json, &within(r#"{"One":"#, "}"));
        is_refused::<Variant>(Form::Json, &within(r#"{"Several":[1,"#, "]}"));
        is_refused::<Variant>(Form::Json, &within(r#"{"Named":{"next":"#, "}}"));
    }
    is_refused::<Newtype>(Form::Bits, b"7ff0000000000000");
    is_refused::<Next>(Form::Bits, b"7ff0000000000000");
    is_refused::<Newtype>(Form::None, b"");
    assert_eq!(decode(Form::None, 0, b""), Ok(Next(None)));
}

#[cfg(feature = "msgpack")]
#[test]
fn a_type_that_reads_itself_without_end_in_message_pack_is_refused() {
    for value in [&b"\x01"[..], b"\x90", b"\x80", b"\xa1a", b"\xc3"] {
        is_refused::<Next>(Form::MessagePack, value);
        is_refused::<Newtype>(Form::MessagePack, value);
        let within = |before: &[u8]| [before, value].concat();
        is_refused::<Field>(Form::MessagePack, &within(b"\x81\xa4next"));
        is_refused::<Vec<Next>>(Form::MessagePack, &within(b"\x91"));
        is_refused::<(u8, Next)>(Form::MessagePack, &within(b"\x92\x01"));
        is_refused::<BTreeMap<String, Next>>(Form::MessagePack, &within(b"\x81\xa1a"));
        is_refused::<Variant>(Form::MessagePack, &within(b"\x81\xa3One"));
        is_refused::<Variant>(Form::MessagePack, &within(b"\x81\xa7Several\x92\x01"));
        is_refused::<Variant>(Form::MessagePack, &within(b"\x81\xa5Named\x81\xa4next"));
    }
}

/// Each level has a newtype and an option, at the greatest depth that a codec allows.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(Option<Box<Link>>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Link {
    next: Wrapped,
}

#[test]
fn options_and_newtypes_on_each_level_come_back() {
    let deepest = (0..LEVELS).fold(Wrapped(None), |next, _| {
        Wrapped(Some(Box::new(Link { next })))
    });
    comes_back(deepest);
}

#[cfg(feature = "msgpack")]
#[test]
fn nesting_in_message_pack_does_not_overflow_the_stack() {
    let deep = b"\x91".repeat(100_000);
    assert!(decode::<Nested>(Form::MessagePack, 0, &deep).is_err());
    let deep = [b"\x81\xa4Next".repeat(100_000), b"\xa3End".to_vec()].concat();
    assert!(decode::<Chain>(Form::MessagePack, 0, &deep).is_err());
}
