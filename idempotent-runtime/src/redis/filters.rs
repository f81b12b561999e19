//! Bloom filters: in bitmaps, or by the server's module if it has one.
//!
//! Both are kept in a [`Ring`] of two buckets to a retention. The module's filters stand under keys of their own, so that a
//! server which gains or loses the module never finds a value of the wrong type.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, iter};

use ::redis::aio::ConnectionLike;
use ::redis::{FromRedisValue, RedisError, RedisResult};

use super::failure::is_forbidden;
use super::ring::{Ring, turn};
use super::script::{Script, hash};
use crate::store::filter::{Bucket, Shape, float};
use crate::store::{Fill, Filter, Hint};

/// How this server keeps filters. A clone shares what was learnt.
#[derive(Clone, Default)]
pub(super) struct Filters {
    /// All of the servers say that they have the module.
    module: bool,
    /// A server has lost it, as by a fail-over to one without, or keeps it from this user.
    refused: Arc<AtomicBool>,
}

impl Filters {
    /// By the module that all of these servers have, going by what they say of themselves.
    pub(super) fn of_servers(info: &[String]) -> Self {
        // RedisBloom, the filters of Redis 8 and those of Valkey go by one name.
        let has_module =
            |info: &String| info.lines().any(|line| line.starts_with("module:name=bf,"));
        Self {
            module: !info.is_empty() && info.iter().all(has_module),
            refused: Arc::default(),
        }
    }

    /// One round trip; two when the module is found to be gone.
    pub(super) async fn mark<C: ConnectionLike>(
        &self,
        connection: &mut C,
        filter: &Filter,
        member: &[u8],
    ) -> RedisResult<Hint> {
        if self.by_module() {
            let hint = mark_by_module(connection, filter, member).await;
            if let Some(hint) = self.unless_refused(hint) {
                return hint;
            }
        }
        mark_bits(connection, filter, member).await
    }

    /// One round trip; two when the module is found to be gone.
    pub(super) async fn fill<C: ConnectionLike>(
        &self,
        connection: &mut C,
        filter: &Filter,
    ) -> RedisResult<Fill> {
        if self.by_module() {
            let fill = fill_by_module(connection, filter).await;
            if let Some(fill) = self.unless_refused(fill) {
                return fill;
            }
        }
        fill_of_bits(connection, filter).await
    }

    /// Whether filters are the module's.
    pub(super) fn by_module(&self) -> bool {
        self.module && !self.refused.load(Ordering::Relaxed)
    }

    /// None if the module is not to be had.
    fn unless_refused<T>(&self, reply: RedisResult<T>) -> Option<RedisResult<T>> {
        match reply {
            Err(error) if is_forbidden(&error) => {
                self.refused.store(true, Ordering::Relaxed);
                tracing::debug!(%error, "the module is not to be had: Bloom filters are bitmaps");
                None
            }
            reply => Some(reply),
        }
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.by_module() {
            "module"
        } else {
            "bitmaps"
        })
    }
}

/// How many buckets a retention has. Each more would be looked into by every mark.
const BUCKETS: u64 = 2;

/// `1` if all bits of the member are set in one of the buckets, else `0`. Sets them in the current one.
///
/// What follows the width: the last bit of a bucket, and those of the member. To add nothing to the last one makes the bucket
/// as long as it will ever be with its first write, and no longer: a string that grows takes a megabyte in advance. All that
/// memory is zeroed at once, which is half a second for 512 MB. What is marked already is not written again.
///
/// The bits are read one by one, because the first that is not set ends it: of a bucket that is filled as it should be, that
/// is the second. They are written at once.
static MARK: Script = Script::new(
    concat!(
        turn!(),
        "local function seen_in(key)
  for at = 3, #ARGV do
    if redis.call('GETBIT', key, ARGV[at]) == 0 then return false end
  end
  return true
end
if seen_in(bucket) then return 1 end
local seen = 0
for _, key in ipairs(KEYS) do
  if key ~= bucket and seen_in(key) then
    seen = 1
    break
  end
end
put(function(key)
  local set = {'INCRBY', 'u1', ARGV[2], 0}
  for at = 3, #ARGV do
    local last = #set
    set[last + 1], set[last + 2], set[last + 3], set[last + 4] = 'SET', 'u1', ARGV[at], 1
  end
  redis.call('BITFIELD', key, unpack(set))
end)
return seen"
    ),
    || hash(&MARK),
);

