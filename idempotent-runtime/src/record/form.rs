//! How the bytes of a result are written, by the name that its record has for it.

/// What the bytes of a result are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    MessagePack,
    /// The bits of a float that JSON has no word for, in hexadecimal digits: 8 of an `f32`, 16 of an `f64`.
    Bits,
    /// Nothing: there was a `None`.
    None,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::MessagePack => "msgpack",
            Self::Bits => "bits",
            Self::None => "none",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        [Self::Json, Self::MessagePack, Self::Bits, Self::None]
            .into_iter()
            .find(|form| form.name() == name)
    }
}
