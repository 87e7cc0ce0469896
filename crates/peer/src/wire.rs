//! Fields of messages: integers, and bytes behind their length.

/// Writes fields.
#[derive(Default)]
pub(crate) struct FieldWriter(pub Vec<u8>);

impl FieldWriter {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// A text behind its length. One that is too long is cut.
    pub(crate) fn text(&mut self, text: &str, bytes_max: usize) {
        let text = cut(text, bytes_max);
        self.u16(text.len() as u16);
        self.0.extend(text.as_bytes());
    }
}

/// The longest beginning of a text that has at most so many bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A text of another node as it may be shown: without control characters, and not too long.
pub(crate) fn harmless(bytes: &[u8], bytes_max: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(bytes_max)]);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(&text, bytes_max).to_owned()
}

/// Reads fields. `None` if there aren't enough bytes, or they aren't of this form.
pub struct FieldReader<'a>(pub &'a [u8]);

impl<'a> FieldReader<'a> {
    /// The next bytes, so many.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        self.0.split_off(..count)
    }

    /// The next bytes of a fixed number.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    pub fn flag(&mut self) -> Option<bool> {
        self.u8().and_then(|byte| (byte <= 1).then_some(byte == 1))
    }

    /// An integer of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// An integer of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// An integer of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text of at most so many bytes, without control characters: texts of others end up in the log.
    pub fn text(&mut self, bytes_max: usize) -> Option<String> {
        self.name(bytes_max).filter(|text| !text.contains(char::is_control))
    }

    /// A name of at most so many bytes, with any characters: it is compared, not shown.
    pub(crate) fn name(&mut self, bytes_max: usize) -> Option<String> {
        let length = usize::from(self.u16()?);
        if length > bytes_max {
            return None;
        }
        std::str::from_utf8(self.bytes(length)?).ok().map(str::to_owned)
    }
}