/// How old the current bucket is, in its widths, and how many bits are set in each, from the current one back.
static FILL: Script = Script::new(
    concat!(
        turn!(),
        "local counts = {}
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('BITCOUNT', KEYS[(turn - back) % #KEYS + 1])
end
return {tostring((time[1] * 1000 + time[2] / 1000) / width - turn), counts}"
    ),
    || hash(&FILL),
);

/// [`MARK`] by the module. What follows the width: the member, the capacity and the error rate of a bucket.
///
/// A bucket does not grow, because one that does is many, and slower with each. A full one takes no more members,
/// and so it may have seen everything: for as long as it is there, not only for as long as it is the current one.
static MARK_BY_MODULE: Script = Script::new(
    concat!(
        turn!(),
        "local function seen_in(key)
  return redis.call('BF.EXISTS', key, ARGV[2]) == 1 or redis.call('BF.CARD', key) >= tonumber(ARGV[3])
end
if seen_in(bucket) then return 1 end
local seen = 0
for _, key in ipairs(KEYS) do
  if key ~= bucket and seen_in(key) then
    seen = 1
    break
  end
end
if redis.call('PTTL', bucket) == -2 then
  put(function(key) redis.call('BF.RESERVE', key, ARGV[4], ARGV[3], 'NONSCALING') end)
end
put(function(key) redis.call('BF.ADD', key, ARGV[2]) end)
return seen"
    ),
    || hash(&MARK_BY_MODULE),
);

/// [`FILL`] by the module: the members of each bucket instead of its set bits.
static FILL_BY_MODULE: Script = Script::new(
    concat!(
        turn!(),
        "local counts = {}
for back = 0, #KEYS - 1 do
  counts[#counts + 1] = redis.call('BF.CARD', KEYS[(turn - back) % #KEYS + 1])
end
return {tostring((time[1] * 1000 + time[2] / 1000) / width - turn), counts}"
    ),
    || hash(&FILL_BY_MODULE),
);

async fn mark_bits<C: ConnectionLike>(
    connection: &mut C,
    filter: &Filter,
    member: &[u8],
) -> RedisResult<Hint> {
    let shape = Shape::of(filter);
    let bits = iter::once(shape.bits - 1).chain(shape.positions(member));
    let bits: Vec<_> = bits.map(|bit| bit.to_string()).collect();
    let args: Vec<_> = bits.iter().map(String::as_bytes).collect();
    let seen = run(connection, &MARK, &bitmaps(filter, shape), filter, &args).await?;
    Ok(hint(seen))
}

async fn fill_of_bits<C: ConnectionLike>(connection: &mut C, filter: &Filter) -> RedisResult<Fill> {
    let shape = Shape::of(filter);
    let counts = run(connection, &FILL, &bitmaps(filter, shape), filter, &[]).await?;
    Ok(fill(filter, counts, |set| {
        (shape.members(set), shape.error_rate(set))
    }))
}

async fn mark_by_module<C: ConnectionLike>(
    connection: &mut C,
    filter: &Filter,
    member: &[u8],
) -> RedisResult<Hint> {
    let capacity = filter.capacity.to_string();
    let error_rate = (filter.error_rate / 2.0).to_string();
    let args = [member, capacity.as_bytes(), error_rate.as_bytes()];
    let seen = run(
        connection,
        &MARK_BY_MODULE,
        &of_module(filter),
        filter,
        &args,
    )
    .await?;
    Ok(hint(seen))
}

async fn fill_by_module<C: ConnectionLike>(
    connection: &mut C,
    filter: &Filter,
) -> RedisResult<Fill> {
    let shape = Shape::of(filter);
    let counts = run(connection, &FILL_BY_MODULE, &of_module(filter), filter, &[]).await?;
    Ok(fill(filter, counts, |members| {
        let error_rate = if members < filter.capacity {
            shape.error_rate(shape.set(members))
        } else {
            1.0
        };
        (float(members), error_rate)
    }))
}

/// What the keys of the bitmaps begin with: those of another shape are another filter's.
fn bitmaps(filter: &Filter, Shape { bits, hashes }: Shape) -> String {
    format!("{}:{bits}x{hashes}", filter.key)
}

fn of_module(filter: &Filter) -> String {
    format!(
        "{}:bf:{}:{}",
        filter.key, filter.capacity, filter.error_rate
    )
}

async fn run<T: FromRedisValue, C: ConnectionLike>(
    connection: &mut C,
    script: &Script,
    name: &str,
    filter: &Filter,
    args: &[&[u8]],
) -> RedisResult<T> {
    let ring = Ring::new(BUCKETS, filter.retention);
    let (keys, width) = (ring.keys(name), ring.width());
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let mut all = vec![width.as_bytes()];
    all.extend_from_slice(args);
    let reply = script.run(connection, &keys, &all).await?;
    T::from_redis_value(reply).map_err(RedisError::from)
}

fn hint(seen: bool) -> Hint {
    if seen {
        Hint::PerhapsSeen
    } else {
        Hint::Unseen
    }
}

/// Of what was counted in the buckets, the members and the error rate of each.
fn fill(
    filter: &Filter,
    (age, counts): (f64, Vec<u64>),
    of_count: impl Fn(u64) -> (f64, f64),
) -> Fill {
    let ages = iter::successors(Some(age), |age| Some(age + 1.0));
    Fill::of(
        filter,
        counts.into_iter().zip(ages).map(|(count, age)| {
            let (members, error_rate) = of_count(count);
            Bucket {
                age,
                members,
                error_rate,
            }
        }),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scripted::Scripted;
    use super::*;

    const WITH_IT: &str =
        "# Modules\r\nmodule:name=bf,ver=20820,api=1,filters=0,usedby=[],using=[]\r\n";
    const WITHOUT: &str = "# Modules\r\nmodule:name=search,ver=21020,api=1,using=[bf]\r\n";

    fn filter() -> Filter {
        Filter {
            key: "idem:#bloom:{orders.no}".to_owned(),
            capacity: 1000,
            error_rate: 0.01,
            retention: Duration::from_secs(2),
        }
    }

    fn with_module() -> Filters {
        Filters::of_servers(&[WITH_IT.to_owned()])
    }

    async fn mark(filters: &Filters, mut server: Scripted) -> RedisResult<Hint> {
        let hint = filters.mark(&mut server, &filter(), b"member").await;
        server.has_been_asked_all();
        hint
    }

    /// The keys of all slots, the width, and what the module needs to know.
    const BY_MODULE: [&str; 9] = [
        "EVALSHA",
        "{orders.no}:bf:1000:0.01:0",
        ":1",
        ":2",
        ":3",
        "1000",
        "member",
        "1000",
        "0.005",
    ];
    const IN_BITMAPS: [&str; 4] = ["EVALSHA", "{orders.no}:11072x8:0", "1000", "11071"];

    #[test]
    fn the_module_is_used_where_all_servers_have_it() {
        for (info, expected) in [
            (vec![], false),
            (vec![""], false),
            (vec![WITHOUT], false),
            (vec![WITH_IT], true),
            (vec![WITH_IT, WITH_IT], true),
            (vec![WITH_IT, WITHOUT], false),
        ] {
            let info: Vec<_> = info.into_iter().map(str::to_owned).collect();
            assert_eq!(Filters::of_servers(&info).by_module(), expected, "{info:?}");
        }
    }

    #[tokio::test]
    async fn the_module_answers_with_a_hint_and_in_one_round_trip() {
        for (reply, hint) in [(":0\r\n", Hint::Unseen), (":1\r\n", Hint::PerhapsSeen)] {
            let server = Scripted::default().answers(&BY_MODULE, &[reply]);
            assert_eq!(mark(&with_module(), server).await.expect("a hint"), hint);
        }
    }

    #[tokio::test]
    async fn a_server_that_lost_the_module_is_sent_bits_from_then_on() {
        for refusal in [
            "-ERR Unknown Redis command called from script script: f_1f, on @user_script:1.\r\n",
            "-ERR Unknown command called from script script: f_1f, on @user_script:1.\r\n",
            "-NOPERM User filters has no permissions to run the 'bf.add' command\r\n",
            "-ERR The user executing the script can't run this command or subcommand script: f_1f\r\n",
        ] {
            let filters = with_module();
            let server = Scripted::default()
                .answers(&BY_MODULE, &[refusal])
                .answers(&IN_BITMAPS, &[":0\r\n"]);
            let hint = mark(&filters, server).await.expect("a hint");
            assert_eq!(hint, Hint::Unseen, "{refusal}");
            let server = Scripted::default().answers(&IN_BITMAPS, &[":1\r\n"]);
            let hint = mark(&filters.clone(), server).await.expect("a hint");
            assert_eq!(hint, Hint::PerhapsSeen, "{refusal}");
        }
    }

    #[tokio::test]
    async fn what_else_the_module_says_is_no_reason_to_leave_it() {
        for refusal in ["-WRONGTYPE Operation against a key\r\n", "-OOM no\r\n"] {
            let filters = with_module();
            let server = Scripted::default().answers(&BY_MODULE, &[refusal]);
            mark(&filters, server).await.expect_err("refused");
            assert!(filters.by_module());
        }
    }

    #[tokio::test]
    async fn a_full_bucket_of_the_module_takes_everything_for_seen() {
        let counts = "*2\r\n$4\r\n0.25\r\n*4\r\n:10\r\n:1000\r\n:0\r\n:0\r\n";
        let mut server = Scripted::default().answers(&["bf:1000:0.01:3"], &[counts]);
        let fill = with_module().fill(&mut server, &filter()).await;
        let fill = fill.expect("a fill");
        assert_eq!((fill.members, fill.capacity), (1010, 1000));
        assert!(fill.is_full() && fill.error_rate > 0.99, "{fill}");
    }
}
