//! A float that JSON cannot write: an infinity or a NaN.

use serde::de::value::Error;
use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// A float, from the digits of its bits.
#[derive(Clone, Copy)]
pub(super) enum FloatBits {
    Single(f32),
    Double(f64),
}

impl FloatBits {
    pub(super) fn read(digits: &[u8]) -> Option<Self> {
        let mut bits = [0; 8];
        let bits = base16ct::lower::decode(digits, &mut bits).ok()?;
        if let Ok(single) = <[u8; 4]>::try_from(bits) {
            return Some(Self::Single(f32::from_be_bytes(single)));
        }
        let double = <[u8; 8]>::try_from(bits).ok()?;
        Some(Self::Double(f64::from_be_bytes(double)))
    }
}

impl<'de> Deserializer<'de> for FloatBits {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Single(single) => visitor.visit_f32(single),
            Self::Double(double) => visitor.visit_f64(double),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
