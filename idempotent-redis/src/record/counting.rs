//! Counted keys in Redis.

use std::time::Duration;

use ::redis::Value;
use idempotent_runtime::port::redis::{first_count, foreign_count};
use idempotent_runtime::store::{Count, StoreError};

use crate::client::connection_like::StoreClient;
use crate::script::{Script, each, millis};
use crate::send::op::{Op, Order};
use crate::send::sender::Sender;

/// Returns `1` for the first attempt of a window. For a later attempt returns its number and the remaining milliseconds of the
/// window; nil if the record is not a count.
///
/// The arguments are the record of a first attempt, and the window. `SET … NX GET` writes this record if there is none, which is
/// all that a first attempt needs. Servers before Redis 7 refuse this combination of words (a syntax error, which changes
/// nothing). There the script asks for the same in two steps.
///
/// The record has the form of `record/count.rs` of the runtime and is parsed as strictly. The first attempt sets its
/// expiry. Later attempts do not change it, by `KEEPTTL`: reading the remaining time and setting it again would move the
/// expiry, because in most servers the clock advances during a script. Servers before Redis 6 do not know `KEEPTTL`; there the
/// script sets the remaining time. A record with less than a millisecond counts as expired. A record without an expiry gets an
/// expiry. Only an operator can make such a record.
///
/// An attempt that was counted before is written again unchanged, so that a following `WAIT` has a write to wait for.
static COUNT: Script = each!(
    1,
    "local key, first, window = KEYS[k], ARGV[a], ARGV[z]
local current = redis.pcall('SET', key, first, 'PX', window, 'NX', 'GET')
if not current then return 1 end
if type(current) == 'table' then
  if redis.call('SET', key, first, 'PX', window, 'NX') then return 1 end
  current = redis.call('GET', key)
end
local digits, last = string.match(current, '^idem1 C count=([1-9]%d*) last=([0-9a-f,]+)\\n$')
if not digits or #digits > 15 then return false end
local rest, kept = string.gsub(last .. ',', '%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x,', '')
local count = tonumber(digits)
if rest ~= '' or kept ~= math.min(count, 32) then return false end
local lives = redis.call('PTTL', key)
if lives <= 0 and lives ~= -1 then
  redis.call('SET', key, first, 'PX', window)
  return 1
end
local number, id = count, string.match(first, '(%x+)\\n$')
local at = string.find(last, id, 1, true)
if at then
  number = count - (#last - at - 15) / 17
else
  count = math.min(count + 1, 999999999999999)
  number = count
  if kept == 32 then last = string.sub(last, 18) end
  last = last .. ',' .. id
end
local record = string.format('idem1 C count=%.0f last=%s\\n', count, last)
if lives == -1 then
  redis.call('SET', key, record, 'PX', window)
  return {number, tonumber(window)}
end
local put = redis.pcall('SET', key, record, 'KEEPTTL')
if put.err then redis.call('SET', key, record, 'PX', lives) end
return {number, lives}"
);

/// Counts an attempt, alone or in a batch with other attempts.
///
/// A batch may have more attempts at one counter than its record remembers. If the replies to such a batch are lost, the first of
/// these attempts are counted again. Without batches the same happens: a lost connection loses the replies to as many attempts of
/// as many callers. A limit for a batch would not help, because the attempts of the next batch come before the repetition.
pub(crate) async fn count<C: StoreClient>(
    sender: &Sender<C>,
    key: &str,
    attempt: u128,
    window: Duration,
) -> Result<Count, StoreError> {
    let (first, window) = (first_count(attempt), millis(window));
    let mut millis = itoa::Buffer::new();
    let (keys, args) = ([key], [&*first, millis.format(window).as_bytes()]);
    let count = Op::script(&COUNT, &keys, &args).in_order(Order::Any);
    let reply = sender.value(sender.send(&count.replicated_by(&COUNT)).await)?;
    let (attempt, remaining) = match reply {
        Value::Nil => return Err(foreign_count().place(sender.place().to_owned())),
        Value::Int(1) => (1, window),
        later => sender.read(later)?,
    };
    Ok(Count {
        attempt,
        remaining: Duration::from_millis(remaining),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use ::redis::{Arg, AsyncConnectionConfig, Client, FromRedisValue, cmd};
    use idempotence_test_servers::RedisServer;

    use super::*;

    #[tokio::test]
    async fn an_old_server_is_asked_in_more_steps() {
        let eval = COUNT.by_source(&[], &[]);
        let Some(Arg::Simple(source)) = eval.args_iter().nth(1) else {
            panic!("a script has a source");
        };
        let source = str::from_utf8(source).unwrap();
        // No server knows these words, as servers before Redis 6 do not know `KEEPTTL`, and before Redis 7 not `NX` with `GET`.
        let old = source.replace("KEEPTTL", "KEEPIT");
        let old = old.replace("'NX', 'GET'", "'NX', 'GETIT'");
        assert!(!old.contains("KEEPTTL") && !old.contains("'NX', 'GET'"));
        let server = RedisServer::shared().unwrap();
        let client = Client::open(server.unix_url()).unwrap();
        // A busy machine may need longer for a reply than the client waits by default.
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&patient);
        let mut connection = connection.await.unwrap();
        let mut least = 60_000;
        for (attempt, number) in [(1, 1), (2, 2), (1, 1), (3, 3)] {
            let key = "idem:#count:old";
            let mut eval = cmd("EVAL");
            eval.arg(&old).arg(1).arg(key);
            eval.arg(&*first_count(attempt)).arg(60_000);
            let reply: Value = eval.query_async(&mut connection).await.unwrap();
            let (count, remaining): (u64, i64) = match reply {
                Value::Int(1) => (1, 60_000),
                later => FromRedisValue::from_redis_value(later).unwrap(),
            };
            assert_eq!(count, number);
            let lives: i64 = cmd("PTTL")
                .arg(key)
                .query_async(&mut connection)
                .await
                .unwrap();
            assert!(
                30_000 < lives && lives <= remaining && remaining <= least,
                "{lives} {remaining} {least}"
            );
            least = remaining;
        }
    }
}
