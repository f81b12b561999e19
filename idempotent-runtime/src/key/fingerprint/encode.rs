//! Writes the values of `serde` in the canonical encoding.

use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize};

use super::digest::UnencodablePart;
use super::output::Output;

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
const VARIANT: u8 = b'@';

const DEPTH: usize = 128;

type EncodeResult<T = ()> = Result<T, UnencodablePart>;

/// Writes values to an output.
#[derive(Clone)]
pub(super) struct Encoder<O> {
    output: O,
    depth: usize,
    failed: bool,
}

impl<O: Output> Encoder<O> {
    #[inline]
    pub(super) fn new(output: O) -> Self {
        Self {
            output,
            depth: 0,
            failed: false,
        }
    }

    /// Writes a value on the same level as the previous value.
    pub(super) fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> EncodeResult {
        // An implementation may ignore the error of a field and continue. The bytes that it has
        // written could be the encoding of another value, so the whole key fails permanently.
        self.failed |= value.serialize(&mut *self).is_err();
        if self.failed {
            Err(UnencodablePart)
        } else {
            Ok(())
        }
    }

    /// Writes bytes, as a value does that serializes itself as bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.output.text(BYTES, bytes);
    }

    /// Writes a list of arrays of bytes, as [`value`](Self::value) does.
    pub(super) fn list_of_arrays<'a>(&mut self, arrays: impl Iterator<Item = &'a [u8]>) {
        self.output.sequence();
        arrays.for_each(|bytes| self.output.sequence_of_small(POSITIVE, bytes));
        self.output.end();
    }

    pub(super) fn output(&mut self) -> &mut O {
        &mut self.output
    }

    fn enter(&mut self) -> EncodeResult {
        self.depth += 1;
        if self.depth > DEPTH {
            Err(UnencodablePart)
        } else {
            Ok(())
        }
    }

    /// Writes a value inside another value.
    fn nested<T: Serialize + ?Sized>(&mut self, value: &T) -> EncodeResult {
        self.enter()?;
        self.value(value)?;
        self.depth -= 1;
        Ok(())
    }

    /// `is_named`: the sequence is of a variant, whose name is a part of the value.
    fn sequence(&mut self, is_named: bool) -> EncodeResult<Sequence<'_, O>> {
        self.enter()?;
        self.output.sequence();
        Ok(Sequence {
            encoder: self,
            is_empty: !is_named,
        })
    }

    /// `is_named`: the map is of a variant, whose name is a part of the value.
    fn map(&mut self, is_named: bool) -> EncodeResult<Map<'_, O>> {
        self.enter()?;
        let entries = self.output.map();
        Ok(Map {
            encoder: self,
            entries,
            is_empty: !is_named,
        })
    }
}

/// A sequence that is being written.
pub(super) struct Sequence<'a, O> {
    encoder: &'a mut Encoder<O>,
    is_empty: bool,
}

/// A map that is being written.
pub(super) struct Map<'a, O: Output> {
    encoder: &'a mut Encoder<O>,
    entries: O::Entries,
    is_empty: bool,
}

impl<O: Output> Map<'_, O> {
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> EncodeResult {
        self.is_empty = false;
        self.encoder.output.entry(&mut self.entries);
        self.encoder.value(key)
    }

    fn end(self) {
        self.encoder.output.missing_if(|| self.is_empty);
        self.encoder.output.end_map(&self.entries);
        self.encoder.depth -= 1;
    }
}

macro_rules! widen {
    ($($method:ident($from:ty) => $wider:ident,)*) => {$(
        fn $method(self, value: $from) -> EncodeResult {
            self.$wider(value.into())
        }
    )*};
}

impl<'a, O: Output> ser::Serializer for &'a mut Encoder<O> {
    type Ok = ();
    type Error = UnencodablePart;
    type SerializeSeq = Sequence<'a, O>;
    type SerializeTuple = Sequence<'a, O>;
    type SerializeTupleStruct = Sequence<'a, O>;
    type SerializeTupleVariant = Sequence<'a, O>;
    type SerializeMap = Map<'a, O>;
    type SerializeStruct = Map<'a, O>;
    type SerializeStructVariant = Map<'a, O>;

