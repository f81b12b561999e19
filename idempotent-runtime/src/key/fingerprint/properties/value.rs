//! Values of every kind in `serde`, their meaning in a key, and other values that are almost the same.

mod serialize;

use arbtest::arbitrary::{Result, Unstructured};

#[derive(Debug, Clone)]
pub(super) enum Value {
    Unit,
    UnitStruct,
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    I128(i128),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    F32(f32),
    F64(f64),
    Char(char),
    Str(String),
    Bytes(Vec<u8>),
    None,
    Some(Box<Value>),
    Newtype(Box<Value>),
    Seq(Vec<Value>),
    Tuple(Vec<Value>),
    TupleStruct(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Struct(Vec<(&'static str, Value)>),
    UnitVariant(&'static str),
    NewtypeVariant(&'static str, Box<Value>),
    TupleVariant(&'static str, Vec<Value>),
    StructVariant(&'static str, Vec<(&'static str, Value)>),
}

/// The meaning of a value in a key, by `docs/guide/fingerprint.md`: two keys are equal if, and only if, their meanings are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Meaning {
    Unit,
    Bool(bool),
    /// Whether the integer is less than zero, and its absolute value.
    Integer(bool, u128),
    Float(u64),
    Str(String),
    Bytes(Vec<u8>),
    None,
    Some(Box<Meaning>),
    Sequence(Vec<Meaning>),
    /// The entries, sorted.
    Map(Vec<(Meaning, Meaning)>),
    Variant(&'static str, Box<Meaning>),
}

/// Names. Some of them look like a tag or a length of the encoding.
const NAMES: [&str; 7] = ["a", "b", "ab", "", "\"", "\u{1}a", "some"];
/// The characters of strings: letters, and bytes that have a meaning in the encoding.
const CHARS: [char; 16] = [
    'a', 'b', '"', '[', '{', '+', '-', '.', '_', 'n', '?', '@', '\0', '\u{1}', '\u{2}', 'é',
];

impl Value {
    pub(super) fn any(u: &mut Unstructured<'_>, levels: usize) -> Result<Self> {
        let kinds = if levels == 0 { 18 } else { 29 };
        Ok(match u.int_in_range(0..=kinds)? {
            0 => Self::Unit,
            1 => Self::UnitStruct,
            2 => Self::Bool(u.arbitrary()?),
            3 => Self::I8(u.arbitrary()?),
            4 => Self::I16(u.arbitrary()?),
            5 => Self::I32(small(u)?),
            6 => Self::I64(u.arbitrary()?),
            7 => Self::I128(u.arbitrary()?),
            8 => Self::U8(u.arbitrary()?),
            9 => Self::U16(u.arbitrary()?),
            10 => Self::U32(small(u)?.unsigned_abs()),
            11 => Self::U64(u.arbitrary()?),
            12 => Self::U128(u.arbitrary()?),
            13 => Self::F32(*u.choose(&[0.0, -0.0, 0.5, 0.1, 42.0, f32::NAN, f32::INFINITY])?),
            14 => Self::F64(u.arbitrary()?),
            15 => Self::Char(*u.choose(&CHARS)?),
            16 => Self::Str(text(u)?),
            17 => Self::Bytes(text(u)?.into_bytes()),
            18 => Self::None,
            19 => Self::Some(Self::boxed(u, levels)?),
            20 => Self::Newtype(Self::boxed(u, levels)?),
            21 => Self::Seq(Self::some(u, levels)?),
            22 => Self::Tuple(Self::some(u, levels)?),
            23 => Self::TupleStruct(Self::some(u, levels)?),
            24 => {
                let (keys, values) = (Self::some(u, levels)?, Self::some(u, levels)?);
                Self::Map(keys.into_iter().zip(values).collect())
            }
            25 => Self::Struct(Self::fields(u, levels)?),
            26 => Self::UnitVariant(u.choose(&NAMES)?),
            27 => Self::NewtypeVariant(u.choose(&NAMES)?, Self::boxed(u, levels)?),
            28 => Self::TupleVariant(u.choose(&NAMES)?, Self::some(u, levels)?),
            _ => Self::StructVariant(u.choose(&NAMES)?, Self::fields(u, levels)?),
        })
    }

    fn boxed(u: &mut Unstructured<'_>, levels: usize) -> Result<Box<Self>> {
        Ok(Box::new(Self::any(u, levels - 1)?))
    }

    fn some(u: &mut Unstructured<'_>, levels: usize) -> Result<Vec<Self>> {
        (0..u.int_in_range(0..=3)?)
            .map(|_| Self::any(u, levels - 1))
            .collect()
    }

    fn fields(u: &mut Unstructured<'_>, levels: usize) -> Result<Vec<(&'static str, Self)>> {
        (0..u.int_in_range(0..=3)?)
            .map(|_| Ok((*u.choose(&NAMES)?, Self::any(u, levels - 1)?)))
            .collect()
    }

    pub(super) fn meaning(&self) -> Meaning {
        let all = |values: &[Self]| Meaning::Sequence(values.iter().map(Self::meaning).collect());
        let fields = |fields: &[(&str, Self)]| {
            map(fields
                .iter()
                .map(|(name, value)| (Meaning::Str((*name).to_owned()), value.meaning())))
        };
        match self {
            Self::Unit | Self::UnitStruct => Meaning::Unit,
            Self::Bool(value) => Meaning::Bool(*value),
            Self::I8(value) => integer((*value).into()),
            Self::I16(value) => integer((*value).into()),
            Self::I32(value) => integer((*value).into()),
            Self::I64(value) => integer((*value).into()),
            Self::I128(value) => integer(*value),
            Self::U8(value) => Meaning::Integer(false, (*value).into()),
            Self::U16(value) => Meaning::Integer(false, (*value).into()),
            Self::U32(value) => Meaning::Integer(false, (*value).into()),
            Self::U64(value) => Meaning::Integer(false, (*value).into()),
            Self::U128(value) => Meaning::Integer(false, *value),
            Self::F32(value) => float((*value).into()),
            Self::F64(value) => float(*value),
            Self::Char(value) => Meaning::Str(value.to_string()),
            Self::Str(value) => Meaning::Str(value.clone()),
            Self::Bytes(value) => Meaning::Bytes(value.clone()),
            Self::None => Meaning::None,
            Self::Some(value) => Meaning::Some(Box::new(value.meaning())),
            Self::Newtype(value) => value.meaning(),
            Self::Seq(values) | Self::Tuple(values) | Self::TupleStruct(values) => all(values),
            Self::Map(entries) => map(entries
                .iter()
                .map(|(key, value)| (key.meaning(), value.meaning()))),
            Self::Struct(values) => fields(values),
            Self::UnitVariant(name) => Meaning::Variant(name, Box::new(Meaning::Unit)),
            Self::NewtypeVariant(name, value) => Meaning::Variant(name, Box::new(value.meaning())),
            Self::TupleVariant(name, values) => Meaning::Variant(name, Box::new(all(values))),
            Self::StructVariant(name, values) => Meaning::Variant(name, Box::new(fields(values))),
        }
    }

    /// Returns an equal value of other types: wider integers, tuples for lists, maps for structs, entries in another order.
    pub(super) fn otherwise(&self, u: &mut Unstructured<'_>) -> Result<Self> {
        if u.ratio(1, 8)? {
            return Ok(Self::Newtype(Box::new(self.clone())));
        }
        let each = |values: &[Self], u: &mut Unstructured<'_>| -> Result<Vec<Self>> {
            values.iter().map(|value| value.otherwise(u)).collect()
        };
        Ok(match self {
            Self::Unit => Self::UnitStruct,
            Self::UnitStruct => Self::Unit,
            Self::I8(value) => Self::I128((*value).into()),
            Self::I16(value) => Self::I32((*value).into()),
            Self::I32(value) => Self::I64((*value).into()),
            Self::U8(value) => Self::I16((*value).into()),
            Self::U16(value) => Self::U128((*value).into()),
            Self::U32(value) => Self::I64((*value).into()),
            Self::U64(value) => Self::U128((*value).into()),
            Self::F32(value) => Self::F64((*value).into()),
            Self::Char(value) => Self::Str(value.to_string()),
            Self::Some(value) => Self::Some(Box::new(value.otherwise(u)?)),
            Self::Newtype(value) => value.otherwise(u)?,
            Self::Seq(values) => Self::Tuple(each(values, u)?),
            Self::Tuple(values) => Self::TupleStruct(each(values, u)?),
            Self::TupleStruct(values) => Self::Seq(each(values, u)?),
            Self::Map(entries) => {
                let mut entries = entries.clone();
                entries.reverse();
                Self::Map(entries)
            }
            Self::Struct(fields) => {
                let entry =
                    |(name, value): &(&str, Self)| (Self::Str((*name).to_owned()), value.clone());
                Self::Map(fields.iter().rev().map(entry).collect())
            }
            Self::StructVariant(name, fields) => {
                let map = Self::Struct(fields.clone()).otherwise(u)?;
                Self::NewtypeVariant(name, Box::new(map))
            }
            Self::TupleVariant(name, values) => {
                Self::NewtypeVariant(name, Box::new(Self::Seq(each(values, u)?)))
            }
            Self::UnitVariant(name) => Self::NewtypeVariant(name, Box::new(Self::Unit)),
            other => other.clone(),
        })
    }

    /// Returns another value that an encoding could confuse with this value.
    fn almost(&self, u: &mut Unstructured<'_>) -> Result<Self> {
        let nothing = [
            Self::None,
            Self::Unit,
            Self::Str(String::new()),
            Self::Bytes(Vec::new()),
            Self::Seq(Vec::new()),
            Self::Map(Vec::new()),
            Self::U8(0),
            Self::F64(0.0),
            Self::Bool(false),
        ];
        Ok(match self {
            _ if u.ratio(1, 8)? => u.choose(&nothing)?.clone(),
            _ if u.ratio(1, 8)? => Self::Some(Box::new(self.clone())),
            _ if u.ratio(1, 8)? => Self::Seq(vec![self.clone()]),
            _ if u.ratio(1, 8)? => Self::NewtypeVariant(u.choose(&NAMES)?, Box::new(self.clone())),
            Self::Str(text) if u.arbitrary()? => Self::Bytes(text.clone().into_bytes()),
            Self::Str(text) => Self::Seq(text.chars().map(Self::Char).collect()),
            Self::Bytes(bytes) => Self::Seq(bytes.iter().copied().map(Self::U8).collect()),
            Self::Char(value) => Self::U32((*value).into()),
            Self::U64(value) => Self::Str(value.to_string()),
            Self::I64(value) => Self::I64(value.wrapping_neg()),
            Self::Some(value) => Self::clone(value),
            Self::UnitVariant(name) => Self::Str((*name).to_owned()),
            Self::NewtypeVariant(name, value) => {
                Self::Map(vec![(Self::Str((*name).to_owned()), Self::clone(value))])
            }
            Self::Seq(values) | Self::Tuple(values) | Self::TupleStruct(values) => {
                Self::Seq(almost(values, u)?)
            }
            Self::Map(entries) => {
                // Swap keys and values, or put all of them into one list.
                if u.arbitrary()? {
                    let turned = |(key, value): &(Self, Self)| (value.clone(), key.clone());
                    Self::Map(entries.iter().map(turned).collect())
                } else {
                    let both = |(key, value): &(Self, Self)| [key.clone(), value.clone()];
                    Self::Seq(entries.iter().flat_map(both).collect())
                }
            }
            Self::Struct(fields) => {
                let rename = |(name, value): &(&'static str, Self)| match *name {
                    "a" => ("b", value.clone()),
                    name => (name, value.clone()),
                };
                Self::Struct(fields.iter().map(rename).collect())
            }
            _ => Self::any(u, 1)?,
        })
    }
}

/// Returns other values that an encoding could confuse with these values.
pub(super) fn almost(values: &[Value], u: &mut Unstructured<'_>) -> Result<Vec<Value>> {
    let mut values = values.to_vec();
    let at = if values.is_empty() {
        values.push(Value::None);
        return Ok(values);
    } else {
        u.choose_index(values.len())?
    };
    match u.int_in_range(0..=4)? {
        // Move the border between two strings: `"a", "bc"` and `"ab", "c"`.
        0 => {
            if let [.., Value::Str(one), Value::Str(other)] = values.as_mut_slice() {
                if other.is_empty() {
                    other.extend(one.pop());
                } else {
                    one.push(other.remove(0));
                }
            } else {
                let text = text(u)?;
                let (one, other) = text.split_at(text.ceil_char_boundary(text.len() / 2));
                values.splice(
                    at..=at,
                    [one, other].map(|part| Value::Str(part.to_owned())),
                );
            }
        }
        // Nest some of the values one level deeper.
        1 => {
            let rest = values.split_off(at);
            values.push(Value::Seq(rest));
        }
        2 => values.rotate_left(1),
        3 => drop(values.remove(at)),
        _ => values[at] = values[at].almost(u)?,
    }
    Ok(values)
}

fn small(u: &mut Unstructured<'_>) -> Result<i32> {
    u.int_in_range(-300..=300)
}

fn text(u: &mut Unstructured<'_>) -> Result<String> {
    // Some strings are so long that their length needs a second byte.
    let most = if u.ratio(1, 50)? { 300 } else { 4 };
    (0..u.int_in_range(0..=most)?)
        .map(|_| u.choose(&CHARS).copied())
        .collect()
}

fn integer(value: i128) -> Meaning {
    Meaning::Integer(value < 0, value.unsigned_abs())
}

fn float(value: f64) -> Meaning {
    Meaning::Float(match value {
        0.0 => 0,
        nan if nan.is_nan() => u64::MAX,
        other => other.to_bits(),
    })
}

fn map(entries: impl Iterator<Item = (Meaning, Meaning)>) -> Meaning {
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    Meaning::Map(entries)
}
