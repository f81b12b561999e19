use std::time::Duration;

use idempotence::{Error, Idempotency, MemoryStore};

fn main() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let call = idempotency.call("orders.pay").key(&1);
    let call = call.ttl(Duration::from_secs(60));
    drop(call.run_with(async |cx| Ok::<_, Error>(cx.downstream_key("bank.charge"))));

    let call = idempotency.call("orders.pay").ttl(Duration::from_secs(60));
    drop(call.run_with(async |cx| Ok::<_, Error>(cx.key())));
}
