//! One guarded function in the list for operators: its name, and the settings in force.

use std::fmt;
use std::time::Duration;

use super::overrides::{Applied, IgnoredSetting, Overrides, Resolved};
use super::setting::{Origin, Setting};
use crate::policy::{OnStoreError, Policy, SetIn, Settle};
use crate::store::rows::DEFAULT_ROW_WAIT;

/// A guarded function and the settings in force for it. Prints as one line.
///
/// Functions that share a name are one endpoint, with the attribute of the function that was called last.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointInfo {
    pub(super) name: String,
    /// The prefix of the handle on which the function was called, if another handle makes the list.
    pub(super) prefix: Option<String>,
    pub(super) called: bool,
    attribute_known: bool,
    shown: Overrides,
    ignored: Vec<IgnoredSetting>,
}

impl EndpointInfo {
    pub(super) fn new(name: &str, attribute: Option<Policy>, resolved: &Resolved) -> Self {
        let Some(attribute) = attribute else {
            return Self::with(name, false, resolved.without_attribute(), Vec::new());
        };
        let Applied {
            policy,
            overrides,
            ignored,
        } = resolved.apply(attribute);
        let in_code = match attribute.set_in {
            SetIn::Attribute => Origin::Attribute,
            SetIn::Layer { .. } => Origin::Layer,
        };
        let mut in_attribute = Overrides::of_attribute(&attribute, &in_code);
        if let SetIn::Layer {
            has_default_ttl: true,
        } = attribute.set_in
        {
            in_attribute.ttl = Some(Setting::new(attribute.ttl, Origin::Default));
        }
        let defaults = if attribute.tx {
            Overrides {
                wait: Some(Setting::new(DEFAULT_ROW_WAIT, Origin::Default)),
                ..Overrides::default()
            }
        } else {
            let lease = policy.times().map_or(policy.ttl, |times| times.lease_time);
            Overrides {
                lease: Some(Setting::new(lease, Origin::Default)),
                on_store_error: Some(Setting::new(OnStoreError::default(), Origin::Default)),
                ..Overrides::default()
            }
        };
        let shown = overrides.or(in_attribute).or(defaults);
        Self::with(name, true, shown, ignored)
    }

    fn with(
        name: &str,
        attribute_known: bool,
        shown: Overrides,
        ignored: Vec<IgnoredSetting>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            prefix: None,
            called: false,
            attribute_known,
            shown,
            ignored,
        }
    }

    /// Notes that the function was called on the handle that makes the list.
    pub(super) fn mark_called(self) -> Self {
        Self {
            called: true,
            ..self
        }
    }

    /// Notes that the function was called on another handle, with this prefix.
    pub(super) fn mark_called_on(self, prefix: &str) -> Self {
        Self {
            prefix: Some(prefix.to_owned()),
            ..self.mark_called()
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The prefix of the handle that runs the function, if another handle makes the list.
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// The name of each setting that has a value, the value as a file writes it, and its origin.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, String, &Origin)> {
        self.shown.texts()
    }

    /// How long a key stays taken. `None` if the attribute has an expression that no call has evaluated yet.
    pub fn ttl(&self) -> Option<&Setting<Duration>> {
        self.shown.ttl.as_ref()
    }

    /// How long a claim is stored after the last renewal by its holder. `None` if that is unknown before the first call, or if
    /// there is no lease, as with `tx`.
    pub fn lease(&self) -> Option<&Setting<Duration>> {
        self.shown.lease.as_ref()
    }

    /// How long a key stays taken after its claim at least. `None` if it becomes free with the end of the call, or if that is unknown
    /// before the first call.
    pub fn at_least(&self) -> Option<&Setting<Duration>> {
        self.shown.at_least.as_ref()
    }

    /// How long a duplicate of a running call waits. `None` if it does not wait, or if that is unknown before the first call.
    pub fn wait(&self) -> Option<&Setting<Duration>> {
        self.shown.wait.as_ref()
    }

    /// How many calls hold a key at once. `None` if one does, or if that is unknown before the first call.
    pub fn permits(&self) -> Option<&Setting<u32>> {
        self.shown.permits.as_ref()
    }

    /// What happens when the store is unavailable. `None` if that is unknown before the first call, or if the store is not
    /// used, as with `tx`.
    pub fn on_store_error(&self) -> Option<&Setting<OnStoreError>> {
        self.shown.on_store_error.as_ref()
    }

    /// When a call returns, after its body has ended. `None` if it awaits its end, or if that is unknown before the first call.
    pub fn settle(&self) -> Option<&Setting<Settle>> {
        self.shown.settle.as_ref()
    }

    /// Whether the bodies run unguarded. `None` if no setting decides this, so that they are guarded.
    pub fn disabled(&self) -> Option<&Setting<bool>> {
        self.shown.disabled.as_ref()
    }

    /// The settings that are ignored because they do not fit the attribute, one line for each.
    pub fn ignored(&self) -> Vec<String> {
        let line = |ignored: &IgnoredSetting| ignored.describe(&self.name);
        self.ignored.iter().map(line).collect()
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
        for (name, value, origin) in self.settings() {
            write!(f, "{joint}{name} = {value} ({origin})")?;
            joint = ", ";
        }
        if !self.attribute_known {
            let rest = if joint.is_empty() { "" } else { "the rest " };
            write!(
                f,
                "{joint}{rest}set by expressions in its attribute, unknown before its first call"
            )?;
        }
        for ignored in &self.ignored {
            write!(
                f,
                "; ignored: {} = {}, because {}",
                ignored.setting, ignored.value, ignored.why
            )?;
        }
        Ok(())
    }
}
