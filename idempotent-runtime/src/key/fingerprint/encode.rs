//! The canonical encoding, streamed into the digest.

use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize};

use super::{Fingerprint, State, UnencodablePart};

const VERSION: u8 = 1;

/// Stands where the tag of a value would: no tag is zero.
const END: u8 = 0;
const UNIT: u8 = b'_';
const TRUE: u8 = b't';
const FALSE: u8 = b'f';
const POSITIVE: u8 = b'+';
const NEGATIVE: u8 = b'-';
const FLOAT: u8 = b'.';
const STRING: u8 = b'"';
const BYTES: u8 = b'b';
const NONE: u8 = b'n';
const SOME: u8 = b'?';
const SEQUENCE: u8 = b'[';
const MAP: u8 = b'{';
const VARIANT: u8 = b'@';

const DEPTH: usize = 128;

type Written<T = ()> = Result<T, UnencodablePart>;

/// What stands before the first part: the parts are the elements of one sequence.
pub(super) const START: [u8; 2] = [VERSION, SEQUENCE];

/// Writes values to a digest that has taken [`START`].
pub(super) struct Encoder {
    state: State,
    depth: usize,
    failed: bool,
    /// Where the entries of maps wait to be sorted. Nothing else allocates.
    held: Vec<u8>,
    /// How many maps are open, one within the other; all share `held`.
    holding: usize,
}

impl Encoder {
    pub(super) fn new(state: State) -> Self {
        Self {
            state,
            depth: 0,
            failed: false,
            held: Vec::new(),
            holding: 0,
        }
    }

    /// Writes a value that stands next to the one before.
    pub(super) fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        // An implementation may ignore the error of a field and carry on. What it has written by
        // then could be the encoding of another value, so nothing may come of it any more.
        self.failed |= value.serialize(&mut *self).is_err();
        if self.failed {
            Err(UnencodablePart)
        } else {
            Ok(())
        }
    }

    pub(super) fn finish(&mut self) -> Fingerprint {
        self.write(&[END]);
        self.state.finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.holding > 0 {
            self.held.extend_from_slice(bytes);
            return;
        }
        self.state.update(bytes);
    }

    /// A tag and an unsigned number: how many bytes it has, then these, the highest first.
    fn number(&mut self, tag: u8, number: u128) {
        let mut bytes = [0; 18];
        bytes[2..].copy_from_slice(&number.to_be_bytes());
        let zeros = number.leading_zeros() / 8;
        let [length, ..] = (16 - zeros).to_le_bytes();
        let start = zeros as usize;
        bytes[start] = tag;
        bytes[start + 1] = length;
        self.write(&bytes[start..]);
    }

    fn text(&mut self, tag: u8, bytes: &[u8]) {
        self.number(tag, bytes.len() as u128);
        self.write(bytes);
    }

    fn enter(&mut self) -> Written {
        self.depth += 1;
        if self.depth > DEPTH {
            Err(UnencodablePart)
        } else {
            Ok(())
        }
    }

    /// Writes a value that stands within another.
    fn nested<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.enter()?;
        self.value(value)?;
        self.depth -= 1;
        Ok(())
    }

    fn sequence(&mut self) -> Written<&mut Self> {
        self.enter()?;
        self.write(&[SEQUENCE]);
        Ok(self)
    }

    fn end_sequence(&mut self) {
        self.write(&[END]);
        self.depth -= 1;
    }

    fn map(&mut self) -> Written<Map<'_>> {
        self.enter()?;
        self.write(&[MAP]);
        self.holding += 1;
        Ok(Map {
            encoder: self,
            entries: Vec::new(),
        })
    }
}

/// A map that is being written.
pub(super) struct Map<'a> {
    encoder: &'a mut Encoder,
    /// Where in `held` each entry starts.
    entries: Vec<usize>,
}

impl Map<'_> {
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        self.entries.push(self.encoder.held.len());
        self.encoder.value(key)
    }

    fn end(self) {
        let Self { encoder, entries } = self;
        if let Some(&first) = entries.first() {
            let ends = entries[1..].iter().copied().chain([encoder.held.len()]);
            let mut sorted: Vec<&[u8]> = (entries.iter().zip(ends))
                .map(|(&start, end)| &encoder.held[start..end])
                .collect();
            sorted.sort_unstable();
            let sorted = sorted.concat();
            encoder.held[first..].copy_from_slice(&sorted);
        }
        encoder.holding -= 1;
        if encoder.holding == 0 {
            let held = std::mem::take(&mut encoder.held);
            encoder.write(&held);
        }
        encoder.end_sequence();
    }
}

