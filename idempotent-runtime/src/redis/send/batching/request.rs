//! An operation of a batch.

use ::redis::Cmd;

use crate::batch::Operation;
use crate::redis::script::Script;

/// An operation that owns its arguments: one command of a pipeline.
pub(crate) struct Request {
    pub(crate) command: Cmd,
    /// The script that the command calls by its hash.
    pub(crate) script: Option<&'static Script>,
    /// A command after this command, whose reply does not matter.
    pub(crate) notification: Option<Box<Cmd>>,
    /// One call of the script does only this operation.
    pub(crate) is_alone: bool,
    /// The server does not have the script that does many operations.
    pub(crate) is_by_source: bool,
    pub(crate) size: usize,
    digest: Option<u64>,
}

impl Request {
    /// One command with arguments of about `size` bytes.
    pub(crate) fn command(command: Cmd, size: usize, digest: Option<u64>) -> Self {
        Self {
            command,
            script: None,
            notification: None,
            is_alone: false,
            is_by_source: false,
            size: size + OVERHEAD,
            digest,
        }
    }

    /// A call of a script. Operations of a script [of each](Script::of_each) may share a call.
    pub(crate) fn script(
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        digest: Option<u64>,
    ) -> Self {
        let lengths = args.iter().map(|arg| arg.len() + OVERHEAD_OF_ARG);
        let lengths = lengths.chain(keys.iter().map(|key| key.len() + OVERHEAD_OF_ARG));
        let size = lengths.sum();
        Self {
            script: Some(script),
            ..Self::command(script.by_hash(keys, args), size, digest)
        }
    }

    /// Sends `notification` right after the command.
    pub(crate) fn and_notify(mut self, notification: Cmd) -> Self {
        self.notification = Some(Box::new(notification));
        self
    }

    /// The same, in a call of its own.
    pub(crate) fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// The same, after the server did not have the script that does many operations.
    pub(crate) fn by_source(mut self) -> Self {
        self.is_by_source = true;
        self
    }

    /// With which operations this one may share a call: those of the same script with equally many arguments.
    pub(crate) fn shape(&self) -> Option<(&'static Script, usize)> {
        let script = self.script.filter(|script| script.is_of_each())?;
        (!self.is_alone).then(|| (script, self.command.args_iter().len()))
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
