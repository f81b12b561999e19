//! Counts options and newtypes while a value is read.
//!
//! The codecs count the levels of sequences, maps, structs and enums, each of which takes bytes. A `Some` or a newtype takes no
//! bytes. So a type that contains nothing else, such as `struct Next(Option<Box<Next>>)`, would read one byte again and again
//! until the stack overflows. Values that `serde` buffers, for untagged enums and flattened fields, are not counted here.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// A part of the reading of a value, and how many more options and newtypes may be nested.
pub(super) struct Levels<T> {
    inner: T,
    remaining: u32,
}

impl<T> Levels<T> {
    pub(super) fn new(inner: T, most: u32) -> Self {
        Self {
            inner,
            remaining: most,
        }
    }

    /// The next part, at the same level.
    fn same_level<U>(&self, inner: U) -> Levels<U> {
        Levels::new(inner, self.remaining)
    }

    /// The next part, one level deeper.
    fn next_level<U, E: Error>(&self, inner: U) -> Result<Levels<U>, E> {
        let remaining = self.remaining.checked_sub(1);
        let remaining = remaining.ok_or_else(|| E::custom("nested too deep"))?;
        Ok(Levels::new(inner, remaining))
    }
}

macro_rules! reads {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            let visitor = self.same_level(visitor);
            self.inner.$method($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Levels<D> {
    type Error = D::Error;

    every_method_but_option!(reads);
    reads! { deserialize_option(); }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visits {
    ($($method:ident($($value:ident: $type:ty)?);)*) => {$(
        fn $method<E: Error>(self, $($value: $type)?) -> Result<V::Value, E> {
            self.inner.$method($($value)?)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Levels<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visits! {
        visit_bool(value: bool);
        visit_i8(value: i8);
        visit_i16(value: i16);
        visit_i32(value: i32);
        visit_i64(value: i64);
        visit_i128(value: i128);
        visit_u8(value: u8);
        visit_u16(value: u16);
        visit_u32(value: u32);
        visit_u64(value: u64);
        visit_u128(value: u128);
        visit_f32(value: f32);
        visit_f64(value: f64);
        visit_char(value: char);
        visit_str(value: &str);
        visit_borrowed_str(value: &'de str);
        visit_string(value: String);
        visit_bytes(value: &[u8]);
        visit_borrowed_bytes(value: &'de [u8]);
        visit_byte_buf(value: Vec<u8>);
        visit_none();
        visit_unit();
    }

    fn visit_some<D: Deserializer<'de>>(self, codec: D) -> Result<V::Value, D::Error> {
        let codec = self.next_level(codec)?;
        self.inner.visit_some(codec)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, codec: D) -> Result<V::Value, D::Error> {
        let codec = self.next_level(codec)?;
        self.inner.visit_newtype_struct(codec)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        let elements = self.same_level(elements);
        self.inner.visit_seq(elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let entries = self.same_level(entries);
        self.inner.visit_map(entries)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let variant = self.same_level(variant);
        self.inner.visit_enum(variant)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Levels<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, codec: D) -> Result<S::Value, D::Error> {
        let codec = self.same_level(codec);
        self.inner.deserialize(codec)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Levels<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = self.same_level(seed);
        self.inner.next_element_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Levels<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = self.same_level(seed);
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.same_level(seed);
        self.inner.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Levels<A> {
    type Error = A::Error;
    type Variant = Levels<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (seed, remaining) = (self.same_level(seed), self.remaining);
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Levels::new(variant, remaining)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Levels<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.same_level(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.same_level(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.same_level(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}
