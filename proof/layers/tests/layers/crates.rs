//! The order of the files in the crates of this workspace.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use idempotence_layers::{Layers, is_within};

/// The files of the macro from the bottom up: each uses only files before it.
const MACRO: [&str; 12] = [
    "error", "span", "duration", "value", "output", "function", "key", "options", "rules", "call",
    "expand", "lib",
];

/// The files of the test servers from the bottom up: each uses only files before it.
const SERVERS: [&str; 18] = [
    "supervisor",
    "program",
    "ports",
    "shared",
    "sql_server",
    "postgres",
    "pgbouncer",
    "mariadb",
    "redis/wait",
    "redis/resp",
    "redis/tls",
    "redis/server",
    "redis/cluster",
    "redis/sentinel",
    "redis/proxy/message",
    "redis/proxy",
    "redis",
    "lib",
];

/// The files of the client from the bottom up: each uses only files before it.
const CLIENT: [&str; 14] = [
    "key",
    "profile",
    "body",
    "problem",
    "advice",
    "first_sent",
    "backoff",
    "answer",
    "unanswered",
    "judge",
    "redirects",
    "tries",
    "requests",
    "lib",
];

/// The files of the Redis wing from the bottom up: each uses only files before it.
const REDIS: [&str; 50] = [
    // Commands, answers and errors of a server.
    "redis/script",
    "redis/info",
    "redis/reason",
    "redis/failure",
    // Addresses of the servers, and connections to them.
    "redis/url",
    "redis/link",
    "redis/tls",
    "redis/slot",
    "redis/slots",
    "redis/replicas",
    "redis/sentinel",
    "redis/cluster",
    "redis/topology",
    "redis/probe",
    "redis/unusable",
    "redis/connection",
    "redis/masters",
    "redis/commands",
    "redis/listener",
    "redis/lanes",
    "redis/large",
    "redis/record_scripts",
    "redis/batching/request",
    "redis/batching/unsent",
    "redis/batching/pipeline/shared",
    "redis/batching/pipeline",
    "redis/batching/waiting",
    "redis/batching",
    "redis/gathering",
    "redis/nodes",
    "redis/replicated",
    "redis/executor",
    // The data in Redis.
    "redis/oversize",
    "redis/removal",
    "redis/records",
    "redis/fencing",
    "redis/counting",
    "redis/ring",
    "redis/filters/buckets",
    "redis/filters/bitmaps",
    "redis/filters/module",
    "redis/filters",
    // The store.
    "redis/doctor/examination",
    "redis/doctor/permissions",
    "redis/doctor/servers",
    "redis/doctor",
    "redis/store",
    "redis/checks",
    "redis/options",
    "redis",
];

/// The files of the SQL wing from the bottom up: each uses only files before it.
const SQL: [&str; 45] = [
    // The options of a URL, and encryption.
    "sql/url",
    "sql/session",
    // The operations that every database implements.
    "sql/database/time",
    "sql/database/run",
    "sql/database/records",
    "sql/database/counting",
    "sql/database/rows",
    "sql/database/lock",
    "sql/database/connect",
    "sql/database/doctor",
    "sql/database/fencing",
    "sql/database/schema",
    "sql/database/syntax",
    "sql/database/batch",
    // The implementations for each database, and the choice among them.
    "sql/postgres",
    "sql/mysql",
    "sql/sqlite",
    "sql/database",
    // The meaning of errors, retries, and connections.
    "sql/failure",
    "sql/retryable",
    "sql/retry",
    "sql/checkout",
    "sql/connection",
    // Transactions that run once, and locks.
    "sql/rows",
    "sql/statement",
    "sql/unique",
    "sql/row",
    "sql/insert",
    "sql/transition",
    "sql/version",
    "sql/duplicate",
    "sql/lock",
    "sql/lock/waiting",
    // Changes of many callers in one transaction.
    "sql/batching/ticket",
    "sql/batching/queued",
    "sql/batching/kept",
    "sql/batching",
    // The tables, and the store.
    "sql/migrate",
    "sql/store/attempts",
    "sql/store/connect",
    "sql/store/doctor",
    "sql/store/fencing",
    "sql/store/purge",
    "sql/store",
    "sql",
];

