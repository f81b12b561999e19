//! An operation as a value: what to send, and how it may go together with others.

use ::redis::{Cmd, RedisError, Value, cmd};
use idempotent_runtime::store::StoreError;

use crate::script::{self, Script};

/// One operation. It borrows its keys and its arguments, so a layer may send it again.
#[derive(Clone, Copy)]
pub(crate) struct Op<'a> {
    pub(crate) call: OpKind,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) order: Order,
    /// Publishes a notification on the channel with the name of the key, after the command. A script does this by itself.
    pub(crate) notifies: bool,
    /// The script that is called instead if the operation must wait for replicas.
    replicated: Option<&'static Script>,
}

/// What an operation calls with its keys and arguments.
#[derive(Clone, Copy)]
pub(crate) enum OpKind {
    Script(&'static Script),
    /// A command of the server, by its name.
    Command(&'static str),
    /// `SET key value NX GET PX …` with this time to live. Its only argument is the value.
    SetIfFree(u64),
    /// `SET key value IFEQ expected PX …`. Its arguments are the expected value, the value, and the time to live in digits, as for
    /// the script that does the same.
    SetIfEqual,
}

/// How an operation may go in a batch with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// It goes in no batch.
    Alone,
    /// Operations on one key follow each other in different batches.
    OfKey,
    /// Many callers use the key, and a batch may have many operations on it.
    Any,
    /// As `OfKey`, but with other renewals only, on their own connection.
    Renewal,
}

/// The server's answer to an operation.
pub(crate) type Reply = Result<Value, SendError>;

/// Why an operation has no answer of the server.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The server or the client refused it, or the connection broke.
    Redis(RedisError),
    /// The queue of the batches refused it, or too few replicas have it.
    Store(StoreError),
}

impl<'a> Op<'a> {
    /// A call of a script, which goes in no batch.
    pub(crate) fn script(
        script: &'static Script,
        keys: &'a [&'a str],
        args: &'a [&'a [u8]],
    ) -> Self {
        Self::new(OpKind::Script(script), keys, args)
    }

    /// A command, which goes in no batch: its name, its keys, its arguments.
    pub(crate) fn command(name: &'static str, keys: &'a [&'a str], args: &'a [&'a [u8]]) -> Self {
        Self::new(OpKind::Command(name), keys, args)
    }

    /// Stores the value, in no batch, if the key is free.
    pub(crate) fn set_if_free(keys: &'a [&'a str], value: &'a [&'a [u8]], ttl: u64) -> Self {
        Self::new(OpKind::SetIfFree(ttl), keys, value)
    }

    /// Replaces the value, in no batch, if it is the expected one.
    pub(crate) fn set_if_equal(keys: &'a [&'a str], args: &'a [&'a [u8]; 3]) -> Self {
        Self::new(OpKind::SetIfEqual, keys, args)
    }

    fn new(call: OpKind, keys: &'a [&'a str], args: &'a [&'a [u8]]) -> Self {
        Self {
            call,
            keys,
            args,
            order: Order::Alone,
            notifies: false,
            replicated: None,
        }
    }

    pub(crate) fn in_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    pub(crate) fn and_notify(self, notifies: bool) -> Self {
        Self { notifies, ..self }
    }

    /// Waits for replicas if the store has a number of them, by this script.
    ///
    /// The script writes even if an earlier send has already done so, because `WAIT` waits for the writes of its connection. Its
    /// reply is a number above zero, or an array, if the write is done or was done before.
    pub(crate) fn replicated_by(self, script: &'static Script) -> Self {
        Self {
            replicated: Some(script),
            ..self
        }
    }

    /// The operation in the form that waits for replicas; `None` if it does not wait.
    pub(crate) fn replicated(self) -> Option<Self> {
        let script = self.replicated?;
        Some(Self {
            call: OpKind::Script(script),
            ..self
        })
    }

    /// The key that says which node has the operation, and which operations come before it.
    pub(crate) fn key(&self) -> &'a str {
        self.keys[0]
    }

    /// The command, with a script by its hash.
    pub(crate) fn encode(&self) -> Cmd {
        match self.call {
            OpKind::Script(script) => script.by_hash(self.keys, self.args),
            OpKind::Command(name) => script::command(name, self.keys, self.args),
            OpKind::SetIfFree(ttl) => {
                let mut set = script::command("SET", self.keys, self.args);
                set.arg("NX").arg("GET").arg("PX").arg(ttl);
                set
            }
            OpKind::SetIfEqual => {
                let [expected, value, ttl] = [0, 1, 2].map(|at| self.args[at]);
                let set: [&[u8]; 5] = [value, b"IFEQ", expected, b"PX", ttl];
                script::command("SET", self.keys, &set)
            }
        }
    }

    /// The command to send again after this error: with a script by its source, if the server did not know its hash.
    pub(crate) fn by_source(&self, error: &RedisError) -> Option<Cmd> {
        match self.call {
            OpKind::Script(script) if Script::is_unknown(error) => {
                Some(script.by_source(self.keys, self.args))
            }
            _ => None,
        }
    }

    /// The command after a command that [`notifies`](Self::notifies). Its reply does not matter.
    pub(crate) fn notification(&self) -> Cmd {
        cmd("PUBLISH").arg(self.key()).arg("").clone()
    }
}
