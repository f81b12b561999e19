//! One text for all ways to send the parts of a form (RFC 7578). Frozen: the digest of this text is in stored records.
//!
//! The text is a canonical JSON array (`canonical.rs`) with one array for each part: the name, the file name, the content type
//! as it was sent, and the SHA-256 of the bytes in 64 hexadecimal digits. A missing name, file name or content type is `null`.
//! The parts are sorted by their names; parts with the same name keep their order, which RFC 7578 (section 5.2) preserves.
//!
//! Test vector: a part `a` with the bytes `1`, and then a file `b` with the name `x.txt`, the type `text/plain` and no bytes:
//!
//! ```text
//! POST /pay?x=1
//! multipart/form-data
//! multipart
//! [["a",null,null,"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"],["b","x.txt","text/plain","e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]]
//! ```
//!
//! Its SHA-256 is `f484336fe2547fd8ab19020b0f11e197b3065e8bb107e0bc770719b10c88ae4f`.

use std::convert::Infallible;

use ::http::{HeaderValue, header};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::ready;
use futures_util::stream::once;
use multer::{Field, Multipart};
use sha2::{Digest, Sha256};

use super::canonical::write_string;

/// The canonical text of a form. `None` if the body is not a form that can be read.
pub(super) fn canonical(content_type: Option<&HeaderValue>, body: &Bytes) -> Option<String> {
    let boundary = multer::parse_boundary(content_type?.to_str().ok()?).ok()?;
    let whole = once(ready(Ok::<_, Infallible>(body.clone())));
    let form = Multipart::new(whole, boundary);
    // The whole body is in memory, so the reader never waits.
    let mut parts = read(form).now_or_never()??;
    parts.sort_by(|one, other| one.name.cmp(&other.name));
    let mut text = String::from("[");
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        part.write(&mut text);
    }
    text.push(']');
    Some(text)
}

struct Part {
    name: Option<String>,
    file_name: Option<String>,
    content_type: Option<String>,
    digest: [u8; 32],
}

async fn read(mut form: Multipart<'_>) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    while let Some(field) = form.next_field().await.ok()? {
        parts.push(Part::from_field(field).await?);
    }
    Some(parts)
}

impl Part {
    async fn from_field(mut field: Field<'_>) -> Option<Self> {
        let content_type = match field.headers().get(header::CONTENT_TYPE) {
            Some(value) => Some(value.to_str().ok()?.trim().to_owned()),
            None => None,
        };
        let name = field.name().map(str::to_owned);
        let file_name = field.file_name().map(str::to_owned);
        let mut digest = Sha256::new();
        while let Some(bytes) = field.chunk().await.ok()? {
            digest.update(&bytes);
        }
        Some(Self {
            name,
            file_name,
            content_type,
            digest: digest.finalize().into(),
        })
    }

    fn write(&self, text: &mut String) {
        text.push('[');
        for value in [&self.name, &self.file_name, &self.content_type] {
            match value {
                Some(value) => write_string(value, text),
                None => text.push_str("null"),
            }
            text.push(',');
        }
        text.push('"');
        // 64 digits are enough for 32 bytes.
        let mut digits = [0; 64];
        text.push_str(base16ct::lower::encode_str(&self.digest, &mut digits).unwrap_or_default());
        text.push_str("\"]");
    }
}
