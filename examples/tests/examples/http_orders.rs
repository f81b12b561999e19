//! The shop as a process behind a real socket: repeated requests, lost connections and restarts.

#[allow(dead_code, reason = "other tests use the rest")]
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::service::Service;

const BIN: &str = env!("CARGO_BIN_EXE_http_orders");
const BOOK: &str = r#"{"item":"a book","cents":1200}"#;

#[test]
fn a_repeated_order_gets_the_first_response() {
    let shop = Shop::open("repeated");
    let first = shop.post("/orders", "ada", "k1", BOOK);
    // The payload is JSON, so its order and its blanks do not matter.
    let again = shop.post(
        "/orders",
        "ada",
        "k1",
        r#"{ "cents": 1200, "item": "a book" }"#,
    );
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.header("location"), Some("/orders/1"));
    assert_eq!(again.header("location"), Some("/orders/1"));
    assert_eq!(first.body, again.body);
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(shop.send("GET", "/orders/2", "ada", "", "").status, 404);
}

#[test]
fn another_order_with_the_same_key_is_refused() {
    let shop = Shop::open("mismatch");
    assert_eq!(shop.post("/orders", "ada", "k1", BOOK).status, 201);
    let other = shop.post("/orders", "ada", "k1", r#"{"item":"a book","cents":1}"#);
    assert_eq!(other.status, 422);
    assert!(
        other.body.contains(r#""code":"payload_mismatch""#),
        "{}",
        other.body
    );
}

#[test]
fn two_users_may_send_the_same_key() {
    let shop = Shop::open("users");
    for (user, place) in [("ada", "/orders/1"), ("bob", "/orders/2")] {
        let placed = shop.post("/orders", user, "k1", BOOK);
        assert_eq!(placed.header("location"), Some(place), "{user}");
        assert_eq!(placed.header("idempotency-replayed"), None);
    }
    assert_eq!(shop.send("GET", "/orders/1", "bob", "", "").status, 404);
}

#[test]
fn a_stranger_an_unknown_path_and_a_request_without_a_key_are_refused() {
    let shop = Shop::open("refused");
    assert_eq!(shop.post("/orders", "eve", "k1", BOOK).status, 401);
    assert_eq!(shop.post("/nowhere", "ada", "k1", BOOK).status, 404);
    let without = shop.send("POST", "/orders", "ada", "", BOOK);
    assert_eq!(without.status, 400);
    assert!(
        without.body.contains(r#""code":"idempotency_key_missing""#),
        "{}",
        without.body
    );
}

#[test]
fn an_order_that_the_handler_refused_may_be_corrected() {
    let shop = Shop::open("corrected");
    assert_eq!(
        shop.post("/orders", "ada", "k1", r#"{"item":"a book","cents":0}"#)
            .status,
        422
    );
    assert_eq!(shop.post("/orders", "ada", "k1", BOOK).status, 201);
}

#[test]
fn a_payment_ends_after_its_client_hung_up() {
    let mut shop = Shop::open("hung-up");
    shop.post("/orders", "ada", "k1", BOOK);
    let lost = shop.begin("POST", "/orders/1/pay", "ada", "k2", r#"{"card":"4711"}"#);
    shop.until("charging");
    drop(lost);
    let again = shop.post_until_ended("/orders/1/pay", "ada", "k2", r#"{"card":"4711"}"#);
    assert_eq!((again.status, again.body.as_str()), (200, "paid"));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let printed = shop.stop();
    assert!(
        !printed.iter().any(|line| line.starts_with("charging")),
        "{printed:?}"
    );
}

#[test]
fn the_shop_stops_after_its_last_payment_and_replays_it_when_it_opens_again() {
    let mut shop = Shop::open("stopped");
    shop.post("/orders", "ada", "k1", BOOK);
    let lost = shop.begin("POST", "/orders/1/pay", "ada", "k2", r#"{"card":"4711"}"#);
    shop.until("charging");
    drop(lost);
    assert_eq!(shop.stop(), ["stopped"]);
    shop.reopen();
    for (path, key, body) in [
        ("/orders", "k1", BOOK),
        ("/orders/1/pay", "k2", r#"{"card":"4711"}"#),
    ] {
        let again = shop.post(path, "ada", key, body);
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{path}");
    }
}

#[test]
fn after_a_bank_that_does_not_answer_a_retry_does_not_charge_again() {
    let mut shop = Shop::open("silent");
    shop.post("/orders", "ada", "k1", BOOK);
    let pay = || shop.post("/orders/1/pay", "ada", "k2", r#"{"card":"silent"}"#);
    let (first, again) = (pay(), pay());
    assert_eq!((first.status, again.status), (504, 409));
    assert!(
        again.body.contains(r#""code":"outcome_unknown""#),
        "{}",
        again.body
    );
    assert_eq!(shop.charges(), ["charging order 1"]);
}

#[test]
fn after_a_failed_statement_a_retry_does_not_charge_again() {
    let mut shop = Shop::open("failed");
    shop.post("/orders", "ada", "k1", BOOK);
    shop.execute(
        "CREATE TRIGGER broken BEFORE UPDATE OF paid ON orders
         BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
    );
    let pay = || shop.post("/orders/1/pay", "ada", "k2", r#"{"card":"4711"}"#);
    let (first, again) = (pay(), pay());
    assert_eq!((first.status, again.status), (500, 409));
    assert!(
        again.body.contains(r#""code":"outcome_unknown""#),
        "{}",
        again.body
    );
    assert_eq!(shop.charges(), ["charging order 1"]);
}

#[test]
fn an_unknown_a_foreign_and_a_paid_order_are_not_charged() {
    let mut shop = Shop::open("not-charged");
    shop.post("/orders", "ada", "k1", BOOK);
    let pay = |order: u32, user, key| {
        let path = format!("/orders/{order}/pay");
        shop.post(&path, user, key, r#"{"card":"4711"}"#).status
    };
    assert_eq!(pay(99, "ada", "k2"), 404);
    assert_eq!(pay(1, "bob", "k2"), 404);
    assert_eq!(pay(1, "ada", "k3"), 200);
    assert_eq!(pay(1, "ada", "k4"), 409);
    assert_eq!(shop.charges(), ["charging order 1"]);
}

#[test]
fn a_client_that_repeats_without_end_is_limited() {
    let shop = Shop::open("limited");
    let status = |_| shop.post("/orders", "ada", "k1", BOOK).status;
    // Also if the window of the counter ends once in the middle, one window has more than 30 of these requests.
    let statuses: Vec<_> = (0..100).map(status).collect();
    assert!(
        statuses[..30].iter().all(|status| *status == 201),
        "{statuses:?}"
    );
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(shop.post("/orders", "bob", "k1", BOOK).status, 201);
}

#[test]
fn the_metrics_name_endpoints_as_the_router_does() {
    let shop = Shop::open("metrics");
    shop.post("/orders", "ada", "k1", BOOK);
    for _ in 0..2 {
        shop.post("/orders/1/pay", "ada", "k2", r#"{"card":"4711"}"#);
    }
    let metrics = shop.send("GET", "/metrics", "", "", "").body;
    for outcome in ["executed", "replayed"] {
        let line = format!(
            "idempotence_events_total{{endpoint=\"POST /orders/{{id}}/pay\",outcome=\"{outcome}\"}} 1"
        );
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }
}

/// A process with a file of its own.
struct Shop {
    file: PathBuf,
    service: Service,
}

impl Deref for Shop {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl DerefMut for Shop {
    fn deref_mut(&mut self) -> &mut Service {
        &mut self.service
    }
}

impl Shop {
    fn open(name: &str) -> Self {
        let name = format!("http-orders-{}-{name}.db", std::process::id());
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let service = Service::start(BIN, &file);
        Self { file, service }
    }

    fn reopen(&mut self) {
        self.service = Service::start(BIN, &self.file);
    }

    /// Executes a statement in the database of the shop, beside the process.
    fn execute(&self, statement: &'static str) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let options = SqliteConnectOptions::new().filename(&self.file);
            let mut connection = options.connect().await.unwrap();
            sqlx::raw_sql(statement)
                .execute(&mut connection)
                .await
                .unwrap();
            connection.close().await.unwrap();
        });
    }

    /// Stops the process, and returns which orders it has charged.
    fn charges(&mut self) -> Vec<String> {
        let printed = self.stop().into_iter();
        let charges = printed.filter(|line| line.starts_with("charging"));
        charges.collect()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.service.kill();
        for end in ["", "-wal", "-shm"] {
            let mut file = self.file.clone().into_os_string();
            file.push(end);
            let _ = std::fs::remove_file(file);
        }
    }
}
