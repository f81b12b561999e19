//! Durations as text, in the grammar of the attribute. `idempotent-macro` has a copy of this grammar.

use std::fmt;
use std::time::Duration;

/// Reads a duration that may be zero, such as `0s`, or returns the text of an error.
pub fn read_or_zero(text: &str) -> Result<Duration, String> {
    if is_zero(text) {
        return Ok(Duration::ZERO);
    }
    read(text)
}

/// Reads a duration such as `1h30m`, or returns the text of an error.
pub fn read(text: &str) -> Result<Duration, String> {
    let written = text.escape_debug();
    match millis(text) {
        Some(millis) if millis <= LONGEST => Ok(Duration::from_millis(millis)),
        Some(_) => Err(format!(
            "`{written}` is too long: write at most `36500d`, which is 100 years"
        )),
        None if is_zero(text) => Err(format!(
            "`{written}` is too short: write a duration between `1ms` and `36500d`"
        )),
        None if millis(&format!("{text}s")).is_some() => {
            Err(format!("a duration needs a unit: write `{written}s`"))
        }
        None => Err(format!(
            "`{written}` is not a duration: write whole numbers with a unit of `ms`, `s`, `m`, `h` or `d`, \
             the larger unit first, as in `30s` or `1h30m`"
        )),
    }
}

/// Prints a duration in the form that [`read`] reads.
pub(crate) struct Written(pub(crate) Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(mut rest) = u64::try_from(self.0.as_millis()) else {
            return write!(f, "{:?}", self.0);
        };
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        // An expression in an attribute can result in a duration that this grammar cannot express.
        if rest == 0 || Duration::from_millis(rest) != self.0 {
            return write!(f, "{:?}", self.0);
        }
        for (unit, millis) in UNITS {
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

/// Prints a duration for a reader: in its two largest units, as `30d` or `1h5m`; below a minute with one digit after the point.
pub(crate) struct Rough(pub(crate) Duration);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let rounded_to = |unit| millis.saturating_add(unit / 2) / unit * unit;
        let [(_, day), (_, hour), (_, minute), (_, second), _] = UNITS;
        if rounded_to(second) < minute {
            return write!(f, "{:.1?}", self.0);
        }
        let finest = [(second, hour), (minute, day), (hour, u64::MAX)];
        let mut rounded = finest
            .map(|(unit, below)| (rounded_to(unit), below))
            .into_iter();
        let rounded = rounded.find(|(rounded, below)| rounded < below);
        let rounded = rounded.map_or(self.0, |(rounded, _)| Duration::from_millis(rounded));
        Written(rounded).fmt(f)
    }
}

const UNITS: [(&str, u64); 5] = [
    ("d", 24 * 60 * 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
];
const LONGEST: u64 = 36_500 * UNITS[0].1;

/// Whether `written` is a duration of zero.
fn is_zero(written: &str) -> bool {
    !written.contains(|c| ('1'..='9').contains(&c)) && millis(&written.replace('0', "1")).is_some()
}

/// The milliseconds of whole numbers with units, the larger unit first; `None` if the sum is zero.
fn millis(text: &str) -> Option<u64> {
    let mut units = UNITS.as_slice();
    let mut rest = text;
    let mut sum = 0u64;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| !c.is_ascii_digit());
        let at = units.iter().position(|(name, _)| *name == unit)?;
        // A number too large for `u64` is too long in any unit. It is reported as too long, not as malformed.
        let number = match number {
            "" => return None,
            digits => digits.parse().unwrap_or(u64::MAX),
        };
        sum = sum.saturating_add(units[at].1.saturating_mul(number));
        units = &units[at + 1..];
        rest = after;
    }
    (sum > 0).then_some(sum)
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_is_rounded_for_a_reader() {
        for (millis, text) in [
            (0, "0.0ns"),
            (250, "250.0ms"),
            (2_340, "2.3s"),
            (59_400, "59.4s"),
            (59_700, "1m"),
            (90_400, "1m30s"),
            (3_599_700, "1h"),
            (3_900_000, "1h5m"),
            (85_200_000, "23h40m"),
            (86_399_700, "1d"),
            (2_591_999_700, "30d"),
            (2_595_600_000, "30d1h"),
        ] {
            let rough = Rough(Duration::from_millis(millis)).to_string();
            assert_eq!(rough, text, "{millis}");
        }
        let _ = Rough(Duration::MAX).to_string();
    }

    #[test]
    fn durations_are_read_as_the_attribute_reads_them() {
        for line in include_str!("../../../idempotent-macro/tests/durations.txt").lines() {
            let (text, expected) = line.rsplit_once(' ').unwrap();
            let (text, expected) = (text.trim_matches('"'), expected.parse().ok());
            assert_eq!(millis(text), expected, "{text:?}");
        }
    }

    #[test]
    fn each_mistake_has_its_own_text() {
        for (text, what) in [
            ("30", "a duration needs a unit: write `30s`"),
            (
                "0s",
                "`0s` is too short: write a duration between `1ms` and `36500d`",
            ),
            (
                "36501d",
                "`36501d` is too long: write at most `36500d`, which is 100 years",
            ),
            (
                "1.5h\n",
                "`1.5h\\n` is not a duration: write whole numbers with a unit of `ms`, `s`, `m`, `h` or `d`, \
                 the larger unit first, as in `30s` or `1h30m`",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), what);
        }
    }

    #[test]
    fn zero_is_read_where_it_is_allowed() {
        for zero in ["0s", "0ms", "00h", "0m0s"] {
            assert_eq!(read_or_zero(zero), Ok(Duration::ZERO), "{zero}");
            read(zero).unwrap_err();
        }
        assert_eq!(read_or_zero("30s"), Ok(Duration::from_secs(30)));
        read_or_zero("0").unwrap_err();
    }

    #[test]
    fn a_duration_is_printed_as_it_is_written() {
        for text in ["500ms", "30s", "1h30m", "1d2h3m4s5ms", "36500d"] {
            assert_eq!(Written(read(text).unwrap()).to_string(), text);
        }
        assert_eq!(Written(Duration::from_micros(1500)).to_string(), "1.5ms");
        assert_eq!(Written(Duration::ZERO).to_string(), "0s");
    }
}
