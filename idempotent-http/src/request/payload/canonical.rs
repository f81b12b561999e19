//! One text for all ways to write a JSON value. Frozen: the digest of this text is in stored records.
//!
//! * There is no white space.
//! * The members of an object are sorted by the bytes of their names in UTF-8.
//! * In a string, `"` and `\` have a backslash before them. A character below U+0020 is `\u` and four digits in lower case.
//!   Every other character is written as it is, in UTF-8. Unicode is not normalized.
//! * A number is `0`, or an optional `-`, its digits without zeros at either end, and then, if a power of ten remains, `e` and
//!   this power. `1.0`, `1` and `1e0` are `1`; `-1200` is `-12e2`; `0.50` is `5e-1`; `-0` is `0`. No digit is lost: a number
//!   is never rounded.
//! * The order of an array counts. A member with the value `null` is not the same as no member.

use std::fmt::Write as _;

use super::json::Value;

/// The power of ten of a number does not fit in 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfRange;

/// Appends the canonical text of the value.
pub(crate) fn write(value: &Value<'_>, out: &mut String) -> Result<(), OutOfRange> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out)?,
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out)?;
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write(value, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\x1f' => {
                // Writing into a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn write_number(number: &str, out: &mut String) -> Result<(), OutOfRange> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_end_matches('0');
    let zeros_at_the_end = all.len() - digits.len();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        out.push('0');
        return Ok(());
    }
    let exponent: i64 = exponent.parse().map_err(|_| OutOfRange)?;
    let shift = length(zeros_at_the_end)? - length(fraction.len())?;
    let exponent = exponent.checked_add(shift).ok_or(OutOfRange)?;
    out.push_str(sign);
    out.push_str(digits);
    if exponent != 0 {
        // Writing into a string cannot fail.
        let _ = write!(out, "e{exponent}");
    }
    Ok(())
}

fn length(digits: usize) -> Result<i64, OutOfRange> {
    i64::try_from(digits).map_err(|_| OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::super::json::parse;
    use super::*;

    fn canonical(text: &str) -> String {
        let mut out = String::new();
        write(&parse(text.as_bytes()).expect(text), &mut out).expect(text);
        out
    }

    #[test]
    fn equal_numbers_have_one_text() {
        for (text, numbers) in [
            (
                "0",
                ["0", "-0", "0.0", "-0.000", "0e5", "0e99999999999999999999"].as_slice(),
            ),
            (
                "1",
                &[
                    "1",
                    "1.0",
                    "1e0",
                    "1E0",
                    "1e+0",
                    "10e-1",
                    "0.1e1",
                    "100.00e-2",
                ],
            ),
            (
                "-12e2",
                &["-1200", "-1.2e3", "-1200.0", "-12E+2", "-0.12e4"],
            ),
            ("5e-1", &["0.5", "0.50", "5e-1", "0.05e1", "500e-3"]),
            (
                "12345678901234567890123456789",
                &[
                    "12345678901234567890123456789",
                    "12345678901234567890123456789.0",
                ],
            ),
            (
                "9007199254740993",
                &["9007199254740993", "9007199254740993.000"],
            ),
            ("1e400", &["1e400", "10e399"]),
            ("1e-9223372036854775808", &["1e-9223372036854775808"]),
        ] {
            for number in numbers {
                assert_eq!(canonical(number), text, "{number}");
            }
        }
    }

    #[test]
    fn different_numbers_have_different_texts() {
        let numbers = [
            "9007199254740992",
            "9007199254740993",
            "0.1",
            "0.10000000000000001",
            "1e400",
            "1e401",
            "-1",
            "1",
        ];
        let mut texts: Vec<String> = numbers.iter().map(|number| canonical(number)).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), numbers.len());
    }

    #[test]
    fn a_power_beyond_64_bits_is_refused() {
        for number in [
            "1e9223372036854775808",
            "10e9223372036854775807",
            "0.1e-9223372036854775808",
            "1e-99999999999999999999",
        ] {
            let value = parse(number.as_bytes()).expect(number);
            assert_eq!(
                write(&value, &mut String::new()),
                Err(OutOfRange),
                "{number}"
            );
        }
    }

    #[test]
    fn equal_values_have_one_text() {
        for (text, values) in [
            (
                r#"{"a":1,"b":[1,2]}"#,
                [
                    r#"{"a":1,"b":[1,2]}"#,
                    " { \"b\" : [ 1.0 , 2e0 ] ,\n\t\"a\":1}\r\n",
                ]
                .as_slice(),
            ),
            (r#""é/\"\\\u000a\\u007f""#, &[r#""\u00e9\/\"\\\n\\u007f""#]),
            ("\"\u{7f}😀\"", &[r#""\u007f\uD83D\ude00""#]),
            (
                r#"{"":null,"a":{},"é":[]}"#,
                &[r#"{"é":[],"a":{},"":null}"#],
            ),
        ] {
            for value in values {
                assert_eq!(canonical(value), text, "{value}");
            }
        }
    }

    #[test]
    fn names_are_sorted_by_their_bytes_in_utf_8() {
        // In UTF-16 the second name is before the first, because its first unit is D83D.
        let text = "{\"\u{ff5e}\":1,\"😀\":2}";
        assert_eq!(canonical(text), text);
        assert_eq!(canonical("{\"😀\":2,\"\u{ff5e}\":1}"), text);
    }
}
