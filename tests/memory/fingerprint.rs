//! The encoding follows `docs/guide/fingerprint.md`. The test vectors are read from `docs/fingerprint-vectors.md`.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

use idempotent_runtime::fingerprint::{
    Digest, Fingerprint, Hasher, Keying, Parts, UnencodablePart,
};
use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeTuple, SerializeTupleVariant, Serializer,
};

const PAGE: &str = include_str!("../../docs/guide/fingerprint.md");
const VECTORS: &str = include_str!("../../docs/fingerprint-vectors.md");

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct Id(u64);

#[derive(Serialize)]
struct Pair(u64, u64);

#[derive(Serialize)]
struct Point {
    x: i32,
    y: i32,
}

#[derive(Serialize)]
struct Longer {
    aa: i32,
    b: i32,
}

#[derive(Serialize)]
enum Shape {
    Empty,
    Circle(u32),
    Line(u32, u32),
    Rect { w: u32, h: u32 },
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

type AddParts = Box<dyn Fn(&mut Hasher) -> Result<(), UnencodablePart>>;

/// The source text of the parts, and a function that adds the parts to a hasher.
macro_rules! vectors {
    ($(($($part:expr),*),)*) => {
        vec![$((
            stringify!($($part),*).replace(char::is_whitespace, ""),
            Box::new(|hasher: &mut Hasher| ($($part,)*).add_to(hasher)) as AddParts,
        )),*]
    };
}

fn vectors() -> Vec<(String, AddParts)> {
    vectors![
        (),
        (()),
        (Unit),
        (true),
        (false),
        (None::<u64>),
        (Some(42)),
        (Some(None::<u64>)),
        (Some(())),
        (0),
        (5_u8),
        (5_i64),
        (42),
        (-1),
        (-128_i8),
        (255_u8),
        (256),
        (9_007_199_254_740_992_u64),
        (9_007_199_254_740_993_u64),
        (u64::MAX),
        (i64::MIN),
        (u128::MAX),
        (i128::MIN),
        (42.0),
        (0.0),
        (-0.0),
        (0.1),
        (0.1_f32),
        (0.5_f32),
        (f64::NAN),
        (-f32::NAN),
        (f64::NEG_INFINITY),
        (""),
        ("42"),
        ("true"),
        ('é'),
        ("é"),
        ("e\u{301}"),
        ("x".repeat(256)),
        (Bytes(b"42")),
        (*b"42"),
        ("a", "b:c"),
        ("a:b", "c"),
        (42, "9e107d9d372bb6826bd81d3542a419d6"),
        (("a", "b")),
        (vec!["a", "b"]),
        ("a", ("b",)),
        ([0_u8; 0]),
        ([(), ()]),
        (Id(7)),
        (Pair(1, 2)),
        (Point { x: 1, y: -2 }),
        (BTreeMap::from([("y", -2), ("x", 1)])),
        (Longer { aa: 1, b: 2 }),
        (BTreeMap::<u8, u8>::new()),
        (BTreeMap::from([(256, "b"), (-1, "a"), (2, "c")])),
        (BTreeMap::from([((1, 2), Id(3))])),
        (Shape::Empty),
        ("Empty"),
        (Shape::Circle(5)),
        (Shape::Line(1, 2)),
        (Shape::Rect { w: 1, h: 2 }),
        (Ok::<u8, u8>(1)),
        (Duration::from_millis(1500)),
        (Ipv4Addr::LOCALHOST),
    ]
}

/// Returns the rows of the table on the page that has this head, without whitespace.
fn table<const N: usize>(head: [&str; N]) -> Vec<[String; N]> {
    let cells = |line: &str| -> Option<[String; N]> {
        let line = line.strip_prefix('|')?.strip_suffix('|')?;
        let cells: Vec<_> = line
            .split('|')
            .map(|cell| cell.replace([' ', '`'], ""))
            .collect();
        cells.try_into().ok()
    };
    VECTORS
        .lines()
        .skip_while(|line| cells(line).is_none_or(|cells| cells != head))
        .skip(2)
        .map_while(cells)
        .collect()
}

fn fingerprint(keying: &Keying, add_parts: &AddParts) -> Fingerprint {
    let mut hasher = keying.hasher();
    add_parts(&mut hasher).expect("every vector can be encoded");
    hasher.finish()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

#[test]
fn encodes_as_the_page_says() {
    let rows = table(["parts", "bytes", "MD5"]);
    let vectors = vectors();
    let labels = |row: &[String; 3]| row[0].clone();
    assert_eq!(
        rows.iter().map(labels).collect::<Vec<_>>(),
        vectors
            .iter()
            .map(|(label, _)| label.clone())
            .collect::<Vec<_>>(),
    );
    for ([label, encoding, md5], (_, add_parts)) in rows.iter().zip(&vectors) {
        let found = fingerprint(&Keying::new(Digest::Md5), add_parts);
        assert_eq!(&found.to_string(), md5, "the fingerprint of {label}");
        let digest = <md5::Md5 as md5::Digest>::digest(bytes(encoding));
        assert_eq!(found.as_bytes(), &digest[..], "the encoding of {label}");
    }
}

#[test]
fn digests_as_the_page_says() {
    let vectors: HashMap<_, _> = vectors().into_iter().collect();
    let rows = table(["parts", "digest", "fingerprint"]);
    assert_eq!(rows.len(), 15);
    for [label, digest, expected] in rows {
        let keying = match &*digest {
            "SHA-256" => Keying::new(Digest::Sha256),
            "HMAC-MD5" => Keying::with_secret(Digest::Md5, b"secret"),
            "HMAC-SHA-256" => Keying::with_secret(Digest::Sha256, b"secret"),
            _ => panic!("the page names an unknown digest, {digest}"),
        };
        let found = fingerprint(&keying, &vectors[&label]);
        assert_eq!(found.to_string(), expected, "{digest} of {label}");
    }
}

#[test]
fn the_example_of_the_page_is_right() -> Result<(), UnencodablePart> {
    let found = Fingerprint::of(&(42, "9e107d9d372bb6826bd81d3542a419d6"))?;
    assert!(PAGE.contains(&format!("The MD5 of these 41 bytes is `{found}`.")));
    Ok(())
}

#[test]
fn a_tuple_of_parts_equals_its_parts_in_order() -> Result<(), UnencodablePart> {
    let mut hasher = Keying::new(Digest::default()).hasher();
    hasher.part("a")?;
    hasher.part(&[1, 2][..])?;
    assert_eq!(hasher.finish(), Fingerprint::of(&("a", vec![1, 2]))?);
    assert_ne!(Fingerprint::of(&((),))?, Fingerprint::of(&())?);
    Ok(())
}

#[test]
fn a_fingerprint_is_written_in_full_or_shortened() -> Result<(), UnencodablePart> {
    let found = Fingerprint::of(&(42, "9e107d9d372bb6826bd81d3542a419d6"))?;
    let mut text = String::from("idem:");
    found.push_hex(&mut text);
    assert_eq!(text, format!("idem:{found}"));
    assert_eq!(format!("{found:?}"), "2240b97d…");
    assert_eq!(found.short(), [0x22, 0x40, 0xb9, 0x7d]);
    Ok(())
}

#[test]
fn debug_shows_neither_secret_nor_parts() -> Result<(), UnencodablePart> {
    let keying = Keying::with_secret(Digest::Sha256, b"secret");
    assert_eq!(format!("{keying:?}"), "Keying(Sha256 with a secret)");
    let mut hasher = keying.hasher();
    hasher.part("private")?;
    assert_eq!(format!("{hasher:?}"), "Hasher { .. }");
    Ok(())
}

struct Unserializable;

impl Serialize for Unserializable {
    fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("private"))
    }
}

