//! The top of a value: options, and floats that JSON cannot write.
//!
//! Only the top is examined. The codec writes the first value that is neither an option nor such a float. So a type with its
//! own implementation of `serde` works as with the codec alone.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserializer, Visitor};
use serde::ser::{Error as _, Serializer};

use super::encoded::{Encoded, LEVELS};
use crate::record::form::Form;

/// Records the top of a value, and lets `codec` write the rest.
pub(super) struct Peel<'a, S> {
    codec: S,
    top: &'a mut Encoded,
}

impl<'a, S> Peel<'a, S> {
    pub(super) fn new(codec: S, top: &'a mut Encoded) -> Self {
        Self { codec, top }
    }

    fn bits(self, digits: String) {
        self.top.form = Form::Bits;
        self.top.bytes = digits.into_bytes();
    }
}

macro_rules! written_by_the_codec {
    ($($method:ident($($argument:ident: $type:ty),*) -> $written:ty;)*) => {$(
        fn $method(self, $($argument: $type),*) -> Result<$written, S::Error> {
            self.codec.$method($($argument),*)
        }
    )*};
}

impl<S: Serializer<Ok = ()>> Serializer for Peel<'_, S> {
    type Ok = ();
    type Error = S::Error;
    type SerializeSeq = S::SerializeSeq;
    type SerializeTuple = S::SerializeTuple;
    type SerializeTupleStruct = S::SerializeTupleStruct;
    type SerializeTupleVariant = S::SerializeTupleVariant;
    type SerializeMap = S::SerializeMap;
    type SerializeStruct = S::SerializeStruct;
    type SerializeStructVariant = S::SerializeStructVariant;

    fn serialize_none(self) -> Result<(), S::Error> {
        self.top.form = Form::None;
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), S::Error> {
        // Options nested in options without end would overflow the stack.
        if self.top.option_depth == LEVELS {
            return Err(S::Error::custom("nested too deep"));
        }
        self.top.option_depth += 1;
        value.serialize(self)
    }

    fn serialize_f32(self, value: f32) -> Result<(), S::Error> {
        if value.is_finite() || self.top.form != Form::Json {
            return self.codec.serialize_f32(value);
        }
        self.bits(format!("{:08x}", value.to_bits()));
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), S::Error> {
        if value.is_finite() || self.top.form != Form::Json {
            return self.codec.serialize_f64(value);
        }
        self.bits(format!("{:016x}", value.to_bits()));
        Ok(())
    }

    written_by_the_codec! {
        serialize_bool(value: bool) -> ();
        serialize_i8(value: i8) -> ();
        serialize_i16(value: i16) -> ();
        serialize_i32(value: i32) -> ();
        serialize_i64(value: i64) -> ();
        serialize_i128(value: i128) -> ();
        serialize_u8(value: u8) -> ();
        serialize_u16(value: u16) -> ();
        serialize_u32(value: u32) -> ();
        serialize_u64(value: u64) -> ();
        serialize_u128(value: u128) -> ();
        serialize_char(value: char) -> ();
        serialize_str(value: &str) -> ();
        serialize_bytes(value: &[u8]) -> ();
        serialize_unit() -> ();
        serialize_unit_struct(name: &'static str) -> ();
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str) -> ();
        serialize_seq(len: Option<usize>) -> S::SerializeSeq;
        serialize_tuple(len: usize) -> S::SerializeTuple;
        serialize_tuple_struct(name: &'static str, len: usize) -> S::SerializeTupleStruct;
        serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> S::SerializeTupleVariant;
        serialize_map(len: Option<usize>) -> S::SerializeMap;
        serialize_struct(name: &'static str, len: usize) -> S::SerializeStruct;
        serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> S::SerializeStructVariant;
    }

    // The codec writes this value, because some names have a meaning for it.
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), S::Error> {
        self.codec.serialize_newtype_struct(name, value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), S::Error> {
        self.codec
            .serialize_newtype_variant(name, index, variant, value)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), S::Error> {
        self.codec.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.codec.is_human_readable()
    }
}

/// Puts the `Some`s around the value that `codec` reads.
pub(super) struct Unpeel<D> {
    codec: D,
    option_depth: u32,
}

impl<D> Unpeel<D> {
    pub(super) fn new(codec: D, option_depth: u32) -> Self {
        Self {
            codec,
            option_depth,
        }
    }
}

macro_rules! read_by_the_codec {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.codec.$method($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Unpeel<D> {
    type Error = D::Error;

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        match self.option_depth.checked_sub(1) {
            Some(option_depth) => visitor.visit_some(Self {
                option_depth,
                ..self
            }),
            None => self.codec.deserialize_option(visitor),
        }
    }

    every_method_but_option!(read_by_the_codec);

    fn is_human_readable(&self) -> bool {
        self.codec.is_human_readable()
    }
}
