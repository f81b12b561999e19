//! A guarded function as operators see it: its name, and the settings in force for it.

use std::fmt;
use std::time::Duration;

use super::overrides::{Applied, LeftOut, Overrides, Resolved};
use super::setting::{Origin, Setting};
use crate::policy::{OnStoreError, Policy};
use crate::store::rows::DEFAULT_PATIENCE;

/// A guarded function and the settings in force for it. Prints as one line.
///
/// Functions that share a name are one endpoint, with the attribute of the one called last.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointInfo {
    pub(super) name: String,
    /// Of the handle that it was called on, if that is not the one whose list this is.
    pub(super) prefix: Option<String>,
    pub(super) called: bool,
    attribute_known: bool,
    shown: Overrides,
    left_out: Vec<LeftOut>,
}

impl EndpointInfo {
    pub(super) fn new(name: &str, attribute: Option<Policy>, resolved: &Resolved) -> Self {
        let Some(attribute) = attribute else {
            return Self::of(name, false, resolved.of_unknown(), Vec::new());
        };
        let Applied {
            policy,
            overrides,
            left_out,
        } = resolved.apply(attribute);
        let by_attribute = |value| Setting {
            value,
            origin: Origin::Attribute,
        };
        let by_default = |value| Setting {
            value,
            origin: Origin::Default,
        };
        if attribute.tx {
            let lowest = Overrides {
                ttl: Some(by_attribute(attribute.ttl)),
                wait: Some(match attribute.wait {
                    Some(wait) => by_attribute(wait),
                    None => by_default(DEFAULT_PATIENCE),
                }),
                ..Overrides::default()
            };
            return Self::of(name, true, overrides.over(lowest), left_out);
        }
        let lowest = Overrides {
            ttl: Some(by_attribute(attribute.ttl)),
            lease: Some(match attribute.lease {
                Some(lease) => by_attribute(lease),
                None => by_default(policy.times().map_or(policy.ttl, |times| times.lease)),
            }),
            wait: attribute.wait.map(by_attribute),
            on_store_error: Some(Setting {
                value: attribute.on_store_error.unwrap_or_default(),
                origin: match attribute.on_store_error {
                    Some(_) => Origin::Attribute,
                    None => Origin::Default,
                },
            }),
        };
        Self::of(name, true, overrides.over(lowest), left_out)
    }

    fn of(name: &str, attribute_known: bool, shown: Overrides, left_out: Vec<LeftOut>) -> Self {
        Self {
            name: name.to_owned(),
            prefix: None,
            called: false,
            attribute_known,
            shown,
            left_out,
        }
    }

    /// Says that it was called on the handle whose list this is.
    pub(super) fn called(self) -> Self {
        Self {
            called: true,
            ..self
        }
    }

    /// Says that it was called on another handle than the one whose list this is.
    pub(super) fn called_on(self, prefix: &str) -> Self {
        Self {
            prefix: Some(prefix.to_owned()),
            ..self.called()
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The prefix of the handle that runs it so, if that is another one than the handle whose list this is.
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// How long a key stays taken. `None`: an expression that no call has evaluated yet.
    pub fn ttl(&self) -> Option<&Setting<Duration>> {
        self.shown.ttl.as_ref()
    }

    /// How long an unfinished claim outlives a silent holder. `None`: not known before the first call, or there is
    /// none, as with `tx`.
    pub fn lease(&self) -> Option<&Setting<Duration>> {
        self.shown.lease.as_ref()
    }

    /// How long a duplicate of a running call waits. `None`: it does not, or that is not known before the first call.
    pub fn wait(&self) -> Option<&Setting<Duration>> {
        self.shown.wait.as_ref()
    }

    /// What happens when the store is unavailable. `None`: not known before the first call, or the store is not used, as
    /// with `tx`.
    pub fn on_store_error(&self) -> Option<&Setting<OnStoreError>> {
        self.shown.on_store_error.as_ref()
    }

    /// What is set for it but does not fit its attribute, and is left out: a line each.
    pub fn left_out(&self) -> Vec<String> {
        let line = |left_out: &LeftOut| left_out.of(&self.name);
        self.left_out.iter().map(line).collect()
    }
}

impl fmt::Display for EndpointInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(prefix) = &self.prefix {
            write!(f, " (on the handle with the prefix `{prefix}`)")?;
        }
        f.write_str(": ")?;
        let mut joint = "";
        for (name, setting) in [
            ("ttl", &self.shown.ttl),
            ("lease", &self.shown.lease),
            ("wait", &self.shown.wait),
        ] {
            if let Some(setting) = setting {
                write!(f, "{joint}{name} = {setting}")?;
                joint = ", ";
            }
        }
        if let Some(setting) = &self.shown.on_store_error {
            write!(f, "{joint}on_store_error = {setting}")?;
            joint = ", ";
        }
        if !self.attribute_known {
            let rest = if joint.is_empty() { "" } else { "the rest " };
            write!(
                f,
                "{joint}{rest}by expressions in its attribute, known with its first call"
            )?;
        }
        for left_out in &self.left_out {
            write!(
                f,
                "; left out: {} = {}, as {}",
                left_out.setting, left_out.value, left_out.why
            )?;
        }
        Ok(())
    }
}