/// The files of the observers from the bottom up: each uses only files before it.
const OBSERVERS: [&str; 10] = [
    "observe/kind",
    "observe/event",
    "observe/panics",
    "observe/log",
    "observe/throttle",
    "observe/metrics",
    "observe/recording",
    "observe/observer",
    "observe/operation",
    "observe",
];

/// The files of keys from the bottom up: each uses only files before it.
const KEYS: [&str; 13] = [
    "key/hex",
    "key/fingerprint/digest",
    "key/fingerprint/canonical",
    "key/fingerprint/encode",
    "key/fingerprint",
    "key/name",
    "key/path_name",
    "key/route",
    "key/endpoint",
    "key/downstream",
    "key/request_id",
    "key/kind",
    "key",
];

/// The files of calls from the bottom up: each uses only files before it.
const CALLS: [&str; 12] = [
    "call/finish",
    "call/key_parts",
    "call/token_text",
    "call",
    "call/in_tx",
    "call/answers",
    "call/required",
    "call/builder",
    "call/builder/copied",
    "call/run",
    "call/run_each",
    "call/run_in",
];

/// The files of errors from the bottom up: each uses only files before it.
const ERRORS: [&str; 12] = [
    "error/advice",
    "error/closest",
    "error/store",
    "error/failure",
    "error/lang",
    "error/limited",
    "error/setup",
    "error/duplicate",
    "error/call",
    "error/catalog",
    "error/wait",
    "error",
];

/// The files of integrations from the bottom up: each uses only files before it.
const INTEGRATIONS: [&str; 15] = [
    "integrations/rejection",
    "integrations/key",
    "integrations/request_id",
    "integrations/actix/extract",
    "integrations/actix",
    "integrations/axum/lang",
    "integrations/axum/rejection",
    "integrations/axum/key",
    "integrations/axum/request_id",
    "integrations/axum/replay",
    "integrations/axum",
    "integrations/tonic/request_id",
    "integrations/tonic",
    "integrations/utoipa",
    "integrations",
];

/// The files of the stores from the bottom up: each uses only files before it.
const STORE: [&str; 19] = [
    // Answers and arguments.
    "store/answer",
    "store/durability",
    "store/filter/shape",
    "store/filter",
    "store/finding",
    "store/key",
    "store/local",
    // Code that stores share.
    "store/last_poll",
    "store/longest",
    "store/queue",
    // The contracts.
    "store/rows",
    "store/fencing",
    "store/contract",
    "store/wrap",
    // The store in memory.
    "store/memory/shard",
    "store/memory/counting",
    "store/memory/filters",
    "store/memory",
    "store",
];

/// The files of the batches from the bottom up: each uses only files before it.
const BATCH: [&str; 6] = [
    "batch/transport",
    "batch/queue",
    "batch/refusal",
    "batch/count",
    "batch/lane",
    "batch",
];

/// The files of the tools for tests from the bottom up: each uses only files before it.
const TESTKIT: [&str; 20] = [
    "testkit/op",
    "testkit/counting",
    "testkit/faulty",
    "testkit/conformance/subject",
    "testkit/conformance/lifetime",
    "testkit/conformance/answers",
    "testkit/conformance/bytes",
    "testkit/conformance/counts",
    "testkit/conformance/expiry",
    "testkit/conformance/fences",
    "testkit/conformance/filters",
    "testkit/conformance/hints",
    "testkit/conformance/local",
    "testkit/conformance/races",
    "testkit/conformance/sets",
    "testkit/conformance/tokens",
    "testkit/conformance",
    "testkit/report",
    "testkit/storm",
    "testkit",
];

