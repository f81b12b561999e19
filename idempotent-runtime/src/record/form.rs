//! The forms of a stored result, and their names in a record.

/// The form of the bytes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// MessagePack.
    MessagePack,
    /// The bits of a float that JSON cannot write, in hexadecimal digits: 8 for an `f32`, 16 for an `f64`.
    Bits,
    /// No bytes: the result was a `None`.
    None,
    /// A whole response of HTTP: see `idempotent-http/src/response/stored.rs`.
    Http,
    /// What is left of a response of HTTP that was too large or a stream: see `idempotent-http/src/response/stored.rs`.
    HttpTombstone,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 6] = [
        Self::Json,
        Self::MessagePack,
        Self::Bits,
        Self::None,
        Self::Http,
        Self::HttpTombstone,
    ];

    /// The name in a record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::MessagePack => "msgpack",
            Self::Bits => "bits",
            Self::None => "none",
            Self::Http => "http",
            Self::HttpTombstone => "http-gone",
        }
    }

    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|form| form.name().as_bytes() == name)
    }
}
