//! Two keys of any values have the same fingerprint if, and only if, they have the same meaning.
#![no_main]

use arbtest::arbitrary::{Result, Unstructured};
use idempotent_runtime::fingerprint::{Digest, Fingerprint, Keying};
use libfuzzer_sys::fuzz_target;
use value::{Meaning, Value};

#[path = "../../idempotent-runtime/src/key/fingerprint/properties/value.rs"]
mod value;

fn key(parts: &[Value]) -> (Fingerprint, Vec<Meaning>) {
    let mut hasher = Keying::new(Digest::Sha256).hasher();
    for part in parts {
        hasher.part(part).expect("every value can be encoded");
    }
    (hasher.finish(), parts.iter().map(Value::meaning).collect())
}

fn parts(u: &mut Unstructured<'_>) -> Result<Vec<Value>> {
    (0..u.int_in_range(0..=3)?)
        .map(|_| Value::any(u, 6))
        .collect()
}

fn compare(u: &mut Unstructured<'_>) -> Result<()> {
    let one = parts(u)?;
    let other = match u.int_in_range(0..=2)? {
        0 => parts(u)?,
        1 => one
            .iter()
            .map(|part| part.otherwise(u))
            .collect::<Result<_>>()?,
        _ => value::almost(&one, u)?,
    };
    let (first, second) = (key(&one), key(&other));
    assert_eq!(
        first.0 == second.0,
        first.1 == second.1,
        "{one:?}\n{other:?}"
    );
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // Skip inputs with too few bytes.
    let _ = compare(&mut Unstructured::new(bytes));
});
