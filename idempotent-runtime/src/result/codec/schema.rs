//! A tag of the type of a stored result.

use std::cell::Cell;

use md5::{Digest, Md5};

/// 32 bits of the type's name without its module paths. So a type that moves to another module has the same tag.
///
/// The compiler writes the name. If another compiler writes it differently, the tag differs, and the stored result counts as a
/// result of another type.
pub(crate) fn schema<T: ?Sized>() -> u32 {
    schema_of_type(std::any::type_name::<T>())
}

fn schema_of_type(name: &'static str) -> u32 {
    thread_local! {
        /// The address and length of the latest name, and its tag, because a thread usually needs the same tag again.
        static LATEST: Cell<(usize, usize, u32)> = const { Cell::new((0, 0, 0)) };
    }
    let (place, length) = (name.as_ptr().addr(), name.len());
    match LATEST.get() {
        (at, of, bits) if (at, of) == (place, length) => bits,
        _ => {
            let bits = schema_of(name);
            LATEST.set((place, length, bits));
            bits
        }
    }
}

fn schema_of(name: &str) -> u32 {
    let mut digest = Md5::new();
    let mut pieces = name.split("::").peekable();
    while let Some(piece) = pieces.next() {
        // The piece before a "::" is the name of a module, a function or a type.
        let is_path = pieces.peek().is_some();
        digest.update(if is_path {
            piece.trim_end_matches(is_name_char)
        } else {
            piece
        });
    }
    let [a, b, c, d, ..] = digest.finalize().0;
    u32::from_be_bytes([a, b, c, d])
}

/// Functions and closures are also parts of a path: `shop::pay::{{closure}}::Receipt`.
fn is_name_char(char: char) -> bool {
    char.is_alphanumeric() || "_{}#".contains(char)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    mod shop {
        pub(super) struct Receipt;
        pub(super) struct Page<T>(T);
        pub(super) mod old {
            pub(in super::super) struct Receipt;
        }
    }

    #[test]
    fn the_tag_is_frozen() {
        // The first four bytes of MD5("Vec<Receipt>").
        assert_eq!(schema::<Vec<shop::Receipt>>(), 0x1640_da31);
    }

    #[test]
    fn a_type_in_another_module_has_the_same_tag() {
        struct Receipt;

        assert_eq!(schema::<shop::Receipt>(), schema::<shop::old::Receipt>());
        assert_eq!(schema::<shop::Receipt>(), schema::<Receipt>());
        assert_eq!(
            schema::<Vec<Option<shop::Page<shop::Receipt>>>>(),
            schema::<Vec<Option<shop::Page<shop::old::Receipt>>>>()
        );
        let in_a_closure = || {
            struct Receipt;
            schema::<Receipt>()
        };
        assert_eq!(schema::<Receipt>(), in_a_closure());
    }

    #[test]
    fn another_type_has_another_tag() {
        use shop::{Page, Receipt};

        let schemas = [
            schema::<Receipt>(),
            schema::<Option<Receipt>>(),
            schema::<Page<Receipt>>(),
            schema::<Page<String>>(),
            schema::<Page<(String, Receipt)>>(),
            schema::<Page<(Receipt, String)>>(),
            schema::<(Page<Receipt>, String)>(),
            schema::<[Receipt; 2]>(),
            schema::<[Receipt; 3]>(),
            schema::<[Receipt]>(),
            schema::<&Receipt>(),
            schema::<()>(),
            schema::<str>(),
            schema::<Cow<'static, str>>(),
            schema::<Cow<'static, [u8]>>(),
            schema::<Box<dyn Fn(Receipt) -> String>>(),
        ];
        for (index, schema) in schemas.iter().enumerate() {
            assert!(!schemas[..index].contains(schema), "{index}");
        }
    }

    #[test]
    fn all_module_paths_are_removed() {
        for (name, without) in [
            ("alloc::vec::Vec<shop::Receipt>", "Vec<Receipt>"),
            ("(a::b::C, &[d::E; 2])", "(C, &[E; 2])"),
            ("a::pay::{{closure}}::C", "C"),
            ("a::{impl#0}::pay::C", "C"),
            ("dyn a::Fn(b::C) -> d::E + f::G", "dyn Fn(C) -> E + G"),
            ("größe::Maß<'_>", "Maß<'_>"),
        ] {
            assert_eq!(schema_of(name), schema_of(without), "{name}");
        }
        assert_ne!(schema_of("Vec<Receipt>"), schema_of("Vec<Order>"));
    }
}