/// The files of the settings from the bottom up: each uses only files before it.
const SETTINGS: [&str; 12] = [
    // The settings.
    "settings/setting",
    "settings/overrides",
    "settings/table",
    "settings/env",
    "settings/file",
    "settings",
    // The endpoints that they apply to.
    "settings/endpoint_info",
    "settings/list",
    "settings/called",
    "settings/registered",
    "settings/routes",
    "settings/known",
];

/// The files of the handle from the bottom up: each uses only files before it.
const HANDLE: [&str; 6] = [
    "handle",
    "handle/drain",
    "handle/endpoints",
    "handle/watch",
    "handle/connect",
    "handle/builder",
];

/// The files of the mechanisms from the bottom up: each uses only files before it.
const MECHANISMS: [&str; 18] = [
    "mechanisms/mistakes",
    "mechanisms/tokens",
    "mechanisms/counter",
    "mechanisms/counter/builder",
    "mechanisms/bloom",
    "mechanisms/bloom/builder",
    "mechanisms/seen/member",
    "mechanisms/seen/removal_guard",
    "mechanisms/seen",
    "mechanisms/seen/builder",
    "mechanisms/numbers/sequence",
    "mechanisms/numbers/number",
    "mechanisms/numbers/placed",
    "mechanisms/numbers/machine",
    "mechanisms/numbers/issuer",
    "mechanisms/numbers",
    "mechanisms/numbers/builder",
    "mechanisms",
];

/// The files of the protocol from the bottom up: each uses only files before it.
const PROTOCOL: [&str; 37] = [
    // Background work and retries.
    "protocol/tracker",
    "protocol/timeouts",
    "protocol/scheduler",
    "protocol/retry",
    // The state that the calls of a handle share.
    "protocol/followers",
    "protocol/seen",
    "protocol/state",
    "protocol/in_flight",
    "protocol/stuck_keys",
    "protocol/shared",
    "protocol/background",
    // One-time tokens.
    "protocol/token",
    "protocol/token/owned",
    "protocol/token/guard",
    "protocol/token/redemption",
    "protocol/token/of_call",
    // One call, and one claim of it.
    "protocol/context",
    "protocol/ending",
    "protocol/own_claim",
    "protocol/lease",
    "protocol/fence",
    "protocol/number",
    "protocol/mark",
    "protocol/kept_claim",
    "protocol/settle",
    "protocol/renewal",
    "protocol/refusal",
    "protocol/stuck",
    // From the claim to the end of the body.
    "protocol/body_context",
    "protocol/held",
    "protocol/claim",
    "protocol/redeem",
    // Duplicates.
    "protocol/poll_limiter",
    "protocol/waiter",
    "protocol/follow",
    "protocol/wait",
    "protocol",
];

/// The files of policies from the bottom up: each uses only files before it.
const POLICY: [&str; 4] = [
    "policy/duration",
    "policy/deadline",
    "policy",
    "policy/times",
];

/// The files of records from the bottom up: each uses only files before it.
const RECORDS: [&str; 11] = [
    "record/line",
    "record/fields",
    "record/owner",
    "record/form",
    "record/kept",
    "record/call",
    "record/token",
    "record/count",
    "record/fence",
    "record/shape",
    "record",
];

/// The files of results from the bottom up: each uses only files before it.
const RESULTS: [&str; 14] = [
    "result/once",
    "result/outcome",
    "result/body_outcome",
    "result/codec/encoded",
    "result/codec/json",
    "result/codec/levels",
    "result/codec/msgpack",
    "result/codec/peel",
    "result/codec/schema",
    "result/codec",
    "result/replay",
    "result/options",
    "result/replay_mode",
    "result",
];

/// The files for operators from the bottom up: each uses only files before it.
const OPERATE: [&str; 4] = [
    "operate/peek",
    "operate/doctor/probe",
    "operate/doctor",
    "operate",
];

