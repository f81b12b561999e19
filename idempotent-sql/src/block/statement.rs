//! Builds a statement: names are quoted, values are bound.

use sqlx::{Arguments, Encode, Error, IntoArguments, QueryBuilder, Type};

use crate::database::Database;

/// The text of a statement so far, and the values bound in it.
pub(super) struct Statement<DB: Database> {
    text: String,
    values: DB::Arguments,
}

impl<DB: Database> Statement<DB> {
    pub(super) fn new(text: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            values: DB::Arguments::default(),
        }
    }

    pub(super) fn push(&mut self, text: &'static str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds the name of a table, `orders` or `shop.orders`.
    pub(super) fn table(&mut self, name: &str) -> sqlx::Result<&mut Self> {
        for (i, part) in name.split('.').enumerate() {
            if i > 0 {
                self.text.push('.');
            }
            self.name(part)?;
        }
        Ok(self)
    }

    /// Adds a name in quotes, so that the database cannot read it as anything else.
    pub(super) fn name(&mut self, name: &str) -> sqlx::Result<&mut Self> {
        if name.is_empty() || name.contains('\0') {
            let message = format!(
                "{name:?} is not a name of a table or a column: it is empty or contains NUL"
            );
            return Err(Error::InvalidArgument(message));
        }
        self.text.push(DB::QUOTE);
        for letter in name.chars() {
            if letter == DB::QUOTE {
                self.text.push(letter);
            }
            self.text.push(letter);
        }
        self.text.push(DB::QUOTE);
        Ok(self)
    }

    pub(super) fn bind(&mut self, value: &dyn BoundValue<DB>) -> sqlx::Result<&mut Self> {
        value.add_to(&mut self.values)?;
        self.values
            .format_placeholder(&mut self.text)
            .expect("writing to a string cannot fail");
        Ok(self)
    }

    pub(super) fn build(self) -> QueryBuilder<DB> {
        QueryBuilder::with_arguments(self.text, Values(self.values))
    }
}

/// A value of any type. It can be bound several times.
pub(super) trait BoundValue<DB: Database>: Send + Sync {
    fn add_to(&self, values: &mut DB::Arguments) -> sqlx::Result<()>;
}

impl<DB, T> BoundValue<DB> for T
where
    DB: Database,
    T: for<'q> Encode<'q, DB> + Type<DB> + Send + Sync,
{
    fn add_to(&self, values: &mut DB::Arguments) -> sqlx::Result<()> {
        values.add(self).map_err(Error::Encode)
    }
}

struct Values<DB: Database>(DB::Arguments);

impl<DB: Database> IntoArguments<DB> for Values<DB> {
    fn into_arguments(self) -> DB::Arguments {
        self.0
    }
}
