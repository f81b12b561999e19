use std::future::Future;
use std::pin::Pin;

use idempotence::Error;
use idempotence::sql::sqlx::{Sqlite, Transaction};

#[idempotent(key = "order_no", ttl = "7d", tx = tx, replay = true)]
pub async fn pay(tx: &mut Transaction<'_, Sqlite>, order_no: u64) -> Result<u64, Error> {
    let _ = &*tx;
    Ok(order_no)
}

#[idempotent(key = "order_no", ttl = "7d", tx = tx)]
pub fn boxed<'a>(
    tx: &'a mut Transaction<'_, Sqlite>,
    order_no: &'a u64,
) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'a>> {
    Box::pin(async move {
        let _ = &*tx;
        Ok(*order_no)
    })
}

#[idempotent(key = "order_no", ttl = "7d", tx = tx, context = cx)]
pub async fn refund(tx: &mut Transaction<'_, Sqlite>, order_no: u64) -> Result<String, Error> {
    let _ = (&*tx, order_no);
    Ok(cx.downstream_key("bank.refund"))
}
