//! JSON that is not nested deeper than its reader allows.

use std::io::{self, Write};

use serde_json::ser::Formatter;

use super::encoded::LEVELS;

/// Writes compact JSON, and fails if it is nested too deep to be read again.
#[derive(Default)]
pub(super) struct LevelledFormatter {
    level: u32,
}

impl LevelledFormatter {
    fn enter<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        if self.level == LEVELS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.level += 1;
        writer.write_all(bracket)
    }

    fn leave<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        writer.write_all(bracket)
    }
}

impl Formatter for LevelledFormatter {
    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter(writer, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave(writer, b"]")
    }

    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter(writer, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave(writer, b"}")
    }
}
