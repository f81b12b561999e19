//! Writes a result into its record, and reads it again for a duplicate.
//!
//! ```text
//! Some(Some("paid"))   form json, option depth 2, "paid"
//! Some(None)           form none, option depth 1
//! f64::INFINITY        form bits, 7ff0000000000000
//! ```
//!
//! The record also contains what a codec would lose at the top of a value: the number of `Some` around it, a `None`, and a
//! float that JSON cannot write. Inside the value the codec decides.

use std::io;

use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer};

use self::bits::FloatBits;
use self::encoded::{Encoded, LEVELS, MOST_WITHIN};
use self::json::LevelledFormatter;
use self::levels::Levels;
use self::peel::{Peel, Unpeel};
use crate::record::form::Form;

/// Passes all methods of a [`Deserializer`](serde::Deserializer) except `deserialize_option` to a macro that writes them.
macro_rules! every_method_but_option {
    ($write:ident) => {
        $write! {
            deserialize_any();
            deserialize_bool();
            deserialize_i8();
            deserialize_i16();
            deserialize_i32();
            deserialize_i64();
            deserialize_i128();
            deserialize_u8();
            deserialize_u16();
            deserialize_u32();
            deserialize_u64();
            deserialize_u128();
            deserialize_f32();
            deserialize_f64();
            deserialize_char();
            deserialize_str();
            deserialize_string();
            deserialize_bytes();
            deserialize_byte_buf();
            deserialize_unit();
            deserialize_unit_struct(name: &'static str);
            deserialize_newtype_struct(name: &'static str);
            deserialize_seq();
            deserialize_tuple(len: usize);
            deserialize_tuple_struct(name: &'static str, len: usize);
            deserialize_map();
            deserialize_struct(name: &'static str, fields: &'static [&'static str]);
            deserialize_enum(name: &'static str, variants: &'static [&'static str]);
            deserialize_identifier();
            deserialize_ignored_any();
        }
    };
}

mod bits;
mod encoded;
mod json;
mod levels;
#[cfg(feature = "msgpack")]
mod msgpack;
mod peel;
mod schema;
#[cfg(test)]
mod tests;

pub(crate) use self::schema::schema;

/// How the results of `replay` are written into their records.
///
/// A duplicate gets the first result as `serde` reads it again. Values of derived implementations come back exactly: also `()`,
/// empty values and zeros, numbers of up to 128 bits, and finite floats to the last bit. Options in options (`Some(None)` is
/// not `None`), infinities and every NaN come back exactly if they are the result itself.
///
/// *Inside* of a struct (also with a single field), a sequence, a map, a tuple or an enum there are limits:
///
/// * `Some(None)` and `Some(())` come back as `None`.
/// * `Json`: in an option, everything that is written as `null` comes back as `None`, also `Some` of a unit struct, of a NaN or
///   of an infinity.
/// * `Json`: a NaN or an infinity outside of an option is written, but cannot be read again.
/// * `Json`: the keys of a map must be strings, characters, numbers, booleans, or enums without fields. A map with other keys,
///   or with a NaN or an infinity as a key, cannot be written.
/// * Values that `serde` buffers (`#[serde(flatten)]`, and enums that are untagged or internally tagged) may be written, but
///   cannot be read again if they have an `i128` or a `u128`. With `Json` they cannot be read again either if they have a map
///   whose keys are numbers or booleans.
/// * A value with more than 127 levels of sequences, maps, structs and enums cannot be written. A value with more than 256
///   options and newtypes within each other cannot be read again.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Codec;
///
/// assert_eq!(Codec::default(), Codec::Json);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Codec {
    /// Readable in the store, for example with `redis-cli GET`.
    #[default]
    Json,
    /// Smaller. Writes every float and every kind of map key. The fields of structs are written with their names.
    #[cfg(feature = "msgpack")]
    MessagePack,
}

/// Why a result is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// The encoding has more bytes than the limit of the handle.
    TooLarge,
    /// The codec cannot write the result, or could not read it again.
    Unencodable,
}

/// Writes `value` in at most `most` bytes, and stops at that limit.
///
/// `MessagePack` writes the length of a sequence before its elements. So a sequence of unknown length, such as flattened
/// fields, is buffered as a whole before it is measured. The levels of `MessagePack` are counted after the writing, and options
/// and newtypes are not counted: a value with some thousands of them within each other overflows the stack, as it does when it
/// is dropped.
pub(crate) fn encode(value: &dyn Encode, codec: Codec, most: usize) -> Result<Encoded, NotStored> {
    let mut out = Capped {
        // As `serde_json` begins, because a vector that is empty at first grows in many small steps.
        bytes: Vec::with_capacity(most.min(128)),
        most,
        is_full: false,
    };
    let mut encoded = Encoded {
        form: match codec {
            Codec::Json => Form::Json,
            #[cfg(feature = "msgpack")]
            Codec::MessagePack => Form::MessagePack,
        },
        option_depth: 0,
        bytes: Vec::new(),
    };
    let plain = encoded.form;
    let written = match codec {
        Codec::Json => value.write_json(&mut out, &mut encoded),
        #[cfg(feature = "msgpack")]
        Codec::MessagePack => {
            value.write_msgpack(&mut out, &mut encoded)
                && (encoded.form != plain || msgpack::is_one_value(&out.bytes))
        }
    };
    if encoded.form == plain {
        encoded.bytes = out.bytes;
    }
    // The limit is checked first, because the codec also fails if the limit stops it.
    if out.is_full || encoded.bytes.len() > most {
        Err(NotStored::TooLarge)
    } else if written {
        Ok(encoded)
    } else {
        Err(NotStored::Unencodable)
    }
}

/// A value that a codec can write. Only these methods are compiled for each type.
pub(crate) trait Encode {
    /// Returns whether the value is written.
    fn write_json(&self, out: &mut Capped, top: &mut Encoded) -> bool;

    /// Returns whether the value is written.
    #[cfg(feature = "msgpack")]
    fn write_msgpack(&self, out: &mut Capped, top: &mut Encoded) -> bool;
}

impl<T: Serialize> Encode for T {
    fn write_json(&self, out: &mut Capped, top: &mut Encoded) -> bool {
        let formatter = LevelledFormatter::default();
        let mut json = serde_json::Serializer::with_formatter(out, formatter);
        self.serialize(Peel::new(&mut json, top)).is_ok()
    }

    #[cfg(feature = "msgpack")]
    fn write_msgpack(&self, out: &mut Capped, top: &mut Encoded) -> bool {
        let mut msgpack = msgpack::writer(out);
        self.serialize(Peel::new(&mut msgpack, top)).is_ok()
    }
}

/// Why a stored result cannot be given to a duplicate.
///
/// It deliberately contains no message of `serde`, because such a message may quote the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecodable {
    Mismatch,
    #[cfg(not(feature = "msgpack"))]
    MessagePack,
}

impl Undecodable {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Mismatch => "it cannot be read as the type that the function returns",
            #[cfg(not(feature = "msgpack"))]
            Self::MessagePack => {
                "it is MessagePack, and this build does not have the feature `msgpack`"
            }
        }
    }
}

/// Reads what [`encode`] has written.
pub(crate) fn decode<T: DeserializeOwned>(
    form: Form,
    option_depth: u32,
    bytes: &[u8],
) -> Result<T, Undecodable> {
    match Readable::of(form, option_depth, bytes)? {
        Readable::Json(text) => {
            let mut json = serde_json::Deserializer::from_str(text);
            let value = read_value(&mut json, option_depth)?;
            json.end().map_err(|_| Undecodable::Mismatch)?;
            Ok(value)
        }
        Readable::Bits(bits) => read_value(bits, option_depth),
        #[cfg(feature = "msgpack")]
        Readable::MessagePack(bytes) => read_value(&mut msgpack::reader(bytes), option_depth),
    }
}

/// What [`decode`] reads, which does not depend on the type.
enum Readable<'a> {
    Json(&'a str),
    Bits(FloatBits),
    #[cfg(feature = "msgpack")]
    MessagePack(&'a [u8]),
}

impl<'a> Readable<'a> {
    fn of(form: Form, option_depth: u32, bytes: &'a [u8]) -> Result<Self, Undecodable> {
        match form {
            _ if option_depth > LEVELS => Err(Undecodable::Mismatch),
            // Once and with vector instructions, because `serde_json` would check each string by itself, without them.
            Form::Json => simdutf8::basic::from_utf8(bytes)
                .map(Self::Json)
                .map_err(|_| Undecodable::Mismatch),
            // The codecs write `None` as null. A type that does not read an option, such as an untagged enum, expects null.
            Form::None if bytes.is_empty() => Ok(Self::Json("null")),
            Form::None | Form::Http | Form::HttpTombstone => Err(Undecodable::Mismatch),
            Form::Bits => FloatBits::read(bytes)
                .map(Self::Bits)
                .ok_or(Undecodable::Mismatch),
            #[cfg(feature = "msgpack")]
            Form::MessagePack if msgpack::is_one_value(bytes) => Ok(Self::MessagePack(bytes)),
            #[cfg(feature = "msgpack")]
            Form::MessagePack => Err(Undecodable::Mismatch),
            #[cfg(not(feature = "msgpack"))]
            Form::MessagePack => Err(Undecodable::MessagePack),
        }
    }
}

fn read_value<'de, T, D>(codec: D, option_depth: u32) -> Result<T, Undecodable>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let codec = Levels::new(codec, MOST_WITHIN);
    T::deserialize(Unpeel::new(codec, option_depth)).map_err(|_| Undecodable::Mismatch)
}

/// A writer that fails instead of growing beyond `most` bytes.
pub(crate) struct Capped {
    bytes: Vec<u8>,
    most: usize,
    is_full: bool,
}

impl io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
