//! Enums of states with the code that `#[derive(sqlx::Type)]` of sqlx 0.9 generates. The macro of sqlx would compile sqlx,
//! tokio and rustls a second time, for the compiler itself.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::mysql::MySqlTypeInfo;
use sqlx::postgres::PgTypeInfo;
use sqlx::sqlite::SqliteTypeInfo;
use sqlx::{Database, Decode, Encode, MySql, Postgres, Sqlite, Type};

/// An enum with `#[sqlx(type_name = "…")]`, whose states are texts.
macro_rules! text_states {
    ($name:ident, $type_name:literal, $($state:ident = $text:literal),+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($state),+ }

        impl<'q, DB: Database> Encode<'q, DB> for $name
        where
            &'q str: Encode<'q, DB>,
        {
            fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
                let text = match self { $(Self::$state => $text),+ };
                <&str as Encode<'q, DB>>::encode(text, buffer)
            }
        }

        impl<'r, DB: Database> Decode<'r, DB> for $name
        where
            &'r str: Decode<'r, DB>,
        {
            fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
                match <&str>::decode(value)? {
                    $($text => Ok(Self::$state),)+
                    text => Err(format!("invalid value {text:?} for enum {}", stringify!($name)).into()),
                }
            }
        }

        impl Type<MySql> for $name {
            fn type_info() -> MySqlTypeInfo {
                MySqlTypeInfo::__enum()
            }
        }

        impl Type<Postgres> for $name {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_name($type_name)
            }
        }

        impl Type<Sqlite> for $name {
            fn type_info() -> SqliteTypeInfo {
                <str as Type<Sqlite>>::type_info()
            }

            fn compatible(ty: &SqliteTypeInfo) -> bool {
                <str as Type<Sqlite>>::compatible(ty)
            }
        }
    };
}

text_states!(
    Word,
    "text",
    Paying = "PAYING",
    Paid = "PAID",
    Refunded = "REFUNDED"
);
text_states!(
    Varchar,
    "varchar",
    Paying = "paying",
    Paid = "paid",
    Refunded = "refunded"
);
text_states!(
    Native,
    "order_status",
    Paying = "paying",
    Paid = "paid",
    Refunded = "refunded"
);

/// An enum with `#[repr(i32)]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Number {
    Paying = 1,
    Paid = 2,
    Refunded = 120,
}

impl<'q, DB: Database> Encode<'q, DB> for Number
where
    i32: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        (*self as i32).encode_by_ref(buffer)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Number
where
    i32: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let value = i32::decode(value)?;
        let number = [Self::Paying, Self::Paid, Self::Refunded];
        let number = number.into_iter().find(|number| *number as i32 == value);
        number.ok_or_else(|| format!("invalid value {value:?} for enum Number").into())
    }
}

impl<DB: Database> Type<DB> for Number
where
    i32: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        i32::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        i32::compatible(ty)
    }
}