/// The files of HTTP from the bottom up: each uses only files before it.
const HTTP: [&str; 52] = [
    "http/headers",
    "http/content_type",
    "http/route",
    "http/lang",
    "http/problem",
    // The payload of a request.
    "http/payload/json",
    "http/payload/canonical",
    "http/payload/select",
    "http/payload/multipart",
    "http/payload",
    // The key of a request.
    "http/key/parameters",
    "http/key/text",
    "http/key/fault",
    "http/key",
    "http/key/source",
    // The conventions of public APIs.
    "http/profile/table",
    "http/profile/tables",
    "http/profile/stamp",
    "http/profile/refusal",
    "http/profile",
    "http/body",
    "http/incoming",
    // The response to a request, and what is stored of it.
    "http/decision",
    // The same of gRPC.
    "http/grpc/retry_info",
    "http/grpc/refusal",
    "http/grpc/outcome",
    "http/grpc",
    "http/running",
    "http/continue_layer",
    "http/context",
    "http/stored",
    "http/options",
    "http/answer",
    // The layer.
    "http/scope",
    "http/rejection",
    "http/first_sent",
    "http/config",
    "http/guard",
    "http/future",
    "http/service",
    "http/layer",
    "http/peek",
    "http/actix/body",
    "http/actix/convert",
    "http/actix/local",
    "http/actix/continuing",
    "http/actix/service",
    "http/actix",
    "http/cors",
    "http/describe",
    "http/builder",
    "http",
];

/// The rooms of the runtime from the bottom up: each uses only rooms before it.
const RUNTIME: [&str; 24] = [
    "broken",
    "world",
    "sync",
    "policy",
    "key",
    "error",
    "record",
    "store",
    "batch",
    "redis",
    "sql",
    "result",
    "observe",
    "settings",
    "protocol",
    "handle",
    "call",
    "mechanisms",
    "operate",
    "http",
    "integrations",
    "private",
    "testkit",
    "lib",
];

fn sources(package: &str) -> PathBuf {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    root.join(package).join("src")
}

/// The runtime, read once for all tests.
static RUNTIME_LAYERS: LazyLock<Layers> = LazyLock::new(|| layers("idempotent-runtime"));

fn layers(package: &str) -> Layers {
    Layers::read(&sources(package)).expect("the sources of a crate")
}

/// Asserts that there is no cycle and that each file uses only files before it.
fn assert_in_order(layers: &Layers, files: &[&str]) {
    let cycles: Vec<_> = layers.cycles().iter().map(ToString::to_string).collect();
    assert_eq!(cycles, [""; 0], "{}", cycles.concat());
    assert_eq!(layers.violations(files), [""; 0]);
}

/// Asserts that each file of a wing of the runtime, or its folder, is listed, and that it uses only files before it.
fn assert_wing_in_order(wing: &str, files: &[&str]) {
    assert_eq!(wing_violations(wing, files), [""; 0]);
}

fn wing_violations(wing: &str, files: &[&str]) -> Vec<String> {
    let modules = RUNTIME_LAYERS.modules();
    let modules = modules.filter(|module| is_within(module, wing));
    let is_listed = |module: &str| {
        // The name of the wing lists its root, but no file in it.
        let mut files = files.iter().filter(|file| **file != wing || module == wing);
        files.any(|file| is_within(module, file))
    };
    let unlisted = modules.filter(|module| !is_listed(module));
    let unlisted = unlisted.map(|module| format!("`{module}` is not in the list of `{wing}`"));
    let upward = RUNTIME_LAYERS.violations(files).into_iter();
    let upward = upward.filter(|violation| violation.starts_with(&format!("room `{wing}")));
    unlisted.chain(upward).collect()
}

#[test]
fn unlisted_and_misplaced_files_are_reported() {
    let reversed: Vec<&str> = PROTOCOL.into_iter().rev().collect();
    let violations = wing_violations("protocol", &reversed);
    assert!(violations.len() > 50, "{violations:?}");
    let unlisted = wing_violations("operate", &OPERATE[1..]);
    assert_eq!(unlisted, ["`operate/peek` is not in the list of `operate`"]);
}

#[test]
fn files_of_the_macro_use_only_files_before_them() {
    assert_in_order(&layers("idempotent-macro"), &MACRO);
}

