//! `fork()` copies a process that has made calls. The copy must make different owners, tokens and numbers.
//!
//! The test runs without the test harness, because a fork does not copy its threads.
#![allow(clippy::unwrap_used)]

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    unix::a_forked_process_makes_other_ids();
    unix::owners_that_are_drawn_before_a_fork_are_used_by_one_process();
}

#[cfg(unix)]
mod unix {
    use std::collections::HashSet;
    use std::io::{PipeWriter, Read as _, Write as _, pipe};
    use std::panic::catch_unwind;
    use std::process::{self, exit};
    use std::time::Duration;

    use fork::{Fork, fork, waitpid};
    use idempotent_runtime::fingerprint::Fingerprint;
    use idempotent_runtime::store::Wrap;
    use idempotent_runtime::{Error, Idempotency, MemoryStore, OrderNumbers, Release, Store};
    use tokio::runtime::{Builder, Runtime};

    /// Records that other processes may read. Calls on a `MemoryStore` alone would not ask for the process id each time.
    #[derive(Debug)]
    struct Shared(MemoryStore);

    impl Wrap for Shared {
        type Inner = MemoryStore;

        fn inner(&self) -> &MemoryStore {
            &self.0
        }
    }

    const MINUTE: Duration = Duration::from_mins(1);
    const EACH: u32 = 20;

    pub(crate) fn a_forked_process_makes_other_ids() {
        // Everything that is initialized once per process or thread is initialized before the fork.
        let before = runtime().block_on(made(1));
        let numbers = runtime().block_on(numbers());
        numbers.issue(&7).unwrap();
        let (mut reader, writer) = pipe().unwrap();
        let child = match fork().unwrap() {
            Fork::Child => exit(run_child(writer, &numbers)),
            Fork::Parent(child) => child,
        };
        drop(writer);
        let here = runtime().block_on(made(EACH));
        assert!(numbers.issue(&7).is_ok(), "the parent keeps its lease");
        let mut there = String::new();
        reader.read_to_string(&mut there).unwrap();
        assert_eq!(waitpid(child).unwrap(), 0, "the child failed");

        let there: Vec<String> = there.lines().map(str::to_owned).collect();
        assert_eq!(there.len(), here.len());
        let all: Vec<&String> = [&before, &here, &there].into_iter().flatten().collect();
        let distinct: HashSet<&&String> = all.iter().collect();
        assert_eq!(
            distinct.len(),
            all.len(),
            "parent and child made equal ids: {here:#?} {there:#?}"
        );
    }

    /// A thread draws the bits of several owners at once. The fork copies those that are not used yet, and both processes go on
    /// at once.
    pub(crate) fn owners_that_are_drawn_before_a_fork_are_used_by_one_process() {
        let runtime = runtime();
        let store = MemoryStore::new();
        for _ in 0..20 {
            runtime.block_on(owners(&store, 50));
            let (mut reader, mut writer) = pipe().unwrap();
            let child = match fork().unwrap() {
                Fork::Child => {
                    let lines = runtime.block_on(owners(&store, 10)).join("\n");
                    exit(i32::from(writeln!(writer, "{lines}").is_err()))
                }
                Fork::Parent(child) => child,
            };
            let here = runtime.block_on(owners(&store, 10));
            drop(writer);
            let mut there = String::new();
            reader.read_to_string(&mut there).unwrap();
            assert_eq!(waitpid(child).unwrap(), 0, "the child failed");
            let all: HashSet<&str> = here
                .iter()
                .map(String::as_str)
                .chain(there.lines())
                .collect();
            assert_eq!(all.len(), 20, "{here:#?} {there}");
        }
    }

    /// The owners of as many calls.
    async fn owners(store: &MemoryStore, calls: u32) -> Vec<String> {
        let idempotency = Idempotency::new(Shared(store.clone()));
        let key = format!("idem:test:{}", Fingerprint::of(&(7,)).unwrap());
        let mut owners = Vec::new();
        for _ in 0..calls {
            let call = idempotency.call("test").key(&7).ttl(MINUTE);
            let record = call.release(Release::Always).run(async {
                let entry = store.get(&key).await.unwrap().unwrap();
                Ok::<_, Error>(entry.value)
            });
            let record = String::from_utf8(record.await.unwrap().to_vec()).unwrap();
            owners.push(record.split(' ').nth(2).unwrap().to_owned());
        }
        owners
    }

    /// The exit code of the child.
    fn run_child(mut writer: PipeWriter, numbers: &OrderNumbers) -> i32 {
        let done = catch_unwind(std::panic::AssertUnwindSafe(|| {
            let refused = numbers.issue(&7).unwrap_err();
            assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
            for line in runtime().block_on(made(EACH)) {
                writeln!(writer, "{line}").unwrap();
            }
        }));
        i32::from(done.is_err())
    }

    /// The owners of `each` calls, and `each` tokens.
    async fn made(each: u32) -> Vec<String> {
        let store = MemoryStore::new();
        let idempotency = Idempotency::new(Shared(store.clone()));
        let mut made = Vec::new();
        for call in 0..each {
            let key = format!("idem:test:{}", Fingerprint::of(&(call,)).unwrap());
            let record = idempotency.call("test").key(&call).ttl(MINUTE);
            let record = record.run(async {
                let entry = store.get(&key).await.unwrap().unwrap();
                Ok::<_, Error>(entry.value)
            });
            let record = String::from_utf8(record.await.unwrap().to_vec()).unwrap();
            let holder = format!(":{}\n", process::id());
            assert!(
                record.contains(&holder),
                "{record:?} does not name the holder {holder:?}"
            );
            let owner = record.split(' ').nth(2).unwrap();
            made.push(owner.to_owned());
            let tokens = idempotency.tokens();
            let token = tokens.issue(&7, "test", MINUTE).await.unwrap();
            made.push(token.as_str().to_owned());
        }
        made
    }

    async fn numbers() -> OrderNumbers {
        let idempotency = Idempotency::new(MemoryStore::new());
        let numbers = OrderNumbers::builder(&idempotency, "orders", "0123456789abcdef");
        numbers.build().await.unwrap()
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }
}
