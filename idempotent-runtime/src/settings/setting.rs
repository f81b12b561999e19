//! The value of a setting, and its origin.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::value::SettingValue;

/// The value of one setting of an endpoint, and its origin. Prints as `10m (idempotence.toml:5)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Setting<T> {
    pub(super) fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// The value.
    pub fn value(&self) -> T
    where
        T: Copy,
    {
        self.value
    }

    /// Where the value was set.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl<T: SettingValue> fmt::Display for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.value.text(), self.origin)
    }
}

/// Where the value of a setting was set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// In the attribute.
    Attribute,
    /// In the layer for HTTP, for all routes or for one route. Prints as `layer`.
    Layer,
    /// In the file. Prints as `idempotence.toml:5`.
    #[non_exhaustive]
    File {
        /// The file, as [`Settings`](crate::Settings) names it.
        path: Arc<Path>,
        /// The line, counted from 1.
        line: usize,
    },
    /// In a variable of the environment. Prints as its name.
    #[non_exhaustive]
    Env {
        /// The name of the variable.
        name: Arc<str>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Attribute => f.write_str("attribute"),
            Self::Layer => f.write_str("layer"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env { name } => f.write_str(name),
        }
    }
}
