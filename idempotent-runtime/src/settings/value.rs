//! The types of the values of settings: how a value is written, and how its text is read.

use std::time::Duration;

use crate::error::closest::closest;
use crate::policy::claims::MOST_PERMITS;
use crate::policy::duration::Written;
use crate::policy::{OnStoreError, Settle};

/// A type of values of settings.
pub trait SettingValue: Copy {
    /// How a file has the values.
    const FORM: Form;

    /// The value, as it is written in a file or a variable.
    fn text(self) -> String;
}

/// How a file in TOML has a value.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// A duration in quotes.
    Duration,
    /// One of these words, in quotes.
    Word([&'static str; 2]),
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
}

impl SettingValue for Duration {
    const FORM: Form = Form::Duration;

    fn text(self) -> String {
        Written(self).to_string()
    }
}

impl SettingValue for OnStoreError {
    const FORM: Form = Form::Word(["refuse", "run"]);

    fn text(self) -> String {
        let word = match self {
            Self::Refuse => "refuse",
            Self::Run => "run",
        };
        word.to_owned()
    }
}

impl SettingValue for Settle {
    const FORM: Form = Form::Word(["await", "background"]);

    fn text(self) -> String {
        let word = match self {
            Self::Await => "await",
            Self::Background => "background",
        };
        word.to_owned()
    }
}

impl SettingValue for u32 {
    const FORM: Form = Form::Number;

    fn text(self) -> String {
        self.to_string()
    }
}

impl SettingValue for bool {
    const FORM: Form = Form::Flag;

    fn text(self) -> String {
        self.to_string()
    }
}

/// Reads a number of permits.
pub(super) fn read_permits(text: &str) -> Result<u32, String> {
    let permits = text.parse().ok();
    permits
        .filter(|permits| (1..=u32::from(MOST_PERMITS)).contains(permits))
        .ok_or_else(|| {
            format!(
                "`{}` is not a number from 1 to {MOST_PERMITS}",
                text.escape_debug()
            )
        })
}

/// Reads the word of one of two values.
pub(super) fn read_word<T: SettingValue>(text: &str, values: [T; 2]) -> Result<T, String> {
    let mut found = values.into_iter().filter(|value| value.text() == text);
    found.next().ok_or_else(|| {
        let [one, other] = values.map(SettingValue::text);
        let guess = closest(text, [&*one, &*other])
            .map_or_else(String::new, |word| format!(": did you mean `{word}`?"));
        format!(
            "`{}` is neither `{one}` nor `{other}`{guess}",
            text.escape_debug()
        )
    })
}
