//! Sends the commands on records of a cluster straight to the master of their slot.

use std::ptr;
use std::sync::Arc;

use ::redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, RetryMethod, Value, cmd};
use tokio::runtime::Handle;

use crate::client::connection::RedisConnection;
use crate::client::link::{CONNECT_TIMEOUT, Link, in_time};
use crate::client::probe::probe_command;
use crate::client::slot::slot_of;
use crate::client::slots::{Slots, question};
use crate::client::unusable::{have_unusable, makes_unusable};
use crate::mutation::mutation;

/// The connection to a master, and its link.
pub(crate) struct Master {
    connection: RedisConnection,
    made: (u64, Link),
}

impl RedisConnection {
    /// Whether the other connection was made from the same one, and goes to the same servers.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        ptr::eq(self.topology(), other.topology())
    }

    /// Tests whether the connection still answers, and drops it if not.
    pub(crate) fn probe(&self) {
        if let Some((generation, _)) = self.made() {
            self.start_probe(generation, probe_command(None));
        }
    }

    /// The master of a slot, if this is a connection to a cluster whose commands go straight to the masters. `None` if the client
    /// of the cluster must send a command, because the master is not known, is not connected or does not answer.
    pub(crate) fn master_of(&self, slot: u16) -> Option<Self> {
        self.find_master(slot, |master| {
            master.if_usable(|_, _| ())?;
            Some(master)
        })
    }

    /// Whether this connection goes to a master of the cluster now.
    pub(crate) fn has_master(&self, connection: &Self) -> bool {
        let masters = self.masters();
        masters.is_some_and(|masters| masters.has(|master| master.is_same(connection)))
    }

    /// The master of the slot of a command, as [`master_of`](Self::master_of). `None` also if the command has no slot.
    pub(crate) fn master_for(&self, cmd: Option<&Cmd>) -> Option<Master> {
        self.masters()?;
        self.find_master(slot_of(cmd?)?, Self::into_usable)
    }

    fn find_master<T>(&self, slot: u16, usable: impl FnOnce(Self) -> Option<T>) -> Option<T> {
        let master = self.masters()?.owner(slot).and_then(usable);
        if master.is_none() {
            self.learn_slots();
        }
        master
    }

    fn into_usable(self) -> Option<Master> {
        let made = self.usable()?;
        Some(Master {
            connection: self,
            made,
        })
    }

    /// Whether a command must be sent again after this answer of a master. Notes where its slot is now.
    pub(crate) fn must_repeat(&self, error: &RedisError) -> bool {
        let Some(masters) = self.masters().filter(|_| is_untouched(error)) else {
            return false;
        };
        masters.follow(error);
        self.learn_slots();
        !mutation!(ReturnsRedirection)
    }

    /// Asks for the masters of all slots, unless this has just been done.
    fn learn_slots(&self) {
        let (Some((_, mut link)), Ok(runtime)) = (self.made(), Handle::try_current()) else {
            return;
        };
        if !self.masters().is_some_and(Slots::should_ask) {
            return;
        }
        let connection = self.downgrade();
        runtime.spawn(async move {
            let answer = in_time(CONNECT_TIMEOUT, link.command(&question())).await;
            let answer = answer.and_then(Value::extract_error);
            if let (Ok(answer), Some(connection)) = (answer, connection.upgrade())
                && let Some(masters) = connection.masters()
            {
                masters.adopt(answer, |host| {
                    let node = connection.topology().node(host)?;
                    Some(Self::for_topology(Arc::new(node)))
                });
            }
        });
    }

    /// Sends a command to the master, and once more to the node that the master names. `None` if no node has run the command, and
    /// the client of the cluster must send it.
    ///
    /// A command whose answer is lost with the connection is not sent again, so each answer is the answer to the only run.
    pub(crate) async fn send_straight(
        &self,
        master: Master,
        cmd: &Cmd,
    ) -> Option<RedisResult<Value>> {
        let send = async |link: &mut Link| link.command(cmd).await;
        let reply = master.send(Some(cmd), send, makes_unusable).await;
        match reply.and_then(Value::extract_error) {
            Err(error) if is_untouched(&error) => {
                let mut alone = Pipeline::with_capacity(1);
                alone.add_command(cmd.clone());
                let mut replies = match Box::pin(self.send_on(&error, &alone)).await? {
                    Ok(replies) => replies.into_iter(),
                    Err(error) => return Some(Err(error)),
                };
                replies.next().map(Value::extract_error)
            }
            reply => Some(reply),
        }
    }

    /// As [`send_straight`](Self::send_straight), for a command on a record and other commands without a key.
    pub(crate) async fn send_all_straight(
        &self,
        master: Master,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> Option<RedisResult<Vec<Value>>> {
        let send = async |link: &mut Link| link.pipeline(pipeline, offset, count).await;
        let first = pipeline.cmd_iter().next();
        let replies = master.send(first, send, |replies| have_unusable(replies));
        match refused(replies.await) {
            Ok(replies) => Some(replies),
            Err(error) => Box::pin(self.send_on(&error, pipeline)).await,
        }
    }

    /// Sends commands to the node that a master names in this refusal.
    async fn send_on(
        &self,
        refusal: &RedisError,
        pipeline: &Pipeline,
    ) -> Option<RedisResult<Vec<Value>>> {
        self.learn_slots();
        let (node, asks) = self.masters()?.follow(refusal)?;
        let node = node.into_usable()?;
        let mut commands = Pipeline::with_capacity(1 + pipeline.len());
        if asks {
            commands.add_command(cmd("ASKING"));
        }
        for command in pipeline.cmd_iter() {
            commands.add_command(command.clone());
        }
        let send = async |link: &mut Link| link.pipeline(&commands, 0, commands.len()).await;
        let first = pipeline.cmd_iter().next();
        let replies = node.send(first, send, |replies| have_unusable(replies));
        let replies = replies.await.map(|mut replies| {
            if asks {
                replies.remove(0);
            }
            replies
        });
        refused(replies).ok()
    }
}

