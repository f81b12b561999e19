//! Claims with a fence in Redis.

use std::time::Duration;

use ::redis::Value;
use idempotent_runtime::port::redis::{fence_ttl, foreign_fence};
use idempotent_runtime::store::{Fence, FencedClaim, StoreError};

use crate::client::connection_like::StoreClient;
use crate::record::records::RecordCommands;
use crate::script::{Script, millis};
use crate::send::op::{Op, Order};
use crate::send::sender::Sender;

/// Claims the first key, and gives the claim a number that is stored under the second key. Both are on one node.
///
/// Returns the number, the attempt, and 1 if the claim took over; nil if the second key has other bytes than a
/// fence; else the value that is stored under the first key. The arguments are the value, its time to
/// live, the time to live of the number, and the most bytes of a value that it returns.
///
/// The number is written before the claim. So a claim is never stored without a number, also if the server refuses the second
/// write. A claim that is stored already is written again with its remaining time to live, so that a following `WAIT` has a
/// write to wait for.
///
/// `TIME` before a write needs `redis.replicate_commands` (Redis 3.2); from 5.0 on the call has no effect.
static CLAIM_FENCED: Script = Script::new(
    "local current = redis.call('GET', KEYS[1])
if current and current ~= ARGV[1] then return string.sub(current, 1, ARGV[4]) end
local stored, last, attempt, word, claim = redis.call('GET', KEYS[2]), 0, 0, 'ended', ''
if stored then
  local number, digits
  number, digits, word, claim = string.match(stored, '^idem1 F fence=([1-9]%d*) attempt=(%d+) (%l+)\\n(.*)$')
  if not number or #number > 16 or #digits > 9 or string.find(digits, '^0.') then return false end
  last, attempt = tonumber(number), tonumber(digits)
  if last >= 9000000000000000 then return false end
  if word ~= 'open' and word ~= 'takeover' and (word ~= 'ended' or claim ~= '') then return false end
end
if word == 'ended' or claim ~= ARGV[1] then
  if redis.replicate_commands then redis.replicate_commands() end
  local time = redis.call('TIME')
  last = math.max(last + 1, time[1] * 1000000 + time[2])
  attempt = math.min(attempt + 1, 999999999)
  if word == 'ended' then word = 'open' else word = 'takeover' end
  local record = string.format('idem1 F fence=%.0f attempt=%.0f %s\\n', last, attempt, word) .. ARGV[1]
  redis.call('SET', KEYS[2], record, 'PX', ARGV[3])
end
if current then
  local remaining = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], remaining > 0 and remaining or ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return {last, attempt, word == 'takeover' and 1 or 0}",
);

/// Claims a key with a fence, alone or in a batch.
pub(crate) async fn claim<C: StoreClient>(
    sender: &Sender<C>,
    records: &RecordCommands,
    [key, fence_key]: [&str; 2],
    value: &[u8],
    ttl: Duration,
) -> Result<FencedClaim, StoreError> {
    let times = [millis(ttl), millis(fence_ttl(ttl))].map(|millis| millis.to_string());
    let most = records.limit();
    let args = [
        value,
        times[0].as_bytes(),
        times[1].as_bytes(),
        most.as_bytes(),
    ];
    let keys = [key, fence_key];
    let claim = Op::script(&CLAIM_FENCED, &keys, &args).in_order(Order::OfKey);
    match sender.value(sender.send(&claim.replicated_by(&CLAIM_FENCED)).await)? {
        Value::Nil => Err(foreign_fence().place(sender.place().to_owned())),
        reply @ Value::Array(_) => {
            let (number, attempt, took_over) = sender.read(reply)?;
            Ok(FencedClaim::Claimed(Fence {
                number,
                attempt,
                took_over,
            }))
        }
        taken => {
            let stored: Vec<u8> = sender.read(taken)?;
            Ok(FencedClaim::Taken(stored.into()))
        }
    }
}
