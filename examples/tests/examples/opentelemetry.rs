//! The spans of OpenTelemetry are those of the page about events.

use std::process::Command;

const PAGE: &str = include_str!("../../../docs/guide/observability.md");

#[test]
fn each_call_is_a_span_with_the_attributes_that_the_page_lists() {
    let example = Command::new(env!("CARGO_BIN_EXE_opentelemetry"))
        .output()
        .unwrap();
    let errors = String::from_utf8(example.stderr).unwrap();
    assert!(example.status.success(), "{errors}");
    let lines = String::from_utf8(example.stdout).unwrap();
    let spans: Vec<&str> = lines
        .lines()
        .filter(|line| !line.starts_with(' '))
        .collect();
    let names: Vec<_> = spans.iter().map(|span| span.split(' ').next()).collect();
    let names: Vec<&str> = names.into_iter().flatten().collect();
    assert_eq!(
        names,
        ["idempotent", "click", "idempotent", "click"],
        "{lines}"
    );
    let (first, second) = (spans[0], spans[2]);
    for (span, outcome) in [(first, "executed"), (second, "done")] {
        for part in ["endpoint=\"orders.pay\"", &format!("outcome=\"{outcome}\"")] {
            assert!(span.contains(part), "{part}: {lines}");
        }
        let key = attribute(span, "key");
        assert_eq!((key.len(), key), (8, attribute(first, "key")), "{lines}");
    }
    let event = |outcome| {
        let outcome = format!("outcome=\"{outcome}\"");
        let mut events = lines.lines().filter(|line| line.starts_with(' '));
        events.find(|event| event.contains(&outcome)).unwrap()
    };
    assert!(
        attribute(event("executed"), "took_ms")
            .parse::<f64>()
            .unwrap()
            > 0.0
    );
    assert!(!attribute(event("done"), "error").is_empty(), "{lines}");
    for name in [
        "idempotent",
        "endpoint",
        "key",
        "outcome",
        "took_ms",
        "error",
    ] {
        assert!(PAGE.contains(&format!("`{name}`")), "{name}");
    }
}

/// The text of an attribute.
fn attribute<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, after) = line.split_once(&format!(" {name}=\"")).expect(name);
    after.split_once('"').unwrap().0
}
