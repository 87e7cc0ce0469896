//! Encodings that a well-behaved client never produces.

/// A composite of raw fields: a described list.
pub(crate) fn composite(code: u8, fields: &[&[u8]]) -> Vec<u8> {
    let count = u32::try_from(fields.len()).expect("few fields");
    [&[0x00, 0x53, code][..], &compound(0xD0, count, &fields.concat())].concat()
}

/// A list, map or array with 32 bits of size and count, where the count may be wrong.
pub(crate) fn compound(constructor: u8, count: u32, items: &[u8]) -> Vec<u8> {
    let size = u32::try_from(items.len() + 4).expect("a small value");
    [&[constructor][..], &size.to_be_bytes(), &count.to_be_bytes(), items].concat()
}

/// Nested lists.
pub(crate) fn nested_lists(depth: usize) -> Vec<u8> {
    // From the innermost list on: each adds 9 bytes.
    let mut out = Vec::with_capacity(depth * 9 + 1);
    for at in 0..depth {
        let inside = u32::try_from((depth - at - 1) * 9 + 1).expect("not that deep");
        out.push(0xD0);
        out.extend((inside + 4).to_be_bytes());
        out.extend(1u32.to_be_bytes());
    }
    out.push(0x45);
    out
}

/// Nested descriptors.
pub(crate) fn nested_descriptors(depth: usize) -> Vec<u8> {
    [[0x00, 0x53, 0x01].repeat(depth), vec![0x40]].concat()
}

/// An array that claims this many items of a constructor of zero width.
pub(crate) fn zero_width_array(count: u32, constructor: u8) -> Vec<u8> {
    compound(0xF0, count, &[constructor])
}

/// A map with one symbol and a value.
pub(crate) fn map_of(key: &str, value: &[u8]) -> Vec<u8> {
    compound(0xD1, 2, &[&symbol(key)[..], value].concat())
}

/// A symbol.
pub(crate) fn symbol(text: &str) -> Vec<u8> {
    [&[0xB3][..], &u32::try_from(text.len()).expect("a short text").to_be_bytes(), text.as_bytes()].concat()
}

/// A string.
pub(crate) fn string(text: &str) -> Vec<u8> {
    [&[0xB1][..], &u32::try_from(text.len()).expect("a short text").to_be_bytes(), text.as_bytes()].concat()
}

/// A binary.
pub(crate) fn binary(bytes: &[u8]) -> Vec<u8> {
    [&[0xB0][..], &u32::try_from(bytes.len()).expect("few bytes").to_be_bytes(), bytes].concat()
}

/// A uint.
pub(crate) fn uint(number: u32) -> Vec<u8> {
    [&[0x70][..], &number.to_be_bytes()].concat()
}

pub(crate) const NULL: &[u8] = &[0x40];
pub(crate) const TRUE: &[u8] = &[0x41];
pub(crate) const FALSE: &[u8] = &[0x42];

/// Values that claim more than they contain, or would need more memory than their size.
pub(crate) fn absurd_values() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a list of 2^32-1 items", compound(0xD0, u32::MAX, &[0x40, 0x40])),
        ("a map of 2^32-2 items", compound(0xD1, u32::MAX - 1, &[0x40, 0x40])),
        ("an array of 2^32-1 items", compound(0xF0, u32::MAX, &[0x71, 0, 0, 0, 1])),
        ("a list longer than what holds it", [&[0xD0][..], &u32::MAX.to_be_bytes(), &[0, 0, 0, 1, 0x40]].concat()),
        ("an array of 2^32-1 nulls", zero_width_array(u32::MAX, 0x40)),
        ("an array of 2^32-1 trues", zero_width_array(u32::MAX, 0x41)),
        ("an array of 2^32-1 zeroes", zero_width_array(u32::MAX, 0x44)),
        ("an array of 2^32-1 empty lists", zero_width_array(u32::MAX, 0x45)),
        ("an array of arrays of nothing", compound(0xF0, 3, &[0xF0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40])),
        ("lists, 10,000 deep", nested_lists(10_000)),
        ("descriptors, 10,000 deep", nested_descriptors(10_000)),
    ]
}
