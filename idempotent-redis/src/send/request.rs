//! An operation of a batch.

use ::redis::Cmd;
use idempotent_runtime::port::redis::Operation;

use crate::script::Script;
use crate::send::op::{Op, OpKind};

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
    /// `digest`: see [`Operation::digest`]. `shares_call`: one call of a script may do this operation and others.
    pub(crate) fn new(op: &Op<'_>, digest: Option<u64>, shares_call: bool) -> Self {
        let args = op.args.iter().map(|arg| arg.len());
        let lengths = args.chain(op.keys.iter().map(|key| key.len()));
        let size = lengths.map(|length| length + OVERHEAD_OF_ARG).sum();
        let script = match op.call {
            OpKind::Script(script) => Some(script),
            OpKind::Command(_) | OpKind::SetIfFree(_) | OpKind::SetIfEqual => None,
        };
        Self {
            script,
            notification: op.notifies.then(|| Box::new(op.notification())),
            is_alone: !shares_call,
            ..Self::command(op.encode(), size, digest)
        }
    }

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
