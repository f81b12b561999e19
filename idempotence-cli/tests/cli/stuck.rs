//! A key whose process was killed.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use idempotence::{Error, Release};
use serde_json::Value;

use crate::audit::audit;
use crate::support::{LEASE, Program, Ran, command, redis, run, sqlite};

/// The lease of a call that the command does not wait for.
const LONG: Duration = Duration::from_mins(5);

fn a_killed_call_is_found_explained_refused_and_released(url: &str) {
    let program = Program::on(url);
    for id in 1..=5 {
        program.pay(id);
    }
    let digits = program.die_in(url, 7, LONG);

    let table = run(url, &["ls", "--endpoint", "orders.*", "--state", "taken"]).ok();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(
        lines[1].starts_with(&format!("orders.pay  {digits}  taken  ")),
        "{table}"
    );

    let shown = run(url, &["show", "orders.pay", &digits]).ok();
    assert!(shown.contains(&format!("digits    {digits}")), "{shown}");
    assert!(
        shown.contains("\nstate     taken: its call runs, or "),
        "{shown}"
    );
    let by_parts = run(url, &["show", "orders.pay", "--key", "7", "--json"]).json();
    assert_eq!(by_parts["digits"], digits);
    assert_eq!(
        by_parts["lasts_ms"], 305_000,
        "the lease and the grace of 5 s"
    );

    let refused = run(url, &["release", "orders.pay", &digits, "--yes"]);
    assert_eq!(refused.code, 4);
    let advice =
        "If your data says that the work is not done, repeat this then, or at once with --force";
    assert!(refused.err.contains(advice), "{}", refused.err);
    let dry = run(
        url,
        &["release", "orders.pay", &digits, "--force", "--dry-run"],
    );
    assert_eq!(audit(&dry)["outcome"], "dry_run");
    assert!(dry.ok().ends_with("nothing was removed\n"));
    let unasked = run(url, &["release", "orders.pay", &digits, "--force"]);
    assert_eq!(unasked.code, 4, "without a terminal nobody can be asked");
    run(url, &["show", "orders.pay", &digits]).ok();

    let released = run(url, &["release", "orders.pay", &digits, "--force", "--yes"]);
    let line = audit(&released);
    assert_eq!(
        (&line["event"], &line["digits"]),
        (&"release".into(), &Value::from(&*digits))
    );
    assert_eq!(
        (&line["outcome"], &line["forced"]),
        (&"released".into(), &true.into())
    );
    let consequence = "released: an equal call runs, and repeats the work if it was done\n";
    assert!(released.ok().ends_with(consequence));
    assert_eq!(run(url, &["show", "orders.pay", &digits]).code, 3);
    assert_eq!(
        run(url, &["release", "orders.pay", &digits, "--yes"]).code,
        3
    );
    Program::on(url).pay(7);
}

/// Tries to release the key of order 7, which is refused.
fn assert_refused(url: &str, why: &str) {
    assert!(is_refused(url, why), "the key became free");
}

/// Tries to release the key of order 7, which is refused. Returns `false` if it became free, as on a machine that stands still.
pub(crate) fn is_refused(url: &str, why: &str) -> bool {
    let refused = run(url, &["release", "orders.pay", "--key", "7", "--yes"]);
    if became_free(&refused) {
        return false;
    }
    assert_eq!(refused.code, 4, "{}{}", refused.out, refused.err);
    assert!(refused.err.contains(why), "{}", refused.err);
    run(url, &["show", "orders.pay", "--key", "7"]).code != IS_FREE
}

/// Whether the key became free before the command could release it.
fn became_free(release: &Ran) -> bool {
    release.code == IS_FREE || release.out.contains("has become free in the meantime")
}

/// Releases the key of order 7 without force. Returns `false` if it became free before the second look, as on a machine that stands
/// still.
pub(crate) fn release(url: &str) -> bool {
    let released = run(url, &["release", "orders.pay", "--key", "7", "--yes"]);
    if became_free(&released) {
        return false;
    }
    let line = audit(&released);
    let what = (&line["outcome"], &line["forced"], released.code);
    let expected = (&"released".into(), &false.into(), 0);
    assert_eq!(what, expected, "{}{}", released.out, released.err);
    true
}

#[test]
fn a_killed_call_is_found_explained_refused_and_released_on_redis() {
    a_killed_call_is_found_explained_refused_and_released(&redis());
}

