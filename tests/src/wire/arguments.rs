//! Method arguments, written and read field by field (specification, section 4.2.5).

/// A writer of arguments.
#[derive(Debug, Clone, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes written.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// One byte, or up to eight bits.
    pub fn put_octet(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    /// Two bytes.
    pub fn put_short(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    /// Four bytes.
    pub fn put_long(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    /// Eight bytes.
    pub fn put_long_long(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    /// At most 255 bytes.
    ///
    /// # Panics
    /// If it is longer.
    pub fn put_short_string(&mut self, text: &str) -> &mut Self {
        self.put_octet(u8::try_from(text.len()).expect("a short string")).put(text.as_bytes())
    }

    /// A long string.
    ///
    /// # Panics
    /// If it is larger than 4 GiB.
    pub fn put_long_string(&mut self, bytes: &[u8]) -> &mut Self {
        self.put_long(u32::try_from(bytes.len()).expect("a long string")).put(bytes)
    }

    /// A table without entries.
    pub fn put_empty_table(&mut self) -> &mut Self {
        self.put_long(0)
    }

    /// A table of 32-bit numbers (`I`).
    pub fn put_number_table(&mut self, entries: &[(&str, i32)]) -> &mut Self {
        let mut table = Writer::new();
        for (name, value) in entries {
            table.put_short_string(name).put_octet(b'I').put(&value.to_be_bytes());
        }
        self.put_long_string(table.bytes())
    }

    /// A table of long strings (`S`).
    pub fn put_string_table(&mut self, entries: &[(&str, &str)]) -> &mut Self {
        let mut table = Writer::new();
        for (name, value) in entries {
            table.put_short_string(name).put_octet(b'S').put_long_string(value.as_bytes());
        }
        self.put_long_string(table.bytes())
    }

    /// Appends the bytes of another writer.
    pub fn append(&mut self, other: &Writer) -> &mut Self {
        self.put(&other.0)
    }

    /// Appends bytes unchanged.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// A reader of arguments; panics if they end early, since the test has failed then.
#[derive(Debug, Clone)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// One byte.
    pub fn octet(&mut self) -> u8 {
        self.take(1)[0]
    }

    /// Two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    /// Four bytes.
    pub fn long(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    /// Eight bytes.
    pub fn long_long(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    /// A short string.
    pub fn short_string(&mut self) -> String {
        let length = usize::from(self.octet());
        String::from_utf8_lossy(self.take(length)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut writer = Writer::new();
        writer.put_octet(1).put_short(2).put_long(3).put_long_long(4).put_short_string("fünf");
        let mut reader = Reader::new(writer.bytes());
        assert_eq!((reader.octet(), reader.short(), reader.long(), reader.long_long()), (1, 2, 3, 4));
        assert_eq!(reader.short_string(), "fünf");
    }
}
