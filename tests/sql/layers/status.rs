//! A user's enum of states, with the code that `#[derive(sqlx::Type)]` generates.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Created,
    Paying,
    Paid,
    Refunded,
}

const ALL: [Status; 4] = [
    Status::Created,
    Status::Paying,
    Status::Paid,
    Status::Refunded,
];

impl Status {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Paying => "PAYING",
            Self::Paid => "PAID",
            Self::Refunded => "REFUNDED",
        }
    }
}

impl<DB: Database> Type<DB> for Status
where
    str: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        str::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        str::compatible(ty)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Status
where
    &'static str: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.text().encode(buffer)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Status
where
    &'r str: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = <&str>::decode(value)?;
        let status = ALL.into_iter().find(|status| status.text() == text);
        status.ok_or_else(|| format!("no status is called {text:?}").into())
    }
}
