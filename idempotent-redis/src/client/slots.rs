//! Which node of a cluster has which slots.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use ::redis::{Cmd, FromRedisValue as _, RedisError, Value, cmd};

use crate::client::url::Host;

/// The masters of a cluster, and their slots. `N` is the connection to a master.
pub(crate) struct Slots<N> {
    table: RwLock<SlotTable<N>>,
    asked_at: Mutex<Option<Instant>>,
}

struct SlotTable<N> {
    nodes: Vec<(Host, N)>,
    /// The index of the node of each slot, or [`NOBODY`].
    owners: Box<[u16]>,
}

/// The slots from the first to the second number, and their master.
type Range = (u16, u16, Host);

const SLOTS: usize = 16_384;
const NOBODY: u16 = u16::MAX;
/// The shortest time between two questions for the slots.
const PAUSE: Duration = Duration::from_millis(500);

impl<N: Clone> Slots<N> {
    pub(crate) fn new() -> Self {
        let table = SlotTable {
            nodes: Vec::new(),
            owners: vec![NOBODY; SLOTS].into(),
        };
        Self {
            table: RwLock::new(table),
            asked_at: Mutex::new(None),
        }
    }

    /// The connection to the master of a slot, if it is known.
    pub(crate) fn owner(&self, slot: u16) -> Option<N> {
        let table = self.table();
        let owner = usize::from(*table.owners.get(usize::from(slot))?);
        table
            .nodes
            .get(owner)
            .map(|(_, connection)| connection.clone())
    }

    /// Whether a master has this connection.
    pub(crate) fn has(&self, is_this: impl Fn(&N) -> bool) -> bool {
        let table = self.table();
        table
            .nodes
            .iter()
            .any(|(_, connection)| is_this(connection))
    }

    /// Whether to ask for the slots now.
    pub(crate) fn should_ask(&self) -> bool {
        let asked_at = self.asked_at.lock();
        let mut asked_at = asked_at.unwrap_or_else(PoisonError::into_inner);
        let is_due = asked_at.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_due {
            *asked_at = Some(Instant::now());
        }
        is_due
    }

    /// Adopts the answer to [`question`]. A master keeps its connection.
    pub(crate) fn adopt(&self, answer: Value, connect: impl Fn(&Host) -> Option<N>) {
        let mut ranges = read(answer).peekable();
        if ranges.peek().is_none() {
            // The answer of a node that does not know the cluster, for example after a reset.
            return;
        }
        let mut table = self.table_mut();
        let known = std::mem::take(&mut table.nodes);
        table.owners.fill(NOBODY);
        for (first, last, host) in ranges {
            let found = table.nodes.iter().position(|(node, _)| *node == host);
            let owner = found.or_else(|| {
                let same = known.iter().find(|(node, _)| *node == host);
                let connection = same.map(|(_, connection)| connection.clone());
                table
                    .nodes
                    .push((host.clone(), connection.or_else(|| connect(&host))?));
                Some(table.nodes.len() - 1)
            });
            let owner = owner.and_then(|owner| u16::try_from(owner).ok());
            let slots = usize::from(first)..=usize::from(last);
            if let Some(slots) = table.owners.get_mut(slots) {
                slots.fill(owner.unwrap_or(NOBODY));
            }
        }
    }

    /// The connection to the node that a redirection names, and whether the redirection is for this command only (`ASK`).
    ///
    /// Notes the new master of a slot that has moved (`MOVED`). If this master is not known, the client of the cluster sends the next
    /// commands of the slot.
    pub(crate) fn follow(&self, redirection: &RedisError) -> Option<(N, bool)> {
        let (address, slot) = redirection.redirect_node()?;
        let asks = redirection.code() == Some("ASK");
        let host = address.rsplit_once(':');
        let host = host.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let mut table = self.table_mut();
        let mut nodes = table.nodes.iter();
        let node = nodes.position(|((name, port), _)| host == Some((name, *port)));
        if !asks && let Some(entry) = table.owners.get_mut(usize::from(slot)) {
            let owner = node.and_then(|node| u16::try_from(node).ok());
            *entry = owner.unwrap_or(NOBODY);
        }
        let (_, connection) = table.nodes.get(node?)?;
        Some((connection.clone(), asks))
    }

