//! An operation of a batch.

use ::redis::Cmd;
use bytes::Bytes;

use super::super::record_scripts::REMOVE;
use super::super::script::Script;
use crate::batch::Operation;

/// An operation that owns its arguments.
pub(in super::super) struct Request {
    pub(super) kind: Kind,
    pub(super) size: usize,
    pub(super) digest: Option<u64>,
}

pub(super) enum Kind {
    Command(Call),
    Removal(Removal),
}

/// One command of a pipeline.
pub(super) struct Call {
    pub(super) command: Cmd,
    /// The script that the command calls by its hash.
    pub(super) script: Option<&'static Script>,
    /// A command after this command, whose reply does not matter.
    pub(super) notification: Option<Box<Cmd>>,
}

pub(super) struct Removal {
    pub(super) key: Box<str>,
    pub(super) expected: Bytes,
    pub(super) notifies: bool,
    /// The server does not know the hash of the script.
    pub(super) by_source: bool,
}

impl Request {
    /// One command with arguments of about `size` bytes.
    pub(in super::super) fn command(command: Cmd, size: usize, digest: Option<u64>) -> Self {
        let call = Call {
            command,
            script: None,
            notification: None,
        };
        Self {
            kind: Kind::Command(call),
            size: size + OVERHEAD,
            digest,
        }
    }

    /// A call of a script.
    pub(in super::super) fn script(
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        digest: Option<u64>,
    ) -> Self {
        let lengths = args.iter().map(|arg| arg.len() + OVERHEAD_OF_ARG);
        let lengths = lengths.chain(keys.iter().map(|key| key.len() + OVERHEAD_OF_ARG));
        let size = lengths.sum();
        let request = Self::command(script.by_hash(keys, args), size, digest);
        request.of_script(script)
    }

    fn of_script(mut self, script: &'static Script) -> Self {
        if let Kind::Command(call) = &mut self.kind {
            call.script = Some(script);
        }
        self
    }

    /// Sends `notification` right after the command.
    pub(in super::super) fn and_notify(mut self, notification: Cmd) -> Self {
        if let Kind::Command(call) = &mut self.kind {
            call.notification = Some(Box::new(notification));
        }
        self
    }

    /// A removal by a script, which may publish a notification on the channel with the name of the key.
    pub(in super::super) fn removal(
        key: &str,
        expected: &Bytes,
        notifies: bool,
        digest: u64,
    ) -> Self {
        let removal = Removal {
            key: key.into(),
            expected: expected.clone(),
            notifies,
            by_source: false,
        };
        Self {
            kind: Kind::Removal(removal),
            size: key.len() + expected.len() + OVERHEAD,
            digest: Some(digest),
        }
    }

    /// The same, but a removal has its own script.
    pub(super) fn singly(self) -> Self {
        let Kind::Removal(removal) = &self.kind else {
            return self;
        };
        let args = [&removal.expected[..], removal.key.as_bytes()];
        let args = if removal.notifies {
            &args[..]
        } else {
            &args[..1]
        };
        Self::script(&REMOVE, &[&removal.key], args, self.digest)
    }
}

/// About how many bytes a command needs beside its arguments, and an argument beside its text.
const OVERHEAD: usize = 64;
const OVERHEAD_OF_ARG: usize = 8;

impl Operation for Request {
    fn size(&self) -> usize {
        self.size
    }

    fn digest(&self) -> Option<u64> {
        self.digest
    }
}