#[test]
fn a_killed_call_is_found_explained_refused_and_released_on_sqlite() {
    a_killed_call_is_found_explained_refused_and_released(&sqlite());
}

#[test]
fn two_looks_without_a_renewal_release_a_killed_call() {
    // The command looks at the key again after three quarters of this time.
    let is_released = |leases| {
        let url = redis();
        Program::on(&url).die_in(&url, 7, leases * LEASE);
        release(&url)
    };
    assert!(
        [8, 32, 96].into_iter().any(is_released),
        "the key became free before the second look"
    );
}

#[test]
fn a_call_that_has_ended_is_released_only_by_force() {
    let url = redis();
    Program::on(&url).pay(7);
    assert_refused(&url, "the call has ended");
    let forced = ["release", "orders.pay", "--key", "7", "--yes", "--force"];
    assert_eq!(run(&url, &forced).code, 0);
}

#[test]
fn release_says_of_a_call_that_has_ended_what_show_says() {
    let url = sqlite();
    let program = Program::on(&url);
    program.leave_unknown("orders.pay", 7);
    program.pay(8);
    for (key, state) in [("7", "unknown"), ("8", "done")] {
        let shown = run(&url, &["show", "orders.pay", "--key", key]).ok();
        let (_, meaning) = shown.split_once(&format!("{state}: ")).unwrap();
        let meaning = meaning.lines().next().unwrap();
        let refused = run(&url, &["release", "orders.pay", "--key", key, "--yes"]);
        assert_eq!(refused.code, 4, "{}", refused.out);
        let expected = format!("error: {meaning}. ");
        assert!(refused.err.contains(&expected), "{}", refused.err);
        assert_eq!(audit(&refused)["outcome"], "refused");
    }
}

#[test]
fn a_call_that_is_renewed_is_not_released() {
    let url = redis();
    let program = Program::on(&url);
    program.begin(7, 6 * LEASE);
    assert_refused(&url, "the call is running");
}

#[test]
fn a_key_that_is_listed_as_late_is_released_at_once() {
    // A machine that stands still may miss the time in which the key is late, so then there is a longer one.
    let is_released = |leases| {
        let url = sqlite();
        let digits = Program::on(&url).die_in(&url, 7, leases * LEASE);
        if !becomes_late(&url, &digits) {
            return false;
        }
        let released = run(&url, &["release", "orders.pay", &digits, "--yes"]);
        if released.code != 0 && is_free(&url, &digits) {
            return false;
        }
        assert_eq!(released.code, 0, "{}{}", released.out, released.err);
        assert_eq!(audit(&released)["outcome"], "released", "{}", released.err);
        assert!(!released.err.contains("waiting"), "{}", released.err);
        true
    };
    assert!(
        [6, 24, 96].into_iter().any(is_released),
        "the key was never late"
    );
}

