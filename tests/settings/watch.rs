//! Settings whose file is watched.

use std::time::Duration;

use idempotent_runtime::{Idempotency, MemoryStore, Policy, Settings, SetupError};
use support::log_capture::LogCapture;
use tokio::time::{sleep, timeout};

use crate::{File, call, listed, secs};

const NAME: &str = "watch.pay";

fn watching(file: &File, interval: Duration) -> Result<Idempotency, SetupError> {
    let settings = Settings::file(file.path()).watch(interval);
    let builder = Idempotency::builder(MemoryStore::new());
    builder.settings(settings).build()
}

async fn until(is_so: impl Fn() -> bool) {
    let polling = async {
        while !is_so() {
            sleep(secs(1)).await;
        }
    };
    timeout(secs(600), polling).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_in_force_without_a_reload() {
    let file = File::new("[all]\nttl = \"10m\"");
    let handle = watching(&file, secs(5)).unwrap();
    let policy = Policy::new(secs(30));
    call(&handle, NAME, policy, 1).await.unwrap();
    let has = |text: &str| listed(&handle, NAME).unwrap().contains(text);
    assert!(has("ttl = 10m"));

    file.write("[all]\nttl = \"20m\"");
    until(|| has("ttl = 20m")).await;

    let log = LogCapture::start();
    file.write("[all]\nttl = \"30\"");
    until(|| !log.errors().is_empty()).await;
    sleep(secs(60)).await;
    let errors = log.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("the earlier settings stay"),
        "{errors:?}"
    );
    assert!(has("ttl = 20m"));

    std::fs::remove_file(file.path()).unwrap();
    until(|| log.errors().len() == 2).await;
    file.write("[all]\nttl = \"40m\"");
    until(|| has("ttl = 40m")).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handle_is_not_watched() {
    let file = File::new("");
    let handle = watching(&file, secs(5)).unwrap();
    drop(handle);
    let log = LogCapture::start();
    file.write("[all]\nttl = \"30\"");
    sleep(secs(60)).await;
    assert_eq!(log.errors(), [""; 0]);
}

#[tokio::test]
async fn a_watch_that_cannot_work_is_an_error_of_build() {
    let file = File::new("");
    for interval in [Duration::ZERO, secs(3601)] {
        let refused = watching(&file, interval).unwrap_err().to_string();
        assert!(refused.contains("between 1 ms and 1 h"), "{refused}");
    }
    let settings = Settings::env().watch(secs(5));
    let builder = Idempotency::builder(MemoryStore::new()).settings(settings);
    let refused = builder.build().unwrap_err().to_string();
    assert!(refused.contains("`Settings::file`"), "{refused}");

    let outside = std::thread::spawn(move || watching(&file, secs(5)).map(drop));
    let refused = outside.join().unwrap().unwrap_err().to_string();
    assert!(refused.contains("needs a tokio runtime"), "{refused}");
}
