use std::rc::Rc;

use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s")]
async fn local(id: u64) -> Result<Rc<u64>, Error> {
    Ok(Rc::new(id))
}

fn assert_send<T: Send>(_: T) {}

fn main() {
    assert_send(async {
        drop(local(1).await);
    });
}
