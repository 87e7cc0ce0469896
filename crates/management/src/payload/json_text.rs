//! JSON as it is written, up to a number of bytes.

use super::DEPTH_MAX;

/// The reason for ending early.
#[derive(Debug)]
pub(super) enum Stop {
    /// There is no more room for text.
    Full,
    /// The bytes aren't what they should be.
    Damaged(String),
}

impl Stop {
    pub(super) fn damaged(reason: impl Into<String>) -> Self {
        Stop::Damaged(reason.into())
    }
}

/// JSON so far.
pub(super) struct JsonText {
    text: String,
    most: usize,
    depth: usize,
}

impl JsonText {
    /// Of at most this many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { text: String::new(), most, depth: 0 }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Adds text that is JSON already, all of it or nothing.
    pub(super) fn raw(&mut self, text: &str) -> Result<(), Stop> {
        if self.text.len() + text.len() > self.most {
            return Err(Stop::Full);
        }
        self.text.push_str(text);
        Ok(())
    }

    pub(super) fn number(&mut self, number: impl std::fmt::Display) -> Result<(), Stop> {
        self.raw(&number.to_string())
    }

    pub(super) fn float(&mut self, number: f64) -> Result<(), Stop> {
        match number.is_finite() {
            true => self.raw(&serde_json::Value::from(number).to_string()),
            false if number.is_nan() => self.raw("{\"$float\":\"NaN\"}"),
            false => self.raw(if number > 0.0 { "{\"$float\":\"Infinity\"}" } else { "{\"$float\":\"-Infinity\"}" }),
        }
    }

    pub(super) fn string(&mut self, text: &str) -> Result<(), Stop> {
        self.raw("\"")?;
        self.escaped(text)?;
        self.raw("\"")
    }

    /// Adds text within a string.
    pub(super) fn escaped(&mut self, text: &str) -> Result<(), Stop> {
        for character in text.chars() {
            match character {
                '"' => self.raw("\\\"")?,
                '\\' => self.raw("\\\\")?,
                '\n' => self.raw("\\n")?,
                '\r' => self.raw("\\r")?,
                '\t' => self.raw("\\t")?,
                control if control.is_control() => self.raw(&format!("\\u{:04x}", u32::from(control)))?,
                other => self.raw(other.encode_utf8(&mut [0; 4]))?,
            }
        }
        Ok(())
    }

    pub(super) fn hex(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        bytes.chunks(1024).try_for_each(|part| self.raw(&super::hex(part)))
    }

    /// Writes what stands inside an array, a map or a tag, one deeper.
    pub(super) fn nested<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        if self.depth == DEPTH_MAX {
            return Err(Stop::damaged(format!("it is nested deeper than {DEPTH_MAX}")));
        }
        self.depth += 1;
        let written = write(self);
        self.depth -= 1;
        written
    }

    /// Writes a key: `write` writes any value, and what isn't a string becomes the text of one.
    pub(super) fn key<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let start = self.text.len();
        let written = write(self)?;
        if !self.text[start..].starts_with('"') {
            let value = self.text.split_off(start);
            self.string(&value)?;
        }
        self.raw(":")?;
        Ok(written)
    }
}
