//! The messages of etcd's protocol, with the fields that the store uses. Numbers of fields and paths are etcd's.
//!
//! Written by hand, because code that is generated from the whole protocol needs the program `protoc` wherever it is built.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;

/// A method of etcd: its path, its request and its reply.
pub(crate) trait Method: Message + Clone + 'static {
    /// The path of the method.
    const PATH: &'static str;
    /// Its reply.
    type Reply: Message + Default + 'static;
}

macro_rules! method {
    ($request:ty, $path:literal, $reply:ty) => {
        impl Method for $request {
            const PATH: &'static str = concat!("/etcdserverpb.", $path);
            type Reply = $reply;
        }
    };
}

method!(Range, "KV/Range", RangeReply);
method!(Txn, "KV/Txn", TxnReply);
method!(Grant, "Lease/LeaseGrant", Lease);
method!(TimeToLive, "Lease/LeaseTimeToLive", Lease);
method!(Status, "Maintenance/Status", StatusReply);
method!(Alarm, "Maintenance/Alarm", AlarmReply);
method!(MemberList, "Cluster/MemberList", MemberListReply);
method!(Authenticate, "Auth/Authenticate", AuthenticateReply);
// These two are streams.
method!(KeepAlive, "Lease/LeaseKeepAlive", Lease);
method!(Watch, "Watch/Watch", WatchReply);

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $tag:literal $field:ident: $type:ty = [$($kind:tt)+],)* })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Message)]
            pub(crate) struct $name {
                $($(#[$about])* #[prost($($kind)+, tag = $tag)] pub(crate) $field: $type,)*
            }
        )+
    };
}

messages! {
    Header {
        "1" cluster: u64 = [uint64],
        "3" revision: i64 = [int64],
    }
    KeyValue {
        "1" key: Bytes = [bytes = "bytes"],
        "3" mod_revision: i64 = [int64],
        "5" value: Bytes = [bytes = "bytes"],
        "6" lease: i64 = [int64],
    }
    Range {
        "1" key: Bytes = [bytes = "bytes"],
        /// The first key after the range. Empty: only `key`. A zero byte: all keys from `key` on.
        "2" end: Bytes = [bytes = "bytes"],
        "3" limit: i64 = [int64],
        "4" revision: i64 = [int64],
        "9" count_only: bool = [bool],
    }
    RangeReply {
        "1" header: Option<Header> = [message, optional],
        "2" kvs: Vec<KeyValue> = [message, repeated],
        "3" more: bool = [bool],
    }
    Put {
        "1" key: Bytes = [bytes = "bytes"],
        "2" value: Bytes = [bytes = "bytes"],
        "3" lease: i64 = [int64],
        /// Keeps the lease of the stored record.
        "6" ignore_lease: bool = [bool],
    }
    /// An operation of a transaction: one of the four.
    Op {
        "1" range: Option<Range> = [message, optional],
        "2" put: Option<Put> = [message, optional],
        /// Removes one key.
        "3" delete: Option<Range> = [message, optional],
        "4" txn: Option<Txn> = [message, optional],
    }
    OpReply {
        "1" range: Option<RangeReply> = [message, optional],
        "4" txn: Option<TxnReply> = [message, optional],
    }
    /// A comparison for equality, with one of the two.
    Compare {
        "2" target: i32 = [int32],
        "3" key: Bytes = [bytes = "bytes"],
        "6" mod_revision: Option<i64> = [int64, optional],
        "7" value: Option<Bytes> = [bytes = "bytes", optional],
    }
    Txn {
        "1" compare: Vec<Compare> = [message, repeated],
        "2" success: Vec<Op> = [message, repeated],
        "3" failure: Vec<Op> = [message, repeated],
    }
    TxnReply {
        "2" succeeded: bool = [bool],
        "3" responses: Vec<OpReply> = [message, repeated],
    }
    Grant {
        /// In seconds.
        "1" ttl: i64 = [int64],
    }
    KeepAlive {
        "1" id: i64 = [int64],
    }
    TimeToLive {
        "1" id: i64 = [int64],
    }
    Lease {
        "2" id: i64 = [int64],
        /// In seconds. Not positive: there is no such lease.
        "3" ttl: i64 = [int64],
    }
    Watch {
        "1" create: Option<Range> = [message, optional],
    }
    WatchReply {
        "3" created: bool = [bool],
        "4" canceled: bool = [bool],
        "11" events: Vec<()> = [message, repeated],
    }
    Status {}
    StatusReply {
        "1" header: Option<Header> = [message, optional],
        "2" version: String = [string],
        "3" db_size: i64 = [int64],
        /// Zero: there is no leader.
        "4" leader: u64 = [uint64],
        /// Zero: the member is older than 3.6 and does not say.
        "12" db_size_quota: i64 = [int64],
    }
    /// Asks for all alarms.
    Alarm {}
    AlarmReply {
        "2" alarms: Vec<RaisedAlarm> = [message, repeated],
    }
    RaisedAlarm {
        /// 1: no space; 2: corrupt.
        "2" alarm: i32 = [int32],
    }
    MemberList {}
    MemberListReply {
        "2" members: Vec<ListedMember> = [message, repeated],
    }
    ListedMember {
        "5" is_learner: bool = [bool],
    }
    Authenticate {
        "1" name: String = [string],
        "2" password: String = [string],
    }
    AuthenticateReply {
        "2" token: String = [string],
    }
}

impl Lease {
    pub(crate) fn lasts(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.ttl).unwrap_or_default())
    }
}

impl Range {
    /// Asks whether a key is stored, without its value.
    pub(crate) fn count(key: &'static [u8]) -> Self {
        Self {
            key: Bytes::from_static(key),
            count_only: true,
            ..Self::default()
        }
    }

    /// One key.
    pub(crate) fn of(key: &Bytes) -> Self {
        Self {
            key: key.clone(),
            ..Self::default()
        }
    }
}

impl Op {
    /// Reads one key.
    pub(crate) fn get(key: &Bytes) -> Self {
        Self {
            range: Some(Range::of(key)),
            ..Self::default()
        }
    }

    /// Stores a value with this lease. Without a lease, the stored record keeps its lease.
    pub(crate) fn put(key: &Bytes, value: &Bytes, lease: Option<i64>) -> Self {
        Self {
            put: Some(Put {
                key: key.clone(),
                value: value.clone(),
                lease: lease.unwrap_or_default(),
                ignore_lease: lease.is_none(),
            }),
            ..Self::default()
        }
    }

    /// Another transaction.
    pub(crate) fn txn(txn: &Txn) -> Self {
        Self {
            txn: Some(txn.clone()),
            ..Self::default()
        }
    }

    /// Removes one key.
    pub(crate) fn delete(key: &Bytes) -> Self {
        Self {
            delete: Some(Range::of(key)),
            ..Self::default()
        }
    }
}

impl Compare {
    /// The record was last changed at this revision. Zero: nothing is stored under the key.
    pub(crate) fn is_of(key: &Bytes, mod_revision: i64) -> Self {
        Self {
            target: 2,
            key: key.clone(),
            mod_revision: Some(mod_revision),
            ..Self::default()
        }
    }

    /// The record is `value`, byte for byte.
    pub(crate) fn is_value(key: &Bytes, value: &Bytes) -> Self {
        Self {
            target: 3,
            key: key.clone(),
            value: Some(value.clone()),
            ..Self::default()
        }
    }
}
