//! Two keys have the same fingerprint if, and only if, `docs/guide/fingerprint.md` says that they are equal.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use arbtest::arbitrary::{Result, Unstructured};

use super::*;
use crate::cases::cases;
use value::{Meaning, Value};

mod value;

/// Returns the fingerprint of a key, and the meaning of its parts.
fn key(parts: &[Value]) -> (Fingerprint, Vec<Meaning>) {
    let mut hasher = Keying::new(Digest::Md5).hasher();
    for part in parts {
        hasher.part(part).expect("every value can be encoded");
    }
    (hasher.finish(), parts.iter().map(Value::meaning).collect())
}

fn parts(u: &mut Unstructured<'_>) -> Result<Vec<Value>> {
    (0..u.int_in_range(0..=3)?)
        .map(|_| Value::any(u, 4))
        .collect()
}

#[test]
fn keys_share_a_fingerprint_if_and_only_if_they_mean_the_same() {
    // The test compares the meaning of every key with all other keys of the run.
    let mut known: HashMap<Fingerprint, Vec<Meaning>> = HashMap::new();
    let mut meant: HashMap<Vec<Meaning>, Fingerprint> = HashMap::new();
    let (mut pairs, mut equal, mut near) = (0_u32, 0_u32, 0_u32);
    cases(500, |u| {
        let one = parts(u)?;
        let other = match u.int_in_range(0..=3)? {
            0 => parts(u)?,
            1 => one
                .iter()
                .map(|part| part.otherwise(u))
                .collect::<Result<_>>()?,
            _ => value::almost(&one, u)?,
        };
        let (first, meaning) = key(&one);
        let (second, other_meaning) = key(&other);
        let same = meaning == other_meaning;
        assert_eq!(first == second, same, "{one:?}\n{other:?}");
        pairs += 1;
        equal += u32::from(same);
        near += u32::from(!same);
        for (fingerprint, meaning) in [(first, meaning), (second, other_meaning)] {
            if let Entry::Occupied(known) = known.entry(fingerprint) {
                assert_eq!(*known.get(), meaning, "one fingerprint for two meanings");
                continue;
            }
            // A bound on memory: a run of a whole night makes too many meanings.
            if known.len() < MOST_KNOWN {
                assert!(
                    !meant.contains_key(&meaning),
                    "two fingerprints for {meaning:?}"
                );
                known.insert(fingerprint, meaning.clone());
                meant.insert(meaning, fingerprint);
            }
        }
        Ok(())
    });
    assert!(
        pairs > 9_000 && equal > 1_000 && near > 1_000,
        "{pairs} pairs, {equal} equal, {near} different"
    );
}

const MOST_KNOWN: usize = 100_000;
