//! The messages of etcd's protocol, with the fields that the store uses. Numbers of fields and paths are etcd's.
//!
//! Written by hand, because code that is generated from the whole protocol needs the program `protoc` wherever it is built.

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

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) value: Bytes,
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Range {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    /// The first key after the range. Empty: only `key`. A zero byte: all keys from `key` on.
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) end: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeReply {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Put {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
    /// Keeps the lease of the stored record.
    #[prost(bool, tag = "6")]
    pub(crate) ignore_lease: bool,
}

/// An operation of a transaction: one of the three.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Op {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<Range>,
    #[prost(message, optional, tag = "2")]
    pub(crate) put: Option<Put>,
    /// Removes one key.
    #[prost(message, optional, tag = "3")]
    pub(crate) delete: Option<Range>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OpReply {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<RangeReply>,
}

/// A comparison for equality, with one of the three.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) key: Bytes,
    #[prost(int64, optional, tag = "5")]
    pub(crate) create_revision: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub(crate) mod_revision: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub(crate) value: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<Op>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnReply {
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<OpReply>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Grant {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeepAlive {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TimeToLive {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Lease {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    /// In seconds. Not positive: there is no such lease.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Watch {
    #[prost(message, optional, tag = "1")]
    pub(crate) create: Option<Range>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchReply {
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<()>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusReply {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
    /// Zero: there is no leader.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    /// Zero: the member is older than 3.6 and does not say.
    #[prost(int64, tag = "12")]
    pub(crate) db_size_quota: i64,
}

/// Asks for all alarms.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Alarm {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmReply {
    #[prost(message, repeated, tag = "2")]
    pub(crate) alarms: Vec<RaisedAlarm>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RaisedAlarm {
    /// 1: no space; 2: corrupt.
    #[prost(int32, tag = "2")]
    pub(crate) alarm: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberList {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListReply {
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<ListedMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListedMember {
    #[prost(bool, tag = "5")]
    pub(crate) is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Authenticate {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateReply {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

impl Range {
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

    /// Removes one key.
    pub(crate) fn delete(key: &Bytes) -> Self {
        Self {
            delete: Some(Range::of(key)),
            ..Self::default()
        }
    }
}

impl Compare {
    /// Nothing is stored under the key.
    pub(crate) fn is_free(key: &Bytes) -> Self {
        Self {
            target: 1,
            key: key.clone(),
            create_revision: Some(0),
            ..Self::default()
        }
    }

    /// The record was last changed at this revision.
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
