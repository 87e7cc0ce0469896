//! Checks a value and all nested values before anything of it is used.

use super::code;
use crate::error::Problem;
use crate::wire::{Reader, saturate};

/// Deepest nesting of described values, lists, maps and arrays.
pub const DEPTH_MAX: u32 = 32;

/// Most array items of zero width (`null`, `true`, `uint0`, `list0` ...) in one value: a peer could announce 2^32 of
/// them in a dozen bytes.
pub const ZERO_WIDTH_ITEMS_MAX: u32 = 4096;

/// Checks values; the limits apply to everything checked by one instance.
#[derive(Debug)]
pub(crate) struct Walk {
    depth_left: u32,
    zero_width_left: u32,
}

impl Walk {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { depth_left: DEPTH_MAX, zero_width_left: ZERO_WIDTH_ITEMS_MAX }
    }

    /// Checks a constructor and its data.
    pub(crate) fn value(&mut self, reader: &mut Reader<'_>) -> Result<(), Problem> {
        let depth_left = self.depth_left;
        let code = self.constructor(reader)?;
        self.data(code, reader)?;
        self.depth_left = depth_left;
        Ok(())
    }

    /// Reads descriptors, if any, and the primitive constructor after them. Each descriptor counts as a level.
    #[inline]
    fn constructor(&mut self, reader: &mut Reader<'_>) -> Result<u8, Problem> {
        loop {
            let code = reader.octet("constructor")?;
            if code != code::DESCRIBED {
                return Ok(code);
            }
            self.enter()?;
            super::read_descriptor(reader)?;
        }
    }

    #[inline]
    fn enter(&mut self) -> Result<(), Problem> {
        match self.depth_left.checked_sub(1) {
            Some(left) => {
                self.depth_left = left;
                Ok(())
            }
            None => Err(Problem::Depth { limit: DEPTH_MAX }),
        }
    }

    /// Checks the data after a constructor.
    pub(crate) fn data(&mut self, code: u8, reader: &mut Reader<'_>) -> Result<(), Problem> {
        match code {
            code::LIST_8 | code::MAP_8 => {
                let body = reader.short_bytes("list or map")?;
                let mut body = Reader::new(body);
                let count = u32::from(body.octet("count")?);
                self.items(code == code::MAP_8, count, body)
            }
            code::LIST_32 | code::MAP_32 => {
                let body = reader.long_bytes("list or map")?;
                let mut body = Reader::new(body);
                let count = body.word("count")?;
                self.items(code == code::MAP_32, count, body)
            }
            code::ARRAY_8 => {
                let body = reader.short_bytes("array")?;
                let mut body = Reader::new(body);
                let count = u32::from(body.octet("count")?);
                self.array(count, body)
            }
            code::ARRAY_32 => {
                let body = reader.long_bytes("array")?;
                let mut body = Reader::new(body);
                let count = body.word("count")?;
                self.array(count, body)
            }
            _ => super::read_data(&[], code, reader).map(drop),
        }
    }

    fn items(&mut self, map: bool, count: u32, mut body: Reader<'_>) -> Result<(), Problem> {
        if map && !count.is_multiple_of(2) {
            return Err(Problem::OddMap { count });
        }
        // Every item has at least a constructor.
        if count as usize > body.len() {
            return Err(Problem::Count { count, available: saturate(body.len()) });
        }
        self.enter()?;
        for _ in 0..count {
            self.value(&mut body)?;
        }
        self.depth_left += 1;
        nothing_left(body)
    }

    fn array(&mut self, count: u32, mut body: Reader<'_>) -> Result<(), Problem> {
        // serde_amqp omits the constructor of an empty array.
        if count == 0 && body.is_empty() {
            return Ok(());
        }
        let depth_left = self.depth_left;
        self.enter()?;
        let code = self.constructor(&mut body)?;
        match code >> 4 {
            0x4 => match self.zero_width_left.checked_sub(count) {
                Some(left) => self.zero_width_left = left,
                None => return Err(Problem::ZeroWidth { limit: ZERO_WIDTH_ITEMS_MAX }),
            },
            _ if count as usize > body.len() => {
                return Err(Problem::Count { count, available: saturate(body.len()) });
            }
            _ => {}
        }
        if count == 0 && code::type_name(code).is_none() {
            return Err(Problem::Constructor { received: code });
        }
        for _ in 0..count {
            self.data(code, &mut body)?;
        }
        self.depth_left = depth_left;
        nothing_left(body)
    }
}

fn nothing_left(body: Reader<'_>) -> Result<(), Problem> {
    if body.is_empty() { Ok(()) } else { Err(Problem::Excess { count: saturate(body.len()) }) }
}