#[test]
fn files_of_the_test_servers_use_only_files_before_them() {
    assert_in_order(&layers("test-servers"), &SERVERS);
}

#[test]
fn files_of_the_client_use_only_files_before_them() {
    assert_in_order(&layers("idempotence-client"), &CLIENT);
}

#[test]
fn files_of_redis_use_only_files_before_them() {
    assert_wing_in_order("redis", &REDIS);
}

#[test]
fn files_of_sql_use_only_files_before_them() {
    assert_wing_in_order("sql", &SQL);
}

#[test]
fn files_of_the_observers_use_only_files_before_them() {
    assert_wing_in_order("observe", &OBSERVERS);
}

#[test]
fn files_of_keys_use_only_files_before_them() {
    assert_wing_in_order("key", &KEYS);
}

#[test]
fn files_of_calls_use_only_files_before_them() {
    assert_wing_in_order("call", &CALLS);
}

#[test]
fn files_of_errors_use_only_files_before_them() {
    assert_wing_in_order("error", &ERRORS);
}

#[test]
fn files_of_http_use_only_files_before_them() {
    assert_wing_in_order("http", &HTTP);
}

#[test]
fn files_of_integrations_use_only_files_before_them() {
    assert_wing_in_order("integrations", &INTEGRATIONS);
}

#[test]
fn files_of_policies_use_only_files_before_them() {
    assert_wing_in_order("policy", &POLICY);
}

#[test]
fn files_of_records_use_only_files_before_them() {
    assert_wing_in_order("record", &RECORDS);
}

#[test]
fn files_of_results_use_only_files_before_them() {
    assert_wing_in_order("result", &RESULTS);
}

#[test]
fn files_of_the_operators_use_only_files_before_them() {
    assert_wing_in_order("operate", &OPERATE);
}

#[test]
fn files_of_the_stores_use_only_files_before_them() {
    assert_wing_in_order("store", &STORE);
    assert_wing_in_order("batch", &BATCH);
}

#[test]
fn files_of_the_testkit_use_only_files_before_them() {
    assert_wing_in_order("testkit", &TESTKIT);
}

#[test]
fn files_of_the_settings_use_only_files_before_them() {
    assert_wing_in_order("settings", &SETTINGS);
}

#[test]
fn files_of_the_handle_use_only_files_before_them() {
    assert_wing_in_order("handle", &HANDLE);
}

#[test]
fn files_of_the_mechanisms_use_only_files_before_them() {
    assert_wing_in_order("mechanisms", &MECHANISMS);
}

#[test]
fn files_of_the_protocol_use_only_files_before_them() {
    assert_wing_in_order("protocol", &PROTOCOL);
}

#[test]
fn each_database_has_files_of_the_same_names() {
    let names = |database: &str| {
        let folder = sources("idempotent-runtime").join("sql").join(database);
        let files = fs::read_dir(folder).expect("a folder for each database");
        let files = files.map(|file| file.expect("a file"));
        // A folder has the parts of the file with its name.
        let mut names: Vec<OsString> = files
            .filter(|file| file.path().is_file())
            .map(|file| file.file_name())
            .collect();
        names.sort();
        names
    };
    let postgres = names("postgres");
    for other in ["mysql", "sqlite"] {
        assert_eq!(names(other), postgres, "{other}");
    }
}

#[test]
fn rooms_of_the_runtime_use_only_rooms_before_them() {
    assert_in_order(&RUNTIME_LAYERS, &RUNTIME);
}

#[test]
fn no_file_has_more_than_400_lines_and_no_function_more_than_60() {
    let longer = |layers: &Layers| layers.longer_than(400, 60);
    assert_eq!(longer(&layers("idempotent-macro")), [""; 0]);
    assert_eq!(longer(&layers("test-servers")), [""; 0]);
    assert_eq!(longer(&layers("idempotence-client")), [""; 0]);
    assert_eq!(longer(&RUNTIME_LAYERS), [""; 0]);
}
