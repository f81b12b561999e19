use idempotence::{Error, idempotent, sql};

struct Connection;

#[idempotent(key = "id", ttl = "30s", tx = connection)]
async fn pay(connection: &mut Connection, id: u64) -> Result<(), Error> {
    Ok(())
}

async fn take(connection: &mut Connection) -> sql::sqlx::Result<()> {
    let insertion = sql::insert_once("user_coupon").key("coupon_id", 1_i64);
    let _ = insertion.run(connection).await?;
    Ok(())
}

fn main() {}
