//! Counted keys in Redis.

use std::time::Duration;

use ::redis::Value;
use ::redis::aio::ConnectionLike;

use super::executor::Executor;
use super::script::{Script, hash, millis};
use crate::record::count;
use crate::store::{Count, StoreError};

/// Returns the number of the attempt and the remaining milliseconds of the window; nil if the record is not a count.
///
/// The record has the form of [`record::count`](crate::record::count) and is parsed as strictly. The first attempt sets its
/// expiry. Later attempts do not change it, by `KEEPTTL`: reading the remaining time and setting it again would move the
/// expiry, because in most servers the clock advances during a script. Servers before Redis 6 do not know `KEEPTTL` (a syntax
/// error, which changes nothing); there the script sets the remaining time. A record with less than a millisecond counts as
/// expired. A record without an expiry gets an expiry. Only an operator can make such a record.
///
/// An attempt that was counted before is written again unchanged, so that a following `WAIT` has a write to wait for.
static COUNT: Script = Script::new(
    "local id, window = ARGV[1], tonumber(ARGV[2])
local count, last, number, remaining = 1, id, 1, window
local current, lives = redis.call('GET', KEYS[1]), 0
if current then
  local digits, known = string.match(current, '^idem1 C count=([1-9]%d*) last=([0-9a-f,]+)\\n$')
  if not digits or #digits > 15 then return false end
  local rest, kept = string.gsub(known .. ',', string.rep('[0-9a-f]', 16) .. ',', '')
  if rest ~= '' or kept ~= math.min(tonumber(digits), 32) then return false end
  lives = redis.call('PTTL', KEYS[1])
  if lives > 0 or lives == -1 then
    count, last = tonumber(digits), known
    local at = string.find(last, id, 1, true)
    if at then
      number = count - (#last - at - 15) / 17
    else
      count = math.min(count + 1, 999999999999999)
      number = count
      if kept == 32 then last = string.sub(last, 18) end
      last = last .. ',' .. id
    end
  end
end
local record = string.format('idem1 C count=%.0f last=%s\\n', count, last)
if lives > 0 then
  remaining = lives
  local put = redis.pcall('SET', KEYS[1], record, 'KEEPTTL')
  if put.err then redis.call('SET', KEYS[1], record, 'PX', lives) end
else
  redis.call('SET', KEYS[1], record, 'PX', ARGV[2])
end
return {number, remaining}",
    || hash(&COUNT),
);

pub(super) async fn count<C>(
    executor: &Executor<C>,
    key: &str,
    attempt: u128,
    window: Duration,
) -> Result<Count, StoreError>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let (id, window) = (count::id(attempt), millis(window).to_string());
    let args = [id.as_bytes(), window.as_bytes()];
    let reply = executor.write(&COUNT, &COUNT, &[key], &args).await?;
    if reply == Value::Nil {
        return Err(count::foreign().place(executor.place().to_owned()));
    }
    let (attempt, remaining) = executor.read(reply)?;
    Ok(Count {
        attempt,
        remaining: Duration::from_millis(remaining),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use ::redis::{Arg, AsyncConnectionConfig, Client, cmd};
    use idempotence_test_servers::RedisServer;

    use super::*;

    #[tokio::test]
    async fn without_keepttl_the_script_sets_the_remaining_time() {
        let eval = COUNT.by_source(&[], &[]);
        let Some(Arg::Simple(source)) = eval.args_iter().nth(1) else {
            panic!("a script has a source");
        };
        let source = str::from_utf8(source).unwrap();
        // No server knows this word, as servers before Redis 6 do not know `KEEPTTL`.
        let old = source.replace("KEEPTTL", "KEEPIT");
        assert_ne!(old, source);
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
            eval.arg(count::id(attempt)).arg(60_000);
            let (count, remaining): (u64, i64) = eval.query_async(&mut connection).await.unwrap();
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