    fn serialize_bool(self, value: bool) -> EncodeResult {
        self.output.write(&[if value { TRUE } else { FALSE }]);
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

    fn serialize_i128(self, value: i128) -> EncodeResult {
        let sign = if value < 0 { NEGATIVE } else { POSITIVE };
        self.output.number(sign, value.unsigned_abs());
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> EncodeResult {
        self.output.number(POSITIVE, value);
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> EncodeResult {
        let bits = if value.is_nan() {
            // Rust does not guarantee the bits of `f64::NAN`.
            0x7ff8_0000_0000_0000
        } else if value == 0.0 {
            0
        } else {
            value.to_bits()
        };
        self.output.write(&[FLOAT]);
        self.output.write(&bits.to_be_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> EncodeResult {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> EncodeResult {
        self.output.missing_if(|| value.trim().is_empty());
        self.output.text(STRING, value.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> EncodeResult {
        self.output.missing_if(|| value.trim_ascii().is_empty());
        self.output.text(BYTES, value);
        Ok(())
    }

    fn serialize_none(self) -> EncodeResult {
        self.output.missing_if(|| true);
        self.output.write(&[NONE]);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> EncodeResult {
        self.output.write(&[SOME]);
        self.nested(value)
    }

    fn serialize_unit(self) -> EncodeResult {
        self.output.missing_if(|| true);
        self.output.write(&[UNIT]);
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> EncodeResult {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> EncodeResult {
        self.output.text(VARIANT, variant.as_bytes());
        self.output.write(&[UNIT]);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> EncodeResult {
        self.nested(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> EncodeResult {
        self.output.text(VARIANT, variant.as_bytes());
        self.nested(value)
    }

    fn serialize_seq(self, _len: Option<usize>) -> EncodeResult<Sequence<'a, O>> {
        self.sequence(false)
    }

    fn serialize_tuple(self, _len: usize) -> EncodeResult<Sequence<'a, O>> {
        self.sequence(false)
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> EncodeResult<Sequence<'a, O>> {
        self.sequence(false)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> EncodeResult<Sequence<'a, O>> {
        self.output.text(VARIANT, variant.as_bytes());
        self.sequence(true)
    }

    fn serialize_map(self, _len: Option<usize>) -> EncodeResult<Map<'a, O>> {
        self.map(false)
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> EncodeResult<Map<'a, O>> {
        self.map(false)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> EncodeResult<Map<'a, O>> {
        self.output.text(VARIANT, variant.as_bytes());
        self.map(true)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> EncodeResult {
        // The default method panics if a `Display` implementation fails.
        let mut text = String::new();
        write!(text, "{value}").map_err(|_| UnencodablePart)?;
        self.serialize_str(&text)
    }
}

macro_rules! elements {
    ($($kind:ident: $method:ident,)*) => {$(
        impl<O: Output> ser::$kind for Sequence<'_, O> {
            type Ok = ();
            type Error = UnencodablePart;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> EncodeResult {
                self.is_empty = false;
                self.encoder.value(value)
            }

            fn end(self) -> EncodeResult {
                self.encoder.output.missing_if(|| self.is_empty);
                self.encoder.output.end();
                self.encoder.depth -= 1;
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
        impl<O: Output> ser::$kind for Map<'_, O> {
            type Ok = ();
            type Error = UnencodablePart;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> EncodeResult {
                self.key(name)?;
                self.encoder.value(value)
            }

            /// A field that its type does not write, usually because it is `None`.
            fn skip_field(&mut self, _name: &'static str) -> EncodeResult {
                self.encoder.output.missing_if(|| true);
                Ok(())
            }

            fn end(self) -> EncodeResult {
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

impl<O: Output> ser::SerializeMap for Map<'_, O> {
    type Ok = ();
    type Error = UnencodablePart;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> EncodeResult {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> EncodeResult {
        self.encoder.value(value)
    }

    fn end(self) -> EncodeResult {
        self.end();
        Ok(())
    }
}
