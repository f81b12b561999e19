use idempotence::Error;

#[idempotent(key = "order_no", ttl = "7d", context = cx)]
pub async fn pay(order_no: u64) -> Result<String, Error> {
    let _ = order_no;
    Ok(cx.downstream_key("bank.charge"))
}

#[idempotent(key = "order_no", ttl = "5s", release = true, context = cx)]
pub async fn pack(order_no: u64) -> Result<String, Error> {
    let _ = order_no;
    Ok(cx.key())
}

#[idempotent(key = "order_no", ttl = "7d", on_cancel = "finish", context = cx)]
pub async fn ship(order_no: u64) -> Result<String, Error> {
    let _ = order_no;
    Ok(cx.downstream_key("carrier.book"))
}

#[idempotent(key = "order_no", ttl = "7d", fence = true, context = cx)]
pub async fn pick(order_no: u64) -> Result<i64, Error> {
    let _ = order_no;
    Ok(cx.fence())
}

#[idempotent(key = "order_no", ttl = "5s", release = true, fence = true, context = cx)]
pub async fn weigh(order_no: u64) -> Result<i64, Error> {
    let _ = order_no;
    Ok(cx.fence())
}
