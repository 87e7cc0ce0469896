//! Maps, lists and arrays of AMQP 1.0 whose size is known when they are written.

use leveret_amqp10::{Symbol, Value};

/// A compound value being written: its constructor is there already, size and count are filled in at the end.
#[derive(Debug)]
pub(super) struct Compound {
    /// Offset of size and count.
    sizes: usize,
    count: u32,
    narrow: bool,
}

impl Compound {
    pub(super) const MAP_32: u8 = 0xd1;
    pub(super) const STRING_32: u8 = 0xb1;
    const LIST_8: u8 = 0xc0;
    const MAP_8: u8 = 0xc1;
    const ARRAY_32: u8 = 0xf0;

    pub(super) fn list(out: &mut Vec<u8>) -> Self {
        Self::narrow(out, Self::LIST_8)
    }

    pub(super) fn map(out: &mut Vec<u8>) -> Self {
        Self::narrow(out, Self::MAP_8)
    }

    /// An array whose items follow without a constructor.
    pub(super) fn array(out: &mut Vec<u8>, item: u8) -> Self {
        out.push(Self::ARRAY_32);
        let wide = Self::wide(out);
        out.push(item);
        wide
    }

    /// A compound in an array of 32-bit forms, which has the constructor once for all items.
    fn wide(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&[0; 8]);
        Self { sizes: out.len() - 8, count: 0, narrow: false }
    }

    fn narrow(out: &mut Vec<u8>, constructor: u8) -> Self {
        out.extend_from_slice(&[constructor, 0, 0]);
        Self { sizes: out.len() - 2, count: 0, narrow: true }
    }

    /// Counts an item that was or will be appended.
    pub(super) fn item(&mut self) {
        self.count += 1;
    }

    /// Counts items.
    pub(super) fn items(&mut self, count: u32) {
        self.count += count;
    }

    /// Fills in size and count. A narrow form that has grown too large becomes a wide one.
    ///
    /// # Panics
    /// If it has 4 GiB or more.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        if self.narrow {
            let size = out.len() - self.sizes - 1;
            if let (Ok(size), Ok(count)) = (u8::try_from(size), u8::try_from(self.count)) {
                out[self.sizes] = size;
                out[self.sizes + 1] = count;
                return;
            }
            // The wide codes are 16 above the narrow ones (1.2); their sizes take 3 bytes more each.
            out[self.sizes - 1] += 0x10;
            out.splice(self.sizes..self.sizes, [0; 6]);
            self.narrow = false;
        }
        let size = u32::try_from(out.len() - self.sizes - 4).expect("a value is shorter than 4 GiB");
        out[self.sizes..self.sizes + 4].copy_from_slice(&size.to_be_bytes());
        out[self.sizes + 4..self.sizes + 8].copy_from_slice(&self.count.to_be_bytes());
    }
}

/// A map being written.
#[derive(Debug)]
pub(crate) struct MapWriter {
    compound: Compound,
}

impl MapWriter {
    /// Begins a section (3.2) with this descriptor.
    pub(crate) fn section(out: &mut Vec<u8>, descriptor: u64) -> Self {
        out.extend_from_slice(&[0x00, 0x53, descriptor as u8]);
        Self { compound: Compound::map(out) }
    }

    /// Begins a map as a value.
    pub(super) fn value(out: &mut Vec<u8>) -> Self {
        Self { compound: Compound::map(out) }
    }

    /// Begins a map that is an item of an array of [`Compound::MAP_32`].
    pub(super) fn item(out: &mut Vec<u8>) -> Self {
        Self { compound: Compound::wide(out) }
    }

    /// Appends a pair whose key is a symbol.
    pub(super) fn symbol(&mut self, out: &mut Vec<u8>, key: &str, value: Value<'_>) {
        self.key(out, key);
        value.encode(out);
    }

    /// Appends a key as a symbol; its value has to follow. A key that isn't ASCII becomes a string.
    pub(super) fn key(&mut self, out: &mut Vec<u8>, key: &str) {
        match Symbol::checked(key) {
            Some(symbol) => Value::Symbol(symbol).encode(out),
            None => Value::String(key).encode(out),
        }
        self.compound.items(2);
    }

    /// Appends a pair whose key is a string.
    pub(super) fn string_key(&mut self, out: &mut Vec<u8>, key: &str) {
        Value::String(key).encode(out);
        self.compound.items(2);
    }

    /// Appends encoded pairs; `count` counts keys and values.
    pub(crate) fn raw(&mut self, out: &mut Vec<u8>, count: u32, items: &[u8]) {
        out.extend_from_slice(items);
        self.compound.items(count);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.compound.count == 0
    }

    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        self.compound.finish(out);
    }
}
