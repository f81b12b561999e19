//! Runs the command, and leaves a stuck key.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotence::store::Store as _;
use idempotence::{Error, Event, GuardedCall, Idempotency};
use idempotence_test_servers::{MariaDbServer, PostgresServer, RedisServer};
use serde_json::Value;

/// The command with a store, and without the variables of the caller.
pub(crate) fn command(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idempotence"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("IDEMPOTENCE_") {
            command.env_remove(name);
        }
    }
    command.args(args).env("IDEMPOTENCE_STORE", url);
    if !url.is_empty() {
        // A store of a slow machine is only slow.
        command.args(["--deadline", "1m"]);
    }
    command
}

/// What the command printed, and its exit code.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The output, if the command has succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
}

pub(crate) fn run(url: &str, args: &[&str]) -> Ran {
    Ran::of(command(url, args).output().unwrap())
}

/// A store of this kind that no other test uses.
pub(crate) fn redis() -> String {
    static DATABASES: AtomicUsize = AtomicUsize::new(0);
    static SERVER: LazyLock<RedisServer> =
        LazyLock::new(|| RedisServer::start_with(["--databases", "64"]).unwrap());
    let database = DATABASES.fetch_add(1, Ordering::SeqCst);
    assert!(database < 64, "the server has 64 databases");
    format!("{}/{database}", SERVER.url())
}

pub(crate) fn sqlite() -> String {
    let url = empty_sqlite();
    run(&url, &["migrate"]).ok();
    url
}

/// A database without tables.
pub(crate) fn empty_sqlite() -> String {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let number = FILES.fetch_add(1, Ordering::SeqCst);
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{number}.db"));
    fs::write(&file, "").unwrap();
    format!("sqlite:{}", file.display())
}

/// Puts a record that no version of the crate wrote.
pub(crate) fn put_foreign(url: &str, key: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let store = idempotence::SqliteStore::connect(url).await.unwrap();
        let value = idempotence::store::Bytes::from_static(b"foreign");
        let claim = store.claim(key, &value, Duration::from_mins(10));
        claim.await.unwrap();
    });
}

pub(crate) fn postgres() -> String {
    PostgresServer::shared().unwrap().database().unwrap()
}

pub(crate) fn mariadb() -> String {
    MariaDbServer::shared().unwrap().database().unwrap()
}

/// A program with calls in this store.
pub(crate) struct Program {
    runtime: Option<tokio::runtime::Runtime>,
    pub(crate) idempotency: Idempotency,
}

/// The reply of another service is lost.
#[derive(Debug)]
struct Lost;

impl From<Error> for Lost {
    fn from(refused: Error) -> Self {
        panic!("{refused}");
    }
}

pub(crate) const LEASE: Duration = Duration::from_secs(2);

impl Program {
    pub(crate) fn on(url: &str) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let idempotency = runtime.block_on(async {
            let builder = Idempotency::builder_from_url(url).await.unwrap();
            builder.deadline(Duration::from_mins(1)).build().unwrap()
        });
        Self {
            runtime: Some(runtime),
            idempotency,
        }
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(work)
    }

    /// Runs a call to its end.
    pub(crate) fn pay(&self, id: u64) {
        let call = self
            .idempotency
            .call("orders.pay")
            .key(&id)
            .ttl(Duration::from_mins(10));
        self.block_on(call.run(async { Ok::<_, Error>(()) }))
            .unwrap();
    }

    /// Runs a call to an end of which nobody knows whether its work is done.
    pub(crate) fn leave_unknown(&self, endpoint: &'static str, id: u64) {
        let call = self.idempotency.call(endpoint).key(&id);
        let call = call.ttl(Duration::from_mins(10)).hold_err(|_: &Lost| true);
        let lost = self.block_on(call.run(async { Err::<(), _>(Lost) }));
        lost.unwrap_err();
    }

    /// Leaves a call that runs, and whose process dies: the runtime ends, and nothing renews the key any more. Returns the digits that
    /// a refusal of another process logs.
    pub(crate) fn die_in(self, url: &str, id: u64, lease: Duration) -> String {
        self.begin(id, lease);
        self.die();
        digits_of(url, id)
    }

    /// Ends the runtime without the ends of its calls.
    pub(crate) fn die(mut self) {
        self.runtime.take().unwrap().shutdown_background();
        std::mem::forget(self);
    }

    /// Begins a call that runs until the runtime ends.
    pub(crate) fn begin(&self, id: u64, lease: Duration) {
        let call = self
            .idempotency
            .call("orders.pay")
            .key(&id)
            .ttl(Duration::from_mins(10));
        self.begin_call(call.lease(lease));
    }

    /// Begins this call, and runs it until the runtime ends.
    pub(crate) fn begin_call(&self, call: GuardedCall) {
        let (begun, begins) = tokio::sync::oneshot::channel();
        self.runtime.as_ref().unwrap().spawn(async move {
            let body = async {
                let _ = begun.send(());
                std::future::pending::<Result<(), Error>>().await
            };
            let _ = call.run(body).await;
        });
        self.block_on(begins).unwrap();
    }
}

/// The digits of the log line of a duplicate.
fn digits_of(url: &str, id: u64) -> String {
    let (sender, digits) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let builder = Idempotency::builder_from_url(url).await.unwrap();
        let noted = move |event: &Event<'_>| {
            let _ = sender.send(event.key().map(|key| key.to_string()));
        };
        let idempotency = builder
            .deadline(Duration::from_mins(1))
            .observer(noted)
            .build()
            .unwrap();
        let call = idempotency
            .call("orders.pay")
            .key(&id)
            .ttl(Duration::from_mins(10));
        let refused = call.run(async { Ok::<_, Error>(()) }).await.unwrap_err();
        assert!(refused.is_duplicate(), "{refused}");
    });
    digits.recv().unwrap().unwrap()
}
