//! Claims of several keys by one script.

use std::time::Duration;

use ::redis::{ErrorKind, RedisError, Value};
use bytes::Bytes;
use idempotent_runtime::store::{ClaimAll, ClaimAny, StoreError};

use crate::client::connection_like::StoreClient;
use crate::client::slot::slot_of_key;
use crate::record::records::RecordCommands;
use crate::record::scripts::{CLAIM_ALL, CLAIM_ANY};
use crate::script::{Script, millis};
use crate::send::op::{Op, Order, SendError};
use crate::send::sender::Sender;

/// Claims all keys or none, alone or in a batch, if one server has all of them.
pub(crate) async fn claim_all<C: StoreClient>(
    sender: &Sender<C>,
    records: &RecordCommands,
    claims: &[(&str, &Bytes)],
    ttl: Duration,
) -> Result<ClaimAll, StoreError> {
    match send(&CLAIM_ALL, sender, records, claims, ttl).await? {
        None => Ok(ClaimAll::NotTogether),
        Some(Value::Int(_)) => Ok(ClaimAll::Claimed),
        Some(reply) => {
            let reply: Vec<u8> = sender.read(reply)?;
            taken(&reply).map_err(|error| sender.error(SendError::Redis(error)))
        }
    }
}

/// Claims the first free key, alone or in a batch, if one server has all of them.
pub(crate) async fn claim_any<C: StoreClient>(
    sender: &Sender<C>,
    records: &RecordCommands,
    claims: &[(&str, &Bytes)],
    ttl: Duration,
) -> Result<ClaimAny, StoreError> {
    match send(&CLAIM_ANY, sender, records, claims, ttl).await? {
        None => Ok(ClaimAny::NotTogether),
        Some(reply @ Value::Int(_)) => {
            let place: usize = sender.read(reply)?;
            Ok(ClaimAny::Claimed(place.saturating_sub(1)))
        }
        Some(reply) => {
            let stored: Vec<Vec<u8>> = sender.read(reply)?;
            Ok(ClaimAny::Taken(
                stored.into_iter().map(Into::into).collect(),
            ))
        }
    }
}

/// Sends the claims by a script. `None` if no server has all keys.
async fn send<C: StoreClient>(
    script: &'static Script,
    sender: &Sender<C>,
    records: &RecordCommands,
    claims: &[(&str, &Bytes)],
    ttl: Duration,
) -> Result<Option<Value>, StoreError> {
    let keys: Vec<_> = claims.iter().map(|(key, _)| *key).collect();
    let mut slots = keys.iter().map(|key| slot_of_key(key.as_bytes()));
    let first = slots.next();
    if !sender.sends_once() && !slots.all(|slot| Some(slot) == first) {
        return Ok(None);
    }
    let (ttl, most) = (millis(ttl).to_string(), records.limit());
    let values = claims.iter().map(|(_, value)| &***value);
    let args: Vec<_> = values.chain([ttl.as_bytes(), most.as_bytes()]).collect();
    let claim = Op::script(script, &keys, &args).in_order(Order::OfKey);
    match sender.send(&claim.replicated_by(script)).await {
        // This server is a node of a cluster, or a proxy before one.
        Err(SendError::Redis(error)) if error.code() == Some("CROSSSLOT") => Ok(None),
        reply => sender.value(reply).map(Some),
    }
}

/// Reads the place of a taken key, counted from 1, and the stored value after a space.
fn taken(reply: &[u8]) -> Result<ClaimAll, RedisError> {
    let space = reply.iter().position(|byte| *byte == b' ');
    let taken = space.and_then(|space| {
        let place = std::str::from_utf8(&reply[..space]).ok()?;
        let place = place.parse::<usize>().ok()?.checked_sub(1)?;
        let stored = Bytes::copy_from_slice(&reply[space + 1..]);
        Some(ClaimAll::Taken(place, stored))
    });
    let message = "the script has another answer";
    taken.ok_or_else(|| RedisError::from((ErrorKind::UnexpectedReturnType, message)))
}
