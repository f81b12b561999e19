//! The recording of the README: a stuck key is found in a log, understood and freed. `RECORD=1 ./test --test cli recording` makes it
//! anew, of the real command, in half a minute.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use idempotence::{Error, Idempotency};
use idempotence_test_support::log_capture::LogCapture;

use crate::audit::audit;
use crate::stuck::becomes_late;
use crate::support::{Program, Ran, command, redis, run, sqlite};

const FILE: &str = "../docs/stuck-key.svg";

/// The words that people and scripts look for. Other words of the recording may be older than the command.
#[test]
fn the_recording_has_the_words_of_the_command() {
    if std::env::var_os("RECORD").is_some() {
        fs::write(path(), svg(&record())).unwrap();
    }
    let recorded = fs::read_to_string(path()).unwrap();
    assert!(recorded.len() < 100_000);
    let url = sqlite();
    let digits = Program::on(&url).die_in(&url, 42, Duration::from_mins(5));
    let listed = run(&url, &["ls"]).ok();
    let shown = run(&url, &["show", "orders.pay", &digits]).ok();
    let args = ["release", "orders.pay", &digits, "--force", "--yes"];
    let released = run(&url, &args);
    let fields = audit(&released);
    for field in fields.as_object().unwrap().keys() {
        let field = format!("\"{field}\":");
        assert!(recorded.contains(&field), "{field} record it again");
    }
    let released = released.ok();
    let headings = listed.lines().next().unwrap().split_whitespace();
    let names = shown.lines().filter_map(|line| line.split("  ").next());
    for words in headings.chain(names).chain(released.lines().last()) {
        assert!(recorded.contains(words), "{words}: record it again");
    }
}

fn path() -> impl AsRef<Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)
}

/// What an operator sees: the lines of a log, commands, and what they print.
fn record() -> String {
    let url = redis();
    let key = "2026-11-21/42";
    let program = Program::on(&url);
    let call = program.idempotency.call("orders.pay").key(key);
    program.begin_call(call.ttl(Duration::from_hours(24)));
    program.die();
    let (line, digits) = stuck_line(&url, key);
    // Other processes know the options of the call, so their log is earlier than the list of late keys.
    assert!(becomes_late(&url, &digits), "the key was never late");
    let mut text = format!("# The log of a duplicate\n{line}\n");
    for args in [
        &["ls", "--state", "late"][..],
        &["show", "orders.pay", &digits],
        &["release", "orders.pay", &digits, "--yes"],
    ] {
        let ran = command(&url, args).env("USER", "ada").output().unwrap();
        let Ran { code, out, err } = Ran::of(ran);
        assert_eq!(code, 0, "{out}{err}");
        // The audit is written before the last line.
        let (record, last) = match out.trim_end().rsplit_once('\n') {
            Some((record, last)) if !err.is_empty() => (record, format!("{err}{last}\n")),
            _ => (out.trim_end(), String::new()),
        };
        write!(text, "$ idempotence {}\n{record}\n{last}", args.join(" ")).unwrap();
    }
    let holder = text.split_once("holder    ").unwrap().1;
    let holder = holder.lines().next().unwrap().to_owned();
    text.replace(&holder, "web-3:4242")
}

/// The line that a refused call of another process logs, and the digits in it.
fn stuck_line(url: &str, key: &str) -> (String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let log = LogCapture::start();
    runtime.block_on(async {
        let idempotency = Idempotency::from_url(url).await.unwrap();
        loop {
            let call = idempotency.call("orders.pay").key(key);
            let call = call.ttl(Duration::from_hours(24));
            call.run(async { Ok::<_, Error>(()) }).await.unwrap_err();
            let mut lines = log.at("INFO").into_iter();
            if let Some(line) = lines.find(|line| line.contains("does not renew")) {
                let digits = line.split_once("key=").unwrap().1[..8].to_owned();
                return (format!("INFO {}", line.replace("message=", "")), digits);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
}

const COLUMNS: usize = 110;

/// The text as a terminal shows it. The lines of a command appear one second after those before it.
fn svg(text: &str) -> String {
    let (mut lines, mut row, mut second) = (String::new(), 0, 0);
    for line in text.trim_end().lines() {
        let is_typed = line.starts_with(['$', '#']);
        second += u32::from(is_typed);
        let class = if is_typed { " typed" } else { "" };
        for part in wrapped(line) {
            row += 1;
            let part = part.replace('&', "&amp;").replace('<', "&lt;");
            let y = 8 + 18 * row;
            writeln!(
                lines,
                r#"<text x="12" y="{y}" class="after{second}{class}">{part}</text>"#
            )
            .unwrap();
        }
    }
    let steps =
        (1..=second).map(|step| format!(".after{step}{{animation-delay:{}s}}", 2 * step - 2));
    let (width, height) = (24 + 8 * COLUMNS, 24 + 18 * row);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" xml:space="preserve" role="img">
<title>A stuck key is found in a log, understood and freed</title>
<style>text{{font:13px ui-monospace,monospace;fill:#d7dae0;white-space:pre;animation:appear .2s backwards}}.typed{{fill:#7ee787;font-weight:bold}}@keyframes appear{{from{{opacity:0}}}}@media(prefers-reduced-motion){{text{{animation:none}}}}{}</style>
<rect width="100%" height="100%" rx="6" fill="#16191f"/>
{lines}</svg>
"##,
        steps.collect::<String>()
    )
}

/// The line in parts that a terminal has room for. It breaks at a space where it can.
fn wrapped(line: &str) -> Vec<String> {
    let (mut parts, mut rest) = (Vec::new(), line);
    while rest.len() > COLUMNS {
        let most = rest.floor_char_boundary(COLUMNS);
        let at = rest[..most].rfind([' ', ',']).map_or(most, |at| at + 1);
        parts.push(rest[..at].to_owned());
        rest = &rest[at..];
    }
    parts.push(rest.to_owned());
    parts
}