    fn table(&self) -> RwLockReadGuard<'_, SlotTable<N>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, SlotTable<N>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a node for the slots of all nodes.
pub(crate) fn question() -> Cmd {
    cmd("CLUSTER").arg("SLOTS").clone()
}

/// The ranges of an answer to [`question`] whose masters have an address.
///
/// A node without a name in the answer has the name of the answering node, which is not known here.
fn read(answer: Value) -> impl Iterator<Item = Range> {
    read_all(answer).filter(|(first, last, (name, _))| {
        let is_name = !["", "?", "0.0.0.0", "::"].contains(&name.as_str());
        is_name && first <= last
    })
}

/// The first slot of each master in an answer to [`question`], in order, and a name of the master.
///
/// Also has nodes without an address, unlike [`Slots`]: a cluster of one node need not announce any.
pub(crate) fn masters(answer: Value) -> Vec<(u16, String)> {
    let name = |(first, _, (host, port)): Range| (first, format!("{host}:{port}"));
    let mut ranges: Vec<_> = read_all(answer).map(name).collect();
    ranges.sort_unstable();
    let mut masters: Vec<(u16, String)> = Vec::new();
    for (first, name) in ranges {
        if !masters.iter().any(|(_, known)| *known == name) {
            masters.push((first, name));
        }
    }
    masters
}

/// The readable ranges of an answer to [`question`]. The name of a master may be empty.
fn read_all(answer: Value) -> impl Iterator<Item = Range> {
    let ranges = match answer {
        Value::Array(ranges) => ranges,
        _ => Vec::new(),
    };
    ranges.into_iter().filter_map(read_range)
}

fn read_range(range: Value) -> Option<Range> {
    let Value::Array(range) = range else {
        return None;
    };
    let mut range = range.into_iter();
    let first = u16::from_redis_value(range.next()?).ok()?;
    let last = u16::from_redis_value(range.next()?).ok()?;
    let Value::Array(master) = range.next()? else {
        return None;
    };
    let mut master = master.into_iter();
    let name = Option::<String>::from_redis_value(master.next()?).ok()?;
    let port = u16::from_redis_value(master.next()?).ok()?;
    Some((first, last, (name.unwrap_or_default(), port)))
}

#[cfg(test)]
mod tests {
    use ::redis::parse_redis_value;

    use super::*;

    const ANSWER: &str = "*3\r\n\
        *3\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n\
        *4\r\n:5461\r\n:10922\r\n*3\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n*3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$2\r\nid\r\n\
        *3\r\n:10923\r\n:16383\r\n*3\r\n$0\r\n\r\n:7002\r\n$2\r\nid\r\n";

    fn adopt(slots: &Slots<u16>, answer: &str) {
        let answer = parse_redis_value(answer.as_bytes()).expect("a reply");
        slots.adopt(answer, |(_, port)| Some(*port));
    }

    fn redirection(reply: &str) -> RedisError {
        let reply = parse_redis_value(format!("-{reply}\r\n").as_bytes());
        reply.and_then(Value::extract_error).expect_err("an error")
    }

    #[test]
    fn each_slot_has_the_master_of_the_answer() {
        let slots = Slots::new();
        assert_eq!(slots.owner(0), None);
        adopt(&slots, ANSWER);
        let owners = [0, 5460, 5461, 10922, 10923, 16383].map(|slot| slots.owner(slot));
        let (first, second) = (Some(7000), Some(7001));
        assert_eq!(owners, [first, first, second, second, None, None]);
        assert_eq!(slots.owner(u16::MAX), None);
    }

    #[test]
    fn each_master_is_listed_once_with_its_first_slot() {
        let answer = parse_redis_value(ANSWER.as_bytes()).expect("a reply");
        let expected = [
            (0, "127.0.0.1:7000"),
            (5461, "127.0.0.1:7001"),
            (10923, ":7002"),
        ];
        let expected = expected.map(|(slot, name)| (slot, name.to_owned()));
        assert_eq!(masters(answer), expected);
    }

    #[test]
    fn a_master_keeps_its_connection() {
        let slots = Slots::new();
        let answer = || parse_redis_value(ANSWER.as_bytes()).expect("a reply");
        slots.adopt(answer(), |_| Some("old"));
        slots.adopt(answer(), |_| Some("new"));
        assert_eq!(slots.owner(0), Some("old"));
    }

    #[test]
    fn a_moved_slot_goes_to_its_new_master_or_to_nobody() {
        let slots = Slots::new();
        adopt(&slots, ANSWER);
        let asked = slots.follow(&redirection("ASK 7 127.0.0.1:7001"));
        assert_eq!(asked, Some((7001, true)));
        assert_eq!(
            slots.owner(7),
            Some(7000),
            "a slot that moves has its old master"
        );
        for (reply, expected) in [
            ("MOVED 7 127.0.0.1:7001", Some((7001, false))),
            ("MOVED 8 127.0.0.1:7009", None),
            ("MOVED 9 :7001", None),
            ("MOVED 65535 127.0.0.1:7001", Some((7001, false))),
            ("MOVED", None),
            ("CLUSTERDOWN The cluster is down", None),
        ] {
            assert_eq!(slots.follow(&redirection(reply)), expected, "{reply}");
        }
        let owners = [6, 7, 8, 9, 10].map(|slot| slots.owner(slot));
        assert_eq!(owners, [Some(7000), Some(7001), None, None, Some(7000)]);
    }

    #[test]
    fn a_malformed_answer_gives_no_owners() {
        for answer in [
            "+OK\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*2\r\n:0\r\n:5\r\n",
            "*1\r\n*3\r\n:5\r\n:0\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:60000\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\n?\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:5\r\n*1\r\n$1\r\nh\r\n",
        ] {
            let slots = Slots::new();
            adopt(&slots, answer);
            assert_eq!(slots.owner(0), None, "{answer:?}");
        }
    }

    #[test]
    fn the_slots_are_not_asked_for_again_at_once() {
        let slots = Slots::<()>::new();
        assert!(slots.should_ask());
        assert!(!slots.should_ask());
    }
}
