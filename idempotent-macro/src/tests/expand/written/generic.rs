use std::fmt::Display;

use idempotence::Error;
use serde::Serialize;

#[idempotent(key = (id, &names[0], N), ttl = "10s")]
pub async fn store<'a, T, const N: usize>(
    id: &'a T,
    names: [String; N],
    note: impl Display + Send,
) -> Result<impl Display, Error>
where
    T: Serialize + Display + Sync + ?Sized,
{
    Ok(format!("{id} {names:?} {note}"))
}