macro_rules! widen {
    ($($method:ident($from:ty) => $wider:ident,)*) => {$(
        fn $method(self, value: $from) -> Written {
            self.$wider(value.into())
        }
    )*};
}

impl<'a> ser::Serializer for &'a mut Encoder {
    type Ok = ();
    type Error = UnencodablePart;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Map<'a>;
    type SerializeStruct = Map<'a>;
    type SerializeStructVariant = Map<'a>;

    fn serialize_bool(self, value: bool) -> Written {
        self.write(&[if value { TRUE } else { FALSE }]);
        Ok(())
    }

    widen! {
        serialize_i8(i8) => serialize_i128,
        serialize_i16(i16) => serialize_i128,
        serialize_i32(i32) => serialize_i128,
        serialize_i64(i64) => serialize_i128,
        serialize_u8(u8) => serialize_u128,
        serialize_u16(u16) => serialize_u128,
        serialize_u32(u32) => serialize_u128,
        serialize_u64(u64) => serialize_u128,
        serialize_f32(f32) => serialize_f64,
    }

    fn serialize_i128(self, value: i128) -> Written {
        let sign = if value < 0 { NEGATIVE } else { POSITIVE };
        self.number(sign, value.unsigned_abs());
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Written {
        self.number(POSITIVE, value);
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Written {
        let bits = if value.is_nan() {
            // The bits of `f64::NAN` are not promised.
            0x7ff8_0000_0000_0000
        } else if value == 0.0 {
            0
        } else {
            value.to_bits()
        };
        self.write(&[FLOAT]);
        self.write(&bits.to_be_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Written {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Written {
        self.text(STRING, value.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Written {
        self.text(BYTES, value);
        Ok(())
    }

    fn serialize_none(self) -> Written {
        self.write(&[NONE]);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        self.write(&[SOME]);
        self.nested(value)
    }

    fn serialize_unit(self) -> Written {
        self.write(&[UNIT]);
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Written {
        self.text(VARIANT, variant.as_bytes());
        self.serialize_unit()
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Written {
        self.nested(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        self.text(VARIANT, variant.as_bytes());
        self.nested(value)
    }

    fn serialize_seq(self, _len: Option<usize>) -> Written<Self> {
        self.sequence()
    }

    fn serialize_tuple(self, _len: usize) -> Written<Self> {
        self.sequence()
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Written<Self> {
        self.sequence()
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Written<Self> {
        self.text(VARIANT, variant.as_bytes());
        self.sequence()
    }

    fn serialize_map(self, _len: Option<usize>) -> Written<Map<'a>> {
        self.map()
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Written<Map<'a>> {
        self.map()
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Written<Map<'a>> {
        self.text(VARIANT, variant.as_bytes());
        self.map()
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Written {
        // The provided method panics where a `Display` implementation fails.
        let mut text = String::new();
        write!(text, "{value}").map_err(|_| UnencodablePart)?;
        self.serialize_str(&text)
    }
}

macro_rules! elements {
    ($($kind:ident: $method:ident,)*) => {$(
        impl ser::$kind for &mut Encoder {
            type Ok = ();
            type Error = UnencodablePart;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
                self.value(value)
            }

            fn end(self) -> Written {
                self.end_sequence();
                Ok(())
            }
        }
    )*};
}

elements! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

macro_rules! fields {
    ($($kind:ident,)*) => {$(
        impl ser::$kind for Map<'_> {
            type Ok = ();
            type Error = UnencodablePart;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Written {
                self.key(name)?;
                self.encoder.value(value)
            }

            fn end(self) -> Written {
                self.end();
                Ok(())
            }
        }
    )*};
}

fields! {
    SerializeStruct,
    SerializeStructVariant,
}

impl ser::SerializeMap for Map<'_> {
    type Ok = ();
    type Error = UnencodablePart;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.encoder.value(value)
    }

    fn end(self) -> Written {
        self.end();
        Ok(())
    }
}
