//! The shop: each mechanism in each scenario, by the endpoints of its page.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::Command;

use idempotence_test_servers::{PostgresServer, RedisServer};
use serde_json::{Value, json};

use crate::service::{Reply, Service};

const BIN: &str = env!("CARGO_BIN_EXE_shop");

const SCENARIOS: [&str; 11] = [
    "double_click",
    "storm",
    "late_click",
    "lost_reply",
    "other_amount",
    "handler_fails",
    "outlives_lease",
    "two_nodes",
    "store_down",
    "crash",
    "second_phone",
];

/// Charges/intents and the verdict, or why there is no such scenario. A storm has 20 clicks.
#[rustfmt::skip]
const GRID: [(&str, [&str; 11]); 15] = [
    ("unprotected", ["2/1 charged", "20/1 charged", "2/1 charged", "2/1 charged", "no_key", "1/1 once", "no_lease", "2/1 charged", "1/1 once", "2/1 charged", "2/2 once"]),
    ("check_then_set", ["2/1 charged", "20/1 charged", "1/1 once", "1/1 no_receipt", "1/1 once", "1/1 once", "no_lease", "2/1 charged", "0/1 refused", "2/1 charged", "2/2 once"]),
    ("fingerprint_released", ["1/1 once", "1/1 once", "2/1 charged", "2/1 charged", "amount_is_key", "1/1 once", "1/1 once", "1/1 once", "0/1 refused", "2/1 charged", "2/2 once"]),
    ("fingerprint_held", ["1/1 once", "1/1 once", "1/1 once", "1/1 no_receipt", "amount_is_key", "1/1 once", "1/1 once", "1/1 once", "0/1 refused", "2/1 charged", "1/2 blocked"]),
    ("token", ["1/1 once", "1/1 once", "1/1 same_receipt", "1/1 same_receipt", "1/1 noticed", "1/1 once", "1/1 once", "1/1 once", "0/1 refused", "1/1 no_receipt", "2/2 once"]),
    ("page_counter", ["1/1 once", "1/1 once", "1/1 once", "1/1 no_receipt", "1/1 once", "0/1 blocked", "no_lease", "1/1 once", "0/1 refused", "1/1 no_receipt", "2/2 once"]),
    ("fenced_lock", ["1/1 once", "1/1 once", "1/1 same_receipt", "1/1 same_receipt", "1/1 unnoticed", "1/1 once", "1/1 once", "1/1 once", "1/1 once", "2/1 charged", "2/2 once"]),
    ("order_number", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 unnoticed", "1/1 once", "no_lease", "1/1 same_receipt", "1/1 once", "1/1 once", "2/2 once"]),
    ("bloom", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 unnoticed", "1/1 once", "no_lease", "1/1 same_receipt", "1/1 once", "1/1 once", "2/2 once"]),
    ("unique_index", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 unnoticed", "1/1 once", "no_lease", "1/1 same_receipt", "1/1 once", "1/1 once", "2/2 once"]),
    ("dedup_row", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 noticed", "1/1 once", "no_lease", "1/1 same_receipt", "1/1 once", "1/1 once", "2/2 once"]),
    ("transition", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 unnoticed", "1/1 once", "no_lease", "1/1 same_receipt", "1/1 once", "1/1 once", "2/2 once"]),
    ("replay", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 noticed", "1/1 once", "1/1 same_receipt", "1/1 same_receipt", "0/1 refused", "1/1 same_receipt", "2/2 once"]),
    ("steps", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 noticed", "1/1 once", "1/1 same_receipt", "1/1 same_receipt", "0/1 refused", "1/1 once", "2/2 once"]),
    ("http_layer", ["1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 same_receipt", "1/1 noticed", "1/1 once", "1/1 same_receipt", "1/1 same_receipt", "0/1 refused", "1/1 once", "2/2 once"]),
];

#[test]
fn each_mechanism_charges_in_each_scenario_as_the_grid_says() {
    check_grid(&Shop::open());
}

#[test]
fn on_redis_and_postgres_each_mechanism_charges_as_in_memory() {
    let redis = RedisServer::start().unwrap();
    let postgres = PostgresServer::start().unwrap();
    let urls = [redis.url(), postgres.url()];
    let args = ["--redis", &urls[0], "--postgres", &urls[1]].map(OsStr::new);
    let shop = Shop(Service::start_with(BIN, &args));
    check_grid(&shop);
    let names = shop.get("/api/shop");
    assert_eq!(
        (&names["store"], &names["database"]),
        (&json!("Redis"), &json!("PostgreSQL"))
    );
}

/// The cell of the grid for this report.
fn cell(report: &Value) -> String {
    let (charges, intents) = (&report["charges"], &report["intents"]);
    format!("{charges}/{intents} {}", text(&report["verdict"]))
}

/// How often the bank was charged, in a cell that says so.
fn charges(cell: Option<&str>) -> Option<u32> {
    cell?.split_once('/')?.0.parse().ok()
}

/// Runs all, and compares each cell.
fn check_grid(shop: &Shop) {
    let mut cells = shop.not_applicable();
    let all = shop.post("/api/run-all", &json!({ "clicks": 20 }));
    for report in array(&all["reports"]) {
        let place = (text(&report["mechanism"]), text(&report["scenario"]));
        let found = cells.insert(place.clone(), cell(report));
        assert_eq!(found, None, "{place:?}");
        let unended = |attempt: &&Value| attempt["outcome"] == "running";
        let running = array(&report["attempts"]).iter().find(unended);
        assert_eq!(running, None, "{place:?}");
    }
    let mut wrong = Vec::new();
    for (mechanism, row) in GRID {
        for (scenario, expected) in SCENARIOS.into_iter().zip(row) {
            let mut found = cells.remove(&(mechanism.to_owned(), scenario.to_owned()));
            // On a machine that stands still a lease ends, or clicks do not meet. That is played again, but never a charge too many.
            for _ in 0..5 {
                let has_too_many = charges(found.as_deref()) > charges(Some(expected));
                if has_too_many || found.as_deref() == Some(expected) {
                    break;
                }
                found = Some(cell(&shop.run(mechanism, scenario)));
            }
            if found.as_deref() != Some(expected) {
                wrong.push(format!(
                    "{mechanism} {scenario}: {expected}, found {found:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cells.is_empty(), "cells without a place: {cells:?}");
    // The state, which a page reads when it has lost events, is the same grid.
    let state = shop.get("/api/state");
    assert_eq!(array(&state["reports"]).len(), array(&all["reports"]).len());
}

#[test]
fn a_double_click_on_the_button_pays_twice_unprotected_and_once_with_replay() {
    let shop = Shop::open();
    let pages = ["unprotected", "replay"].map(|mechanism| {
        let page = shop.post("/api/pages", &json!({ "mechanism": mechanism }));
        format!("/api/pages/{}", page["page"])
    });
    let clicks = pages
        .each_ref()
        .map(|page| [(); 2].map(|()| shop.click(page)));
    for click in clicks.into_iter().flatten() {
        click.join().unwrap();
    }
    let [unprotected, replay] = pages.map(|page| shop.get(&page));
    assert_eq!(
        (&unprotected["charges"], &unprotected["cents"]),
        (&json!(2), &json!(19_800))
    );
    assert_eq!(
        (&replay["charges"], &replay["cents"]),
        (&json!(1), &json!(9900))
    );
    assert_eq!(replay["verdict"], "same_receipt");
}

#[test]
fn the_timeline_shows_which_commands_each_click_sent_to_the_store() {
    let shop = Shop::open();
    let report = shop.run("replay", "late_click");
    let commands = |no: usize| report["attempts"][no]["commands"].clone();
    assert_eq!(commands(0), json!({ "claim": 1, "replace": 1 }), "{report}");
    assert_eq!(commands(1), json!({ "claim": 1 }), "{report}");
    // A process that died has sent its claim, and no more.
    let report = shop.run("replay", "crash");
    assert_eq!(report["attempts"][0]["outcome"], "crashed");
    assert_eq!(report["attempts"][0]["commands"], json!({ "claim": 1 }));
    let report = shop.run("check_then_set", "late_click");
    assert_eq!(
        report["attempts"][0]["commands"],
        json!({ "claim": 1, "get": 1 })
    );
    let report = shop.run("unprotected", "late_click");
    assert_eq!(report["attempts"][0]["commands"], json!({}));
}

#[test]
fn a_page_that_listens_first_reads_the_state_and_then_gets_each_report() {
    let shop = Shop::open();
    let stream = shop.0.begin("GET", "/api/events", "", "", "");
    let events = BufReader::new(stream).lines().map(Result::unwrap);
    let mut events = events.filter_map(|line| {
        let data = line.strip_prefix("data: ")?;
        Some(serde_json::from_str::<Value>(data).unwrap())
    });
    assert_eq!(events.next().unwrap()["type"], "resync");
    let report = shop.run("token", "double_click");
    let event = events.next().unwrap();
    assert_eq!(
        (&event["type"], &event["report"]),
        (&json!("report"), &report)
    );
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_has_all_words_in_both_languages() {
    let shop = Shop::open();
    let html = shop.fetch("/");
    assert_eq!(
        html.header("content-security-policy"),
        Some("default-src 'self'")
    );
    let files = ["/page.js", "/words.js", "/style.css"].map(|path| shop.fetch(path).body);
    for text in files.iter().chain([&html.body]) {
        assert!(!text.contains("://"), "{text}");
    }
    let (en, zh) = files[1].split_once("\n  zh: {").unwrap();
    let words = html.body.split("data-word=\"").skip(1);
    let words = words.filter_map(|rest| rest.split('"').next());
    let mechanisms = GRID.map(|(mechanism, _)| mechanism);
    let verdicts = [
        "once",
        "same_receipt",
        "noticed",
        "unnoticed",
        "no_receipt",
        "refused",
        "blocked",
    ];
    for word in words.chain(mechanisms).chain(SCENARIOS).chain(verdicts) {
        for (language, text) in [("en", en), ("zh", zh)] {
            let ends = [format!(" {word}: "), format!("{{ {word}: ")];
            let is_there = ends.iter().any(|key| text.contains(key.as_str()));
            assert!(is_there, "{word} has no words in {language}");
        }
    }
}

#[test]
fn a_request_for_a_cell_that_does_not_exist_is_refused() {
    let shop = Shop::open();
    let status = |mechanism: &str, scenario: &str| {
        let body = json!({ "mechanism": mechanism, "scenario": scenario });
        let reply = shop.0.post("/api/run", "", "", &body.to_string());
        reply.status
    };
    assert_eq!(status("unprotected", "other_amount"), 422);
    assert_eq!(status("magic", "double_click"), 404);
    assert_eq!(
        shop.0.post("/api/pages/99/clicks", "", "", "{}").status,
        404
    );
}

#[test]
fn the_shop_listens_only_on_this_machine() {
    let refused = Command::new(BIN).arg("0.0.0.0:0").output().unwrap();
    assert!(!refused.status.success());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("of this machine"), "{error}");
}

struct Shop(Service);

impl Shop {
    fn open() -> Self {
        Self(Service::start_with(BIN, &[]))
    }

    fn fetch(&self, path: &str) -> Reply {
        let reply = self.0.send("GET", path, "", "", "");
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.fetch(path).body).unwrap()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.0.post(path, "", "", &body.to_string());
        assert!(reply.status < 300, "{path}: {}", reply.body);
        serde_json::from_str(&reply.body).unwrap()
    }

    fn run(&self, mechanism: &str, scenario: &str) -> Value {
        let body = json!({ "mechanism": mechanism, "scenario": scenario });
        self.post("/api/run", &body)
    }

    /// Sends a click now. Its answer is read in a thread.
    fn click(&self, page: &str) -> std::thread::JoinHandle<()> {
        let mut sent = self
            .0
            .begin("POST", &format!("{page}/clicks"), "", "", "{}");
        std::thread::spawn(move || {
            let reply = Reply::read(&mut sent);
            assert_eq!(reply.status, 200, "{}", reply.body);
        })
    }

    /// The cells that say why there is no such scenario.
    fn not_applicable(&self) -> BTreeMap<(String, String), String> {
        let shop = self.get("/api/shop");
        assert_eq!(shop["scenarios"], json!(SCENARIOS));
        let mut cells = BTreeMap::new();
        for mechanism in array(&shop["mechanisms"]) {
            let id = text(&mechanism["id"]);
            let code = text(&mechanism["code"]);
            assert!(code.contains("async fn buy("), "the code of {id}");
            for (scenario, reason) in mechanism["not_applicable"].as_object().unwrap() {
                cells.insert((id.clone(), scenario.clone()), text(reason));
            }
        }
        cells
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
