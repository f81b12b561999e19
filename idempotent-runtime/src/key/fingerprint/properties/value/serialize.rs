//! How each value is written: the other side of its meaning.

use serde::ser::{
    Serialize, SerializeMap as _, SerializeSeq as _, SerializeStruct as _,
    SerializeStructVariant as _, SerializeTuple as _, SerializeTupleStruct as _,
    SerializeTupleVariant as _, Serializer,
};

use super::Value;

const NAME: &str = "Type";

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Unit => serializer.serialize_unit(),
            Self::UnitStruct => serializer.serialize_unit_struct(NAME),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::I8(value) => serializer.serialize_i8(*value),
            Self::I16(value) => serializer.serialize_i16(*value),
            Self::I32(value) => serializer.serialize_i32(*value),
            Self::I64(value) => serializer.serialize_i64(*value),
            Self::I128(value) => serializer.serialize_i128(*value),
            Self::U8(value) => serializer.serialize_u8(*value),
            Self::U16(value) => serializer.serialize_u16(*value),
            Self::U32(value) => serializer.serialize_u32(*value),
            Self::U64(value) => serializer.serialize_u64(*value),
            Self::U128(value) => serializer.serialize_u128(*value),
            Self::F32(value) => serializer.serialize_f32(*value),
            Self::F64(value) => serializer.serialize_f64(*value),
            Self::Char(value) => serializer.serialize_char(*value),
            Self::Str(value) => serializer.serialize_str(value),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::None => serializer.serialize_none(),
            Self::Some(value) => serializer.serialize_some(value),
            Self::Newtype(value) => serializer.serialize_newtype_struct(NAME, value),
            Self::Seq(values) => {
                let mut seq = serializer.serialize_seq(None)?;
                values
                    .iter()
                    .try_for_each(|value| seq.serialize_element(value))?;
                seq.end()
            }
            Self::Tuple(values) => {
                let mut tuple = serializer.serialize_tuple(values.len())?;
                values
                    .iter()
                    .try_for_each(|value| tuple.serialize_element(value))?;
                tuple.end()
            }
            Self::TupleStruct(values) => {
                let mut tuple = serializer.serialize_tuple_struct(NAME, values.len())?;
                values
                    .iter()
                    .try_for_each(|value| tuple.serialize_field(value))?;
                tuple.end()
            }
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_key(key)?;
                    map.serialize_value(value)?;
                }
                map.end()
            }
            Self::Struct(fields) => {
                let mut strukt = serializer.serialize_struct(NAME, fields.len())?;
                for (name, value) in fields {
                    strukt.serialize_field(name, value)?;
                }
                strukt.end()
            }
            Self::UnitVariant(name) => serializer.serialize_unit_variant(NAME, 0, name),
            Self::NewtypeVariant(name, value) => {
                serializer.serialize_newtype_variant(NAME, 1, name, value)
            }
            Self::TupleVariant(name, values) => {
                let mut tuple = serializer.serialize_tuple_variant(NAME, 2, name, values.len())?;
                values
                    .iter()
                    .try_for_each(|value| tuple.serialize_field(value))?;
                tuple.end()
            }
            Self::StructVariant(name, fields) => {
                let mut strukt =
                    serializer.serialize_struct_variant(NAME, 3, name, fields.len())?;
                for (name, value) in fields {
                    strukt.serialize_field(name, value)?;
                }
                strukt.end()
            }
        }
    }
}
