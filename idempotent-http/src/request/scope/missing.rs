//! Whether each part of a scope is given. A scope with a missing part names no caller: all requests without it would share it.

use std::fmt::{self, Write as _};

use idempotent_runtime::KeyPart;
use serde::ser::{self, Serialize};

/// Whether a part of the scope is `None`, `()`, an empty or blank text, or an empty list or map, at any depth.
///
/// A scope that cannot be encoded has no missing part: the key of its call cannot be encoded, either.
pub(super) fn has_missing_part<P: KeyPart>(scope: &P) -> bool {
    let mut search = Search::default();
    scope.serialize(&mut search).is_ok() && search.is_missing
}

/// Scopes are not deeper than the encoding of keys allows.
const DEPTH: usize = 128;

type Searched<T = ()> = Result<T, fmt::Error>;

/// Notes a missing part instead of returning an error, because an implementation may ignore errors.
#[derive(Default)]
struct Search {
    is_missing: bool,
    depth: usize,
}

impl Search {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the methods of a serializer return results"
    )]
    fn missing_if(&mut self, is_missing: bool) -> Searched {
        self.is_missing |= is_missing;
        Ok(())
    }

    fn nested<T: Serialize + ?Sized>(&mut self, value: &T) -> Searched {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(fmt::Error);
        }
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }
}

/// The parts of a list, a map or a structure.
struct SearchParts<'a> {
    search: &'a mut Search,
    is_empty: bool,
}

impl<'a> SearchParts<'a> {
    fn new(search: &'a mut Search) -> Self {
        Self {
            search,
            is_empty: true,
        }
    }

    /// The parts of a variant. Its name is a part.
    fn of_variant(search: &'a mut Search) -> Self {
        Self {
            search,
            is_empty: false,
        }
    }

    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Searched {
        self.is_empty = false;
        self.search.nested(value)
    }

    /// A field that its type does not write, usually because it is `None`.
    fn skipped(&mut self) -> Searched {
        self.search.missing_if(true)
    }

    fn finish(self) -> Searched {
        self.search.missing_if(self.is_empty)
    }
}

macro_rules! given {
    ($($method:ident($type:ty),)*) => {$(
        fn $method(self, _: $type) -> Searched {
            Ok(())
        }
    )*};
}

impl<'a> ser::Serializer for &'a mut Search {
    type Ok = ();
    type Error = fmt::Error;
    type SerializeSeq = SearchParts<'a>;
    type SerializeTuple = SearchParts<'a>;
    type SerializeTupleStruct = SearchParts<'a>;
    type SerializeTupleVariant = SearchParts<'a>;
    type SerializeMap = SearchParts<'a>;
    type SerializeStruct = SearchParts<'a>;
    type SerializeStructVariant = SearchParts<'a>;

    given! {
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_f32(f32),
        serialize_f64(f64),
    }

    fn serialize_char(self, value: char) -> Searched {
        self.missing_if(value.is_whitespace())
    }

    fn serialize_str(self, value: &str) -> Searched {
        self.missing_if(value.trim().is_empty())
    }

    fn serialize_bytes(self, value: &[u8]) -> Searched {
        self.missing_if(value.trim_ascii().is_empty())
    }

    fn serialize_none(self) -> Searched {
        self.missing_if(true)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Searched {
        self.nested(value)
    }

    fn serialize_unit(self) -> Searched {
        self.missing_if(true)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Searched {
        self.missing_if(true)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
    ) -> Searched {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Searched {
        self.nested(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        value: &T,
    ) -> Searched {
        self.nested(value)
    }

    fn serialize_seq(self, _len: Option<usize>) -> Searched<SearchParts<'a>> {
        Ok(SearchParts::new(self))
    }

    fn serialize_tuple(self, _len: usize) -> Searched<SearchParts<'a>> {
        Ok(SearchParts::new(self))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Searched<SearchParts<'a>> {
        Ok(SearchParts::new(self))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Searched<SearchParts<'a>> {
        Ok(SearchParts::of_variant(self))
    }

    fn serialize_map(self, _len: Option<usize>) -> Searched<SearchParts<'a>> {
        Ok(SearchParts::new(self))
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Searched<SearchParts<'a>> {
        Ok(SearchParts::new(self))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Searched<SearchParts<'a>> {
        Ok(SearchParts::of_variant(self))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Searched {
        // The default method panics if a `Display` implementation fails.
        let mut text = String::new();
        write!(text, "{value}")?;
        self.serialize_str(&text)
    }
}

macro_rules! elements {
    ($($kind:ident: $method:ident,)*) => {$(
        impl ser::$kind for SearchParts<'_> {
            type Ok = ();
            type Error = fmt::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Searched {
                self.part(value)
            }

            fn end(self) -> Searched {
                self.finish()
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
        impl ser::$kind for SearchParts<'_> {
            type Ok = ();
            type Error = fmt::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                _name: &'static str,
                value: &T,
            ) -> Searched {
                self.part(value)
            }

            fn skip_field(&mut self, _name: &'static str) -> Searched {
                self.skipped()
            }

            fn end(self) -> Searched {
                self.finish()
            }
        }
    )*};
}

fields! {
    SerializeStruct,
    SerializeStructVariant,
}

impl ser::SerializeMap for SearchParts<'_> {
    type Ok = ();
    type Error = fmt::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Searched {
        self.part(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Searched {
        self.part(value)
    }

    fn end(self) -> Searched {
        self.finish()
    }
}