/// Waits until the key of a call that was killed is listed as late. Returns `false` if it becomes free before.
pub(crate) fn becomes_late(url: &str, digits: &str) -> bool {
    loop {
        let late = run(url, &["ls", "--state", "late", "--json"]).json();
        if late["records"][0]["digits"] == *digits {
            return true;
        }
        if is_free(url, digits) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The exit code of a command that finds no record.
pub(crate) const IS_FREE: i32 = 3;

fn is_free(url: &str, digits: &str) -> bool {
    run(url, &["show", "orders.pay", digits, "--json"]).code == IS_FREE
}

#[test]
fn a_key_that_becomes_free_while_the_command_waits_is_a_success() {
    let url = sqlite();
    let digits = Program::on(&url).die_in(&url, 7, 8 * LEASE);
    let mut waits = command(&url, &["release", "orders.pay", &digits, "--yes"]);
    let mut waits = waits
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut err = BufReader::new(waits.stderr.take().unwrap());
    err.read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for "), "{line}");
    run(
        &url,
        &["release", "orders.pay", &digits, "--force", "--yes"],
    )
    .ok();
    let ended = waits.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{out}");
    assert!(
        out.contains("the key has become free in the meantime"),
        "{out}"
    );
}

#[test]
fn ls_and_release_say_the_same_of_when_a_key_is_late() {
    // Three quarters of the lease are 53 h and 30 min. The commands have half an hour to print the same hours.
    let lease = Duration::from_mins(4 * (53 * 60 + 30) / 3);
    let url = sqlite();
    let digits = Program::on(&url).die_in(&url, 7, lease);
    let late = run(&url, &["ls", "--state", "late"]);
    let expected =
        "Taken and not late: 1. If a holder of these was killed, its key is late in 2days 5h";
    assert!(late.err.contains(expected), "{}", late.err);
    let released = run(&url, &["release", "orders.pay", &digits, "--yes"]);
    assert_eq!(released.code, 4, "{}", released.out);
    assert!(
        released.err.contains("renews the key is known in 2days 5h"),
        "{}",
        released.err
    );
}

#[test]
fn a_killed_call_becomes_late() {
    // A machine that stands still may miss the time in which the key is late, so then there is a longer one.
    let is_late = |leases| {
        let url = redis();
        let digits = Program::on(&url).die_in(&url, 7, leases * LEASE);
        becomes_late(&url, &digits)
    };
    assert!(
        [6, 24, 96].into_iter().any(is_late),
        "the call was never late"
    );
}

#[test]
fn each_permit_of_a_key_is_listed_shown_and_released_by_its_own_digits() {
    let url = sqlite();
    let programs = [Program::on(&url), Program::on(&url)];
    for program in &programs {
        let call = program.idempotency.call("reports.render").key(&7);
        let call = call.ttl(LONG).release(Release::Always);
        program.begin_call(call.permits(3));
    }
    let table = run(&url, &["ls"]).ok();
    let digits = table.lines().skip(1).map(|line| {
        let digits = line.split_whitespace().nth(1);
        digits.unwrap().to_owned()
    });
    let digits: Vec<String> = digits.collect();
    let [first, second] = &digits[..] else {
        panic!("{table}");
    };
    assert_ne!(first, second, "{table}");
    let several = run(&url, &["show", "reports.render", &first[..8]]);
    assert_eq!(several.code, 4, "{}", several.out);
    let shown = run(&url, &["show", "reports.render", first]).ok();
    assert!(shown.contains(&**first), "{shown}");
    for digits in &digits {
        assert!(several.err.contains(&**digits), "{}", several.err);
    }
    let release = ["release", "reports.render", first, "--force", "--yes"];
    let released = run(&url, &release);
    assert_eq!(audit(&released)["fingerprint"], **first);
    released.ok();
    let left = run(&url, &["ls", "--json"]).json();
    assert_eq!(left["records"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["records"][0]["fingerprint"], **second);
}

#[test]
fn the_result_of_a_call_is_shown_only_if_it_is_asked_for() {
    let url = sqlite();
    let program = Program::on(&url);
    let call = program
        .idempotency
        .call("orders.quote")
        .key(&"a b")
        .ttl(Duration::from_mins(10));
    let quote = call
        .replay()
        .run(async { Ok::<_, Error>("s3cret".to_owned()) });
    program.block_on(quote).unwrap();
    let show = ["show", "orders.quote", "--key", "a b"];
    for json in [&[][..], &["--json"]] {
        let shown = run(&url, &[&show[..], json].concat()).ok();
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    let shown = run(&url, &[&show[..], &["--value"]].concat()).ok();
    assert!(shown.ends_with("\"s3cret\"\n"), "{shown}");
    let listed = run(&url, &["ls", "--json"]).ok();
    assert!(!listed.contains("s3cret"), "{listed}");
}

#[test]
fn the_keys_of_a_secret_are_found_by_their_parts_only_with_it() {
    let url = redis();
    let program = Program::on(&url);
    let secret = idempotence::Idempotency::builder_from_url(&url);
    let secret = program
        .block_on(secret)
        .unwrap()
        .prefix("shop")
        .secret("s3cret");
    let secret = secret.digest(idempotence::Digest::Sha256);
    let secret = secret.deadline(LONG).build().unwrap();
    let call = secret
        .call("orders.pay")
        .key(&7)
        .ttl(Duration::from_mins(10));
    program
        .block_on(call.run(async { Ok::<_, Error>(()) }))
        .unwrap();
    let args = [
        "show",
        "orders.pay",
        "--key",
        "7",
        "--prefix",
        "shop",
        "--digest",
        "sha256",
    ];
    assert_eq!(run(&url, &args).code, 3);
    let shown = command(&url, &args)
        .env("IDEMPOTENCE_SECRET", "s3cret")
        .output();
    assert!(Ran::of(shown.unwrap()).ok().contains("state     done"));
}
