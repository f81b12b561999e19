//! The mistakes in the settings of a mechanism, collected so that all are reported at once.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::error::SetupError;
use crate::key::endpoint::Endpoint;
use crate::key::name::shown;

/// The mistakes in the settings of one mechanism.
pub(super) struct Mistakes {
    /// The mechanism with its name, such as "counter `pages.submit`".
    subject: String,
    found: Vec<String>,
}

impl Mistakes {
    /// Checks the name of a mechanism of this `kind`, such as `counter`.
    pub(super) fn check_name(kind: &str, name: Cow<'static, str>) -> (Option<Endpoint>, Self) {
        let mut mistakes = Self {
            subject: format!("{kind} `{}`", shown(&name)),
            found: Vec::new(),
        };
        match Endpoint::try_new(name) {
            Ok(endpoint) => (Some(endpoint), mistakes),
            Err(invalid) => {
                mistakes.add(format_args!("the name {}", invalid.why()));
                (None, mistakes)
            }
        }
    }

    pub(super) fn add(&mut self, mistake: impl fmt::Display) {
        self.found.push(mistake.to_string());
    }

    /// The value of a required setting, or `None` and a mistake.
    pub(super) fn required<T>(&mut self, setting: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.add(format_args!("`{setting}` is missing: call `.{setting}(…)`"));
        }
        value
    }

    /// The value of a required duration of at least 1 ms, or `None` and a mistake.
    pub(super) fn required_duration(
        &mut self,
        setting: &str,
        value: Option<Duration>,
    ) -> Option<Duration> {
        let value = self.required(setting, value)?;
        if value < Duration::from_millis(1) {
            self.add(format_args!(
                "`{setting}` must be at least 1ms, got {value:?}"
            ));
            return None;
        }
        Some(value)
    }

    /// The valid settings, or the error that names all mistakes.
    pub(super) fn finish<T>(self, valid: Option<T>) -> Result<T, SetupError> {
        match valid {
            Some(valid) if self.found.is_empty() => Ok(valid),
            _ => Err(SetupError::new(format!(
                "invalid {}: {}",
                self.subject,
                self.found.join("; ")
            ))),
        }
    }
}
