//! Settings from a TOML file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::overrides::{NAMES, Overrides, form_of, guess, list};
use super::setting::Origin;
use super::table::{Named, SourceSettings};
use super::value::Form;
use crate::error::closest::closest;
use crate::key::route::RouteName;

/// Reads the file, and adds a line to `problems` for each mistake.
pub(super) fn read(path: &Path, problems: &mut Vec<String>) -> SourceSettings {
    match fs::read_to_string(path) {
        Ok(text) => parse(path, &text, problems),
        Err(error) => {
            problems.push(format!(
                "cannot read the settings file {}: {error}",
                path.display()
            ));
            SourceSettings::default()
        }
    }
}

/// Reads the text of a file, and adds a line to `problems` for each mistake.
pub(super) fn parse(path: &Path, text: &str, problems: &mut Vec<String>) -> SourceSettings {
    let mut reader = Reader {
        path: path.into(),
        text,
        mistakes: BTreeSet::new(),
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    let layer = reader.root(root.get_ref());

    // A line that is not TOML is reported only once: the values that the parser guesses for it are not checked.
    let at = |error: &toml::de::Error| place(text, error.span().map_or(0, |span| span.start));
    let broken: BTreeSet<usize> = errors.iter().map(|error| at(error).0).collect();
    let mut mistakes = reader.mistakes;
    mistakes.retain(|((line, _), _)| !broken.contains(line));
    for error in &errors {
        let what = format!("this is not TOML: {}", error.message().escape_debug());
        mistakes.insert((at(error), what));
    }
    for ((line, column), what) in mistakes {
        problems.push(format!("{}:{line}:{column}: {what}", path.display()));
    }
    // Nobody wrote the values that the parser guesses, so nothing is said about whether they fit.
    if errors.is_empty() {
        layer
    } else {
        SourceSettings::default()
    }
}

struct Reader<'a> {
    path: Arc<Path>,
    text: &'a str,
    /// Sorted by place, because the parser sorts by name.
    mistakes: BTreeSet<((usize, usize), String)>,
}

type SpannedKey<'a> = Spanned<toml::de::DeString<'a>>;

impl Reader<'_> {
    fn root(&mut self, root: &DeTable<'_>) -> SourceSettings {
        let mut layer = SourceSettings::default();
        for (key, value) in root {
            let name = &**key.get_ref();
            match (name, value.get_ref()) {
                ("all", DeValue::Table(table)) => self.settings(table, "", &mut layer.all),
                ("endpoints", DeValue::Table(table)) => self.endpoints(table, &mut layer),
                ("all" | "endpoints", _) => {
                    self.mistake(key, format!("`{name}` is a table: write `[{name}]`"));
                }
                (name, _) if NAMES.contains(&name) => {
                    let help = "write it below `[all]` or `[endpoints.\"…\"]`";
                    self.mistake(key, format!("`{name}` is in no table: {help}"));
                }
                (name, _) => {
                    let what = match closest(name, ["all", "endpoints"]) {
                        Some(guess) => format!("did you mean `{guess}`?"),
                        None => "the tables are `[all]` and `[endpoints.\"…\"]`".to_owned(),
                    };
                    self.mistake(key, format!("unknown table `{}`: {what}", escape(name)));
                }
            }
        }
        layer
    }

    fn endpoints(&mut self, table: &DeTable<'_>, layer: &mut SourceSettings) {
        for (key, value) in table {
            let name = &**key.get_ref();
            let DeValue::Table(settings) = value.get_ref() else {
                let help = "write a table for each endpoint, as in `[endpoints.\"orders.pay\"]`";
                self.mistake(
                    key,
                    format!("`{}` is not an endpoint: {help}", escape(name)),
                );
                continue;
            };
            let endpoint = match read_name(name) {
                Ok(endpoint) => endpoint,
                Err(why) => {
                    let name = escape(name);
                    self.mistake(key, format!("`{name}` cannot name an endpoint: {why}"));
                    continue;
                }
            };
            let mut named = Named {
                origin: self.origin(key),
                overrides: Overrides::default(),
            };
            self.settings(settings, name, &mut named.overrides);
            if layer.endpoints.insert(endpoint.clone(), named).is_some() {
                let (name, endpoint) = (escape(name), escape(&endpoint));
                let what =
                    format!("`{name}` and `{endpoint}` are the same endpoint: write one of them");
                self.mistake(key, what);
            }
        }
    }

    /// Reads the settings of one endpoint, or of all endpoints if the name is empty.
    fn settings(&mut self, table: &DeTable<'_>, endpoint: &str, overrides: &mut Overrides) {
        let place = match endpoint {
            "" => "in `[all]`".to_owned(),
            endpoint => format!("of `{}`", escape(endpoint)),
        };
        for (key, value) in table {
            let name = &**key.get_ref();
            let result = match (form_of(name), value.get_ref()) {
                (_, DeValue::Table(inner)) if !endpoint.is_empty() => {
                    Err(explain_missing_quotes(endpoint, name, inner))
                }
                (None, _) => Err(explain_unknown(name)),
                (Some(form), value) => match text_in(form, value) {
                    Some(text) => overrides
                        .set(name, text, self.origin(key))
                        .map_err(|what| format!("`{name}` {place}: {what}")),
                    None => Err(format!("`{name}` {place}{}", explain_form(form, value))),
                },
            };
            if let Err(what) = result {
                self.mistake(key, what);
            }
        }
    }

    fn origin(&self, key: &SpannedKey<'_>) -> Origin {
        Origin::File {
            path: Arc::clone(&self.path),
            line: place(self.text, key.span().start).0,
        }
    }

    fn mistake(&mut self, key: &SpannedKey<'_>, what: String) {
        let place = place(self.text, key.span().start);
        self.mistakes.insert((place, what));
    }
}

