//! Random JSON values with their meaning, and many ways to write each of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use arbtest::arbitrary::{Result, Unstructured};

/// The meaning of a JSON value: two values are the same payload if, and only if, they are equal here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// The digits without zeros at the end, and the power of ten. Zero is `(0, 0)`.
    Number(i64, i32),
    Text(String),
    Array(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Value {
    pub(crate) fn any(u: &mut Unstructured<'_>, depth: u32) -> Result<Self> {
        let kinds = if depth == 0 { 3 } else { 5 };
        Ok(match u.int_in_range(0..=kinds)? {
            0 => Self::Null,
            1 => Self::Bool(u.arbitrary()?),
            2 => {
                let digits = if u.ratio(1, 4)? {
                    u.int_in_range(-1_000_000_000_000..=1_000_000_000_000)?
                } else {
                    u.int_in_range(-11..=11)?
                };
                Self::number(digits, u.int_in_range(-9..=9)?)
            }
            3 => Self::Text(text(u)?),
            4 => Self::Array(
                (0..u.int_in_range(0..=3)?)
                    .map(|_| Self::any(u, depth - 1))
                    .collect::<Result<_>>()?,
            ),
            _ => Self::object(u, depth - 1)?,
        })
    }

    pub(crate) fn object(u: &mut Unstructured<'_>, depth: u32) -> Result<Self> {
        let members = (0..u.int_in_range(0..=3)?).map(|_| {
            let name = match u.int_in_range(0..=4)? {
                0 => text(u)?,
                _ => (*u.choose(&["a", "b", "at", "id"])?).to_owned(),
            };
            Ok((name, Self::any(u, depth)?))
        });
        Ok(Self::Object(members.collect::<Result<_>>()?))
    }

    fn number(mut digits: i64, mut power: i32) -> Self {
        while digits != 0 && digits % 10 == 0 {
            digits /= 10;
            power += 1;
        }
        Self::Number(digits, if digits == 0 { 0 } else { power })
    }

    /// Almost the same value: one place is changed, or nothing.
    pub(crate) fn almost(&self, u: &mut Unstructured<'_>) -> Result<Self> {
        let mut value = self.clone();
        value.change(u)?;
        Ok(value)
    }

    fn change(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        match self {
            Self::Number(digits, power) if u.arbitrary()? => {
                let digits = *digits + i64::from(u.int_in_range(-1..=1_i8)?);
                *self = Self::number(digits, *power);
            }
            Self::Text(text) if u.arbitrary()? => text.push('x'),
            Self::Array(items) if !items.is_empty() => match u.int_in_range(0..=2)? {
                0 => items.reverse(),
                1 => items.push(Self::Null),
                _ => {
                    let at = u.choose_index(items.len())?;
                    items[at].change(u)?;
                }
            },
            Self::Object(members) if !members.is_empty() => {
                let names: Vec<String> = members.keys().cloned().collect();
                let name = u.choose(&names)?.clone();
                match u.int_in_range(0..=3)? {
                    0 => drop(members.remove(&name)),
                    1 => drop(members.insert(name, Self::Null)),
                    2 => drop(members.insert("new".to_owned(), Self::Null)),
                    _ => members
                        .get_mut(&name)
                        .into_iter()
                        .try_for_each(|value| value.change(u))?,
                }
            }
            value => *value = Self::any(u, 0)?,
        }
        Ok(())
    }

    /// Writes the value as JSON: with any white space, order of members, escapes and forms of numbers.
    pub(crate) fn write(&self, u: &mut Unstructured<'_>, out: &mut String) -> Result<()> {
        space(u, out)?;
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(digits, power) => write_number(u, *digits, *power, out)?,
            Self::Text(text) => write_text(u, text, out)?,
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    item.write(u, out)?;
                }
                space(u, out)?;
                out.push(']');
            }
            Self::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if u.arbitrary()? {
                    members.reverse();
                }
                if !members.is_empty() {
                    let by = u.choose_index(members.len())?;
                    members.rotate_left(by);
                }
                out.push('{');
                for (at, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    space(u, out)?;
                    write_text(u, name, out)?;
                    space(u, out)?;
                    out.push(':');
                    value.write(u, out)?;
                }
                space(u, out)?;
                out.push('}');
            }
        }
        space(u, out)
    }
}

fn text(u: &mut Unstructured<'_>) -> Result<String> {
    if u.ratio(1, 4)? {
        return u.arbitrary();
    }
    (0..u.int_in_range(0..=3)?)
        .map(|_| {
            u.choose(&['a', 'b', '"', '\\', '/', '\n', '\u{1}', '\u{7f}', 'é', '😀'])
                .copied()
        })
        .collect()
}

fn space(u: &mut Unstructured<'_>, out: &mut String) -> Result<()> {
    if u.ratio(1, 4)? {
        out.push_str(u.choose(&[" ", "\n", "\t", "\r\n  "])?);
    }
    Ok(())
}

fn write_text(u: &mut Unstructured<'_>, text: &str, out: &mut String) -> Result<()> {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' | '/' if u.arbitrary()? => out.extend(['\\', character]),
            '\n' if u.arbitrary()? => out.push_str("\\n"),
            '"' | '\\' | '\0'..='\x1f' => write_units(u, character, out)?,
            _ if u.ratio(1, 8)? => write_units(u, character, out)?,
            _ => out.push(character),
        }
    }
    out.push('"');
    Ok(())
}

fn write_units(u: &mut Unstructured<'_>, character: char, out: &mut String) -> Result<()> {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let written = if u.arbitrary()? {
            write!(out, "\\u{unit:04x}")
        } else {
            write!(out, "\\u{unit:04X}")
        };
        written.expect("a string has room");
    }
    Ok(())
}

fn write_number(u: &mut Unstructured<'_>, digits: i64, power: i32, out: &mut String) -> Result<()> {
    let sign = match digits {
        0 if u.arbitrary()? => "-",
        ..0 => "-",
        _ => "",
    };
    // More than one zero at the start is not JSON.
    let zeros = if digits == 0 {
        0
    } else {
        u.int_in_range(0..=3_u8)?
    };
    let mut text = digits.unsigned_abs().to_string() + &"0".repeat(usize::from(zeros));
    let mut power = power - i32::from(zeros);
    let decimals = u.int_in_range(0..=4_u8)?;
    if decimals > 0 {
        let places = usize::from(decimals);
        let missing = (places + 1).saturating_sub(text.len());
        text.insert_str(0, &"0".repeat(missing));
        text.insert(text.len() - places, '.');
        power += i32::from(decimals);
    }
    out.push_str(sign);
    out.push_str(&text);
    let exponent = match (power, u.int_in_range(0..=3)?) {
        (0, 0 | 1) => String::new(),
        (_, 0) => format!("E{power}"),
        (0.., 1) => format!("e+{power}"),
        _ => format!("e{power:03}"),
    };
    out.push_str(&exponent);
    Ok(())
}