/// Ignores the error of an element and continues.
struct Careless;

impl Serialize for Careless {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        let _ = sequence.serialize_element(&Unserializable);
        sequence.end()
    }
}

#[test]
fn an_error_does_not_show_the_value() {
    let error = Fingerprint::of(&(1, Unserializable)).expect_err("the part cannot be serialized");
    assert_eq!(error.to_string(), "a key part could not be serialized");
    assert_eq!(format!("{error:?}"), "UnencodablePart");
}

#[test]
fn an_ignored_error_still_fails_the_key() {
    assert!(Fingerprint::of(&(Careless,)).is_err());

    let mut hasher = Keying::new(Digest::Md5).hasher();
    assert!(hasher.part(&Unserializable).is_err());
    assert!(hasher.part(&1).is_err());
}

/// A value inside this many levels of `Some`.
struct Deep(usize);

impl Serialize for Deep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => serializer.serialize_unit(),
            levels => serializer.serialize_some(&Self(levels - 1)),
        }
    }
}

#[test]
fn depth_is_limited() {
    assert!(Fingerprint::of(&(Deep(128), Deep(128))).is_ok());
    assert!(Fingerprint::of(&(Deep(129),)).is_err());
    assert!(Fingerprint::of(&(Deep(10_000_000),)).is_err());
}

/// The values that the encoding distinguishes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Unit,
    Bool(bool),
    Positive(u128),
    Negative(i128),
    Float(u64),
    Text(String),
    Bytes(Vec<u8>),
    None,
    Some(Box<Value>),
    Sequence(Vec<Value>),
    Map(BTreeMap<Value, Value>),
    Variant(&'static str, Box<Value>),
}

/// A value and one of two ways to serialize it.
struct Serialized<'a>(&'a Value, bool);

impl Serialize for Serialized<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.1 {
            self.plain(serializer)
        } else {
            self.odd(serializer)
        }
    }
}

impl<'a> Serialized<'a> {
    fn same(&self, value: &'a Value) -> Self {
        Serialized(value, self.1)
    }

