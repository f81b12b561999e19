//! Findings about the permissions of the user: sends each command once.

use ::redis::aio::ConnectionLike;
use ::redis::{Arg, Cmd, Value, cmd};
use idempotent_runtime::store::Level::{Note, Problem};
use idempotent_runtime::store::{Finding, Level, Mechanism};

use super::examination::Examination;
use crate::client::failure::is_forbidden;
use crate::client::listener::Listener;
use crate::record::removal::RemovalCommand;

impl<C: ConnectionLike> Examination<C> {
    pub(crate) async fn permissions(
        &mut self,
        removal: &RemovalCommand,
        listener: Option<&Listener>,
        key: &str,
    ) {
        let found_so_far = self.findings.len();
        for (needed, command) in needed(key) {
            self.permission(Problem, needed, &command, "without it no call runs", &[])
                .await;
        }
        if self.wanted > 0 {
            let advice = "without it no replica can be waited for";
            let wait = cmd("WAIT").arg(0).arg(1).clone();
            self.permission(Problem, "+wait", &wait, advice, &[]).await;
        }
        if let Some(listener) = listener {
            self.hints(listener, key).await;
        }
        if removal.is_refused() {
            let found = "this user may not run the server's own command to compare and delete";
            self.report(
                Note,
                found,
                "allow `+delifeq` or `+delex`: without it removals need a script",
            );
        }
        if self.findings.len() == found_so_far {
            self.fine("this user may send every command that calls need");
        }
        for (needed, command) in needed_by_filters(key) {
            let why = "without it Bloom filters do not work";
            self.permission(Note, needed, &command, why, &[Mechanism::Bloom])
                .await;
        }
    }

    async fn hints(&mut self, listener: &Listener, key: &str) {
        let advice = "with it a settled call wakes its waiting duplicates";
        let publish = cmd("PUBLISH").arg(key).arg("").clone();
        self.permission(Note, "+publish", &publish, advice, &[])
            .await;
        if listener.subscribe(key).await.is_none() {
            let found = "this user cannot subscribe to changes of a key";
            let advice = format!(
                "allow `+subscribe +unsubscribe`, and the channels of the prefix: {advice}"
            );
            self.report(Note, found, &advice);
        }
    }

    async fn permission(
        &mut self,
        level: Level,
        needed: &str,
        command: &Cmd,
        why: &str,
        needed_by: &[Mechanism],
    ) {
        if let Err(error) = self.ask::<Value>(command).await
            && is_forbidden(&error)
        {
            let name = command.args_iter().next().map(|arg| match arg {
                Arg::Simple(name) => String::from_utf8_lossy(name).into_owned(),
                _ => String::new(),
            });
            let found = format!(
                "this user may not send {}: {error}",
                name.unwrap_or_default()
            );
            // The texts differ by version; the text about a command has `to run the … command`.
            let says = |text: &str| error.detail().is_some_and(|detail| detail.contains(text));
            let needed = if says("keys") || says("access a key") {
                "the keys of the prefix, such as `~idem:*`".to_owned()
            } else if says("channel") {
                "the channels of the prefix, such as `&idem:*`".to_owned()
            } else {
                format!("`{needed}`")
            };
            let finding = Finding::new(level, found).advise(format!("allow {needed}: {why}"));
            self.add(finding.needed_by(needed_by.iter().copied()));
        }
    }
}

/// The commands that only Bloom filters need. They leave no record under the key.
fn needed_by_filters(key: &str) -> [(&'static str, Cmd); 5] {
    let on = |name: &str, more: &[&str]| {
        let mut command = cmd(name);
        command.arg(key).arg(more);
        command
    };
    [
        ("+time", cmd("TIME")),
        ("+pexpireat", on("PEXPIREAT", &["1"])),
        ("+getbit", on("GETBIT", &["0"])),
        ("+bitfield", on("BITFIELD", &["GET", "u1", "0"])),
        ("+bitcount", on("BITCOUNT", &[])),
    ]
}

/// The permissions that every call needs, each with an example command.
fn needed(key: &str) -> [(&'static str, Cmd); 7] {
    let on = |name: &str, more: &[&str]| {
        let mut command = cmd(name);
        command.arg(key).arg(more);
        command
    };
    let script = |name: &str, script: &str| {
        let mut command = cmd(name);
        command.arg(script).arg(1).arg(key);
        command
    };
    [
        ("+set", on("SET", &["doctor", "NX", "PX", "60000"])),
        ("+get", on("GET", &[])),
        ("+pttl", on("PTTL", &[])),
        ("+pexpire", on("PEXPIRE", &["60000"])),
        (
            "+evalsha",
            script("EVALSHA", "0000000000000000000000000000000000000000"),
        ),
        ("+eval", script("EVAL", "return 1")),
        ("+del", on("DEL", &[])),
    ]
}
