use idempotence::{Error, idempotent};

#[derive(Clone)]
struct Order {
    no: String,
}

impl Order {
    fn into_no(self) -> String {
        self.no
    }
}

fn digest(text: String) -> u64 {
    text.len() as u64
}

#[idempotent(key = (order.into_no()), ttl = "30s")]
async fn method(order: Order) -> Result<(), Error> {
    drop(order);
    Ok(())
}

#[idempotent(key = (user_id, digest(text)), ttl = "30s")]
async fn function(user_id: u64, text: String) -> Result<(), Error> {
    drop(text);
    Ok(())
}

fn main() {}