    fn plain<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Unit => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Positive(value) => serializer.serialize_u128(*value),
            Value::Negative(value) => serializer.serialize_i128(*value),
            Value::Float(bits) => serializer.serialize_f64(f64::from_bits(*bits)),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::None => serializer.serialize_none(),
            Value::Some(value) => serializer.serialize_some(&self.same(value)),
            Value::Sequence(values) => {
                let mut sequence = serializer.serialize_seq(None)?;
                for value in values {
                    sequence.serialize_element(&self.same(value))?;
                }
                sequence.end()
            }
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&self.same(key), &self.same(value))?;
                }
                map.end()
            }
            Value::Variant(name, value) => {
                serializer.serialize_newtype_variant("Plain", 1, name, &self.same(value))
            }
        }
    }

    /// Serializes with other types, in another order, and with more wrappers.
    fn odd<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Unit => serializer.serialize_unit_struct("Odd"),
            Value::Positive(value) => match (u8::try_from(*value), i64::try_from(*value)) {
                (Ok(small), _) => serializer.serialize_u8(small),
                (_, Ok(value)) => serializer.serialize_i64(value),
                _ => serializer.serialize_u128(*value),
            },
            Value::Negative(value) => match i32::try_from(*value) {
                Ok(value) => serializer.serialize_i32(value),
                _ => serializer.serialize_i128(*value),
            },
            Value::Float(0) => serializer.serialize_f32(-0.0),
            Value::Float(bits) if f64::from_bits(*bits).is_nan() => {
                serializer.serialize_f64(f64::from_bits(0xfff8_0000_dead_beef))
            }
            Value::Text(text) => match text.chars().next() {
                Some(only) if text.len() == only.len_utf8() => serializer.serialize_char(only),
                _ => serializer.collect_str(text),
            },
            Value::Sequence(values) => {
                let mut tuple = serializer.serialize_tuple(values.len())?;
                for value in values {
                    tuple.serialize_element(&self.same(value))?;
                }
                tuple.end()
            }
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in entries.iter().rev() {
                    map.serialize_entry(&self.same(key), &self.same(value))?;
                }
                map.end()
            }
            Value::Variant(name, value) => match &**value {
                Value::Unit => serializer.serialize_unit_variant("Odd", 7, name),
                Value::Sequence(values) => {
                    let mut tuple =
                        serializer.serialize_tuple_variant("Odd", 7, name, values.len())?;
                    for value in values {
                        tuple.serialize_field(&self.same(value))?;
                    }
                    tuple.end()
                }
                value => serializer.serialize_newtype_variant("Odd", 7, name, &self.same(value)),
            },
            value => serializer.serialize_newtype_struct("Odd", &Serialized(value, true)),
        }
    }
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).expect("31 bits") % end
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    /// Bytes that have a meaning in the encoding, or digits.
    fn bytes(&mut self) -> Vec<u8> {
        let length = self.pick(&[0, 1, 1, 2, 3, 5]);
        (0..length)
            .map(|_| self.pick(b"\0\x01\x02[{\"+-?@n_tfb.0149"))
            .collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 9 } else { 13 }) {
            0 => self
                .pick(&[true, false].map(Value::Bool).each_ref())
                .clone(),
            1 => self.pick(&[&Value::Unit, &Value::None]).clone(),
            2 => {
                Value::Positive(self.pick(&[0, 1, 42, 255, 256, 1 << 53, (1 << 53) + 1, u128::MAX]))
            }
            3 => Value::Positive(1 << self.below(128)),
            4 => Value::Negative(-1 << self.below(128)),
            5 => {
                let float =
                    self.pick(&[0.0, 1.0, 42.0, -42.0, 0.1, f64::INFINITY, f64::MIN_POSITIVE]);
                Value::Float(float.to_bits())
            }
            6 => Value::Float(0x7ff8_0000_0000_0000),
            7 => Value::Text(String::from_utf8(self.bytes()).expect("all bytes are ASCII")),
            8 => Value::Bytes(self.bytes()),
            9 => Value::Some(Box::new(self.value(depth - 1))),
            10 => {
                let length = self.below(5);
                Value::Sequence((0..length).map(|_| self.value(depth - 1)).collect())
            }
            11 => {
                let length = self.below(4);
                let entries = (0..length).map(|_| (self.value(depth - 1), self.value(depth - 1)));
                Value::Map(entries.collect())
            }
            _ => {
                let name = self.pick(&["", "A", "B", "A[", "Some"]);
                Value::Variant(name, Box::new(self.value(depth - 1)))
            }
        }
    }
}

#[test]
fn different_values_differ_and_equal_ones_agree() -> Result<(), UnencodablePart> {
    let mut random = Random(0x1dea);
    let mut seen: HashMap<Fingerprint, Vec<Value>> = HashMap::new();
    for _ in 0..300_000 {
        let count = random.below(4);
        let parts: Vec<Value> = (0..count).map(|_| random.value(3)).collect();
        let [one, other] = [true, false].map(|plain| {
            let mut hasher = Keying::new(Digest::Md5).hasher();
            parts
                .iter()
                .try_for_each(|part| hasher.part(&Serialized(part, plain)))?;
            Ok(hasher.finish())
        });
        let found = one?;
        assert_eq!(found, other?, "one value, written in two ways: {parts:?}");
        let first = seen.entry(found).or_insert_with(|| parts.clone());
        assert_eq!(*first, parts, "two values have the fingerprint {found}");
    }
    assert!(seen.len() > 100_000, "only {} different values", seen.len());
    Ok(())
}