/// The line and the column of a byte, counted from 1. A column is a character.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}

/// Escapes a name from the file, so that it prints on one line.
fn escape(name: &str) -> std::str::EscapeDebug<'_> {
    name.escape_debug()
}

fn explain_unknown(name: &str) -> String {
    let what = match guess(name) {
        Some(guess) => format!("did you mean `{guess}`?"),
        None => format!("the settings are {}", list()),
    };
    format!("unknown setting `{}`: {what}", escape(name))
}

/// The text of a value, if the value has this form.
fn text_in<'a>(form: Form, value: &'a DeValue<'_>) -> Option<&'a str> {
    match (form, value) {
        (Form::Duration | Form::Word(_), DeValue::String(text)) => Some(text),
        (Form::Number, DeValue::Integer(number)) => Some(number.as_str()),
        (Form::Flag, DeValue::Boolean(flag)) => Some(if *flag { "true" } else { "false" }),
        _ => None,
    }
}

/// How to write a value that does not have this form; the text follows the name of the setting.
fn explain_form(form: Form, value: &DeValue<'_>) -> String {
    match (form, value) {
        (Form::Word([one, other]), _) => {
            format!(" must be a word in quotes: write `\"{one}\"` or `\"{other}\"`")
        }
        (Form::Number, _) => " must be a number, without quotes".to_owned(),
        (Form::Flag, _) => " must be `true` or `false`, without quotes".to_owned(),
        (Form::Duration, DeValue::Integer(number))
            if number.radix() == 10 && !number.as_str().starts_with('-') =>
        {
            format!(": a duration needs a unit: write `\"{number}s\"`")
        }
        (Form::Duration, _) => {
            " must be a duration in quotes, as in `\"30s\"` or `\"1h30m\"`".to_owned()
        }
    }
}

// Input:  [endpoints.shop.orders.pay]
// Output: write `[endpoints."shop.orders.pay"]`
fn explain_missing_quotes(endpoint: &str, name: &str, mut inner: &DeTable<'_>) -> String {
    let mut path = format!("{endpoint}.{name}");
    while let Some((name, value)) = inner.iter().next()
        && let DeValue::Table(deeper) = value.get_ref()
    {
        path.push('.');
        path.push_str(name.get_ref());
        inner = deeper;
    }
    let path = escape(&path);
    format!("the name of an endpoint must be in quotes: write `[endpoints.\"{path}\"]`")
}

/// Accepts the values of the option `name`, the names made from the paths of functions, and routes. Returns the name as
/// endpoints have it.
fn read_name(name: &str) -> Result<String, String> {
    match RouteName::read(name) {
        Some(Ok(route)) => Ok(route.spelled().to_owned()),
        Some(Err(invalid)) => Err(format!("it {}", invalid.why())),
        None => check_name(name).map(|()| name.to_owned()),
    }
}

/// Whether this is the name of a function.
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("it is empty".to_owned());
    }
    if name.len() > LONGEST_NAME {
        return Err(format!("it is longer than {LONGEST_NAME} bytes"));
    }
    if name.contains("::") {
        let dots = name.replace("::", ".");
        return Err(format!(
            "write dots instead of `::`, as in `{}`",
            escape(&dots)
        ));
    }
    let odd = |c: &char| c.is_control() || ['{', '}'].contains(c);
    match name.chars().find(odd) {
        Some(c) => Err(format!("no name of an endpoint has the character {c:?}")),
        None => Ok(()),
    }
}

const LONGEST_NAME: usize = 200;

#[cfg(test)]
mod tests;