impl Master {
    async fn send<T>(
        self,
        cmd: Option<&Cmd>,
        send: impl AsyncFnOnce(&mut Link) -> RedisResult<T>,
        is_unusable_reply: impl FnOnce(&T) -> bool,
    ) -> RedisResult<T> {
        let sending = self
            .connection
            .send_by(self.made, cmd, send, is_unusable_reply);
        sending.await
    }
}

/// The refusal of the first command as an error, if its node has not run it.
fn refused(replies: RedisResult<Vec<Value>>) -> Result<RedisResult<Vec<Value>>, RedisError> {
    let refusal = match &replies {
        Ok(replies) => match replies.first() {
            Some(Value::ServerError(error)) => Some(error.clone().into()),
            _ => None,
        },
        Err(error) => Some(error.clone()),
    };
    match refusal.filter(is_untouched) {
        Some(refusal) => Err(refusal),
        None => Ok(replies),
    }
}

/// Whether a node has not run a command, and the client of a cluster would send the command again: to another node, or later. The
/// node has redirected or refused the command, or there is no connection to it.
fn is_untouched(error: &RedisError) -> bool {
    let is_refusal = matches!(error.kind(), ErrorKind::Server(_))
        && !matches!(error.retry_method(), RetryMethod::NoRetry);
    is_refusal || error.is_connection_refusal() || error.is_io_error() && mutation!(RepeatsLost)
}

#[cfg(test)]
mod tests {
    use ::redis::{make_extension_error, parse_redis_value};

    use super::*;

    #[test]
    fn only_a_command_that_no_node_has_run_is_sent_again() {
        for (reply, is_sent_again) in [
            ("MOVED 1 127.0.0.1:1", true),
            ("ASK 1 127.0.0.1:1", true),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                true,
            ),
            ("CLUSTERDOWN The cluster is down", true),
            ("LOADING Redis is loading the dataset in memory", true),
            ("MASTERDOWN Link with MASTER is down", true),
            (
                "READONLY You can't write against a read only replica.",
                true,
            ),
            ("NOSCRIPT No matching script.", false),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                false,
            ),
            ("WRONGTYPE Operation against a key", false),
        ] {
            let reply_of = parse_redis_value(format!("-{reply}\r\n").as_bytes());
            let error = reply_of.and_then(Value::extract_error);
            let error = error.expect_err("an error");
            assert_eq!(is_untouched(&error), is_sent_again, "{reply}");
        }
        for (kind, is_sent_again) in [
            (std::io::ErrorKind::ConnectionRefused, true),
            (std::io::ErrorKind::ConnectionReset, false),
            (std::io::ErrorKind::BrokenPipe, false),
            (std::io::ErrorKind::TimedOut, false),
        ] {
            let error = RedisError::from(std::io::Error::from(kind));
            assert_eq!(is_untouched(&error), is_sent_again, "{kind}");
        }
        let unknown = make_extension_error("NEW".to_owned(), None);
        assert!(!is_untouched(&unknown));
    }
}
