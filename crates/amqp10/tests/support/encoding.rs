//! Encodes a value in a randomly chosen legal encoding, by code that shares nothing with the codec.

use leveret_amqp10::OwnedValue;
use leveret_amqp10::value::OwnedDescriptor;

/// Choices derived from a seed.
pub struct Picks(pub u64);

impl Picks {
    pub fn pick(&mut self, choices: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % choices
    }
}

/// Appends constructor and value.
pub fn encode(value: &OwnedValue, picks: &mut Picks, out: &mut Vec<u8>) {
    let mut innermost = value;
    while let OwnedValue::Described(described) = innermost {
        out.push(0);
        match &described.descriptor {
            OwnedDescriptor::Code(code) => encode(&OwnedValue::Ulong(*code), picks, out),
            OwnedDescriptor::Symbol(symbol) => encode(&OwnedValue::Symbol(symbol.clone()), picks, out),
        }
        innermost = &described.value;
    }
    let choices = constructors(innermost);
    let code = choices[picks.pick(choices.len())];
    out.push(code);
    data(code, innermost, picks, out);
}

/// The constructors that can encode a value.
fn constructors(value: &OwnedValue) -> Vec<u8> {
    let sized = |length: usize, short: u8, long: u8| if length < 256 { vec![short, long] } else { vec![long] };
    match value {
        OwnedValue::Null => vec![0x40],
        OwnedValue::Bool(true) => vec![0x41, 0x56],
        OwnedValue::Bool(false) => vec![0x42, 0x56],
        OwnedValue::Ubyte(_) => vec![0x50],
        OwnedValue::Byte(_) => vec![0x51],
        OwnedValue::Ushort(_) => vec![0x60],
        OwnedValue::Short(_) => vec![0x61],
        OwnedValue::Uint(0) => vec![0x43, 0x52, 0x70],
        OwnedValue::Uint(1..=255) => vec![0x52, 0x70],
        OwnedValue::Uint(_) => vec![0x70],
        OwnedValue::Ulong(0) => vec![0x44, 0x53, 0x80],
        OwnedValue::Ulong(1..=255) => vec![0x53, 0x80],
        OwnedValue::Ulong(_) => vec![0x80],
        OwnedValue::Int(-128..=127) => vec![0x54, 0x71],
        OwnedValue::Int(_) => vec![0x71],
        OwnedValue::Long(-128..=127) => vec![0x55, 0x81],
        OwnedValue::Long(_) => vec![0x81],
        OwnedValue::Float(_) => vec![0x72],
        OwnedValue::Double(_) => vec![0x82],
        OwnedValue::Char(_) => vec![0x73],
        OwnedValue::Timestamp(_) => vec![0x83],
        OwnedValue::Decimal32(_) => vec![0x74],
        OwnedValue::Decimal64(_) => vec![0x84],
        OwnedValue::Decimal128(_) => vec![0x94],
        OwnedValue::Uuid(_) => vec![0x98],
        OwnedValue::Binary(bytes) => sized(bytes.len(), 0xA0, 0xB0),
        OwnedValue::String(text) => sized(text.len(), 0xA1, 0xB1),
        OwnedValue::Symbol(text) => sized(text.len(), 0xA3, 0xB3),
        OwnedValue::List(items) if items.is_empty() => vec![0x45, 0xC0, 0xD0],
        // Values that are short in any case.
        OwnedValue::List(items) if items.iter().all(is_tiny) && items.len() < 15 => vec![0xC0, 0xD0],
        OwnedValue::List(_) => vec![0xD0],
        OwnedValue::Map(map) if map.0.iter().all(|(k, v)| is_tiny(k) && is_tiny(v)) && map.0.len() < 7 => {
            vec![0xC1, 0xD1]
        }
        OwnedValue::Map(_) => vec![0xD1],
        OwnedValue::Array(array) if array.items().iter().all(is_tiny) && array.items().len() < 10 => vec![0xE0, 0xF0],
        OwnedValue::Array(_) => vec![0xF0],
        OwnedValue::Described(_) => unreachable!("described values are unwrapped before"),
    }
}

/// At most 17 bytes in any encoding.
fn is_tiny(value: &OwnedValue) -> bool {
    match value {
        OwnedValue::Binary(bytes) => bytes.len() < 12,
        OwnedValue::String(text) | OwnedValue::Symbol(text) => text.len() < 12,
        OwnedValue::List(items) => items.is_empty(),
        OwnedValue::Map(_) | OwnedValue::Array(_) | OwnedValue::Described(_) => false,
        _ => true,
    }
}

fn data(code: u8, value: &OwnedValue, picks: &mut Picks, out: &mut Vec<u8>) {
    match value {
        OwnedValue::Null => {}
        OwnedValue::Bool(value) if code == 0x56 => out.push(u8::from(*value)),
        OwnedValue::Bool(_) => {}
        OwnedValue::Ubyte(value) => out.push(*value),
        OwnedValue::Byte(value) => out.extend(value.to_be_bytes()),
        OwnedValue::Ushort(value) => out.extend(value.to_be_bytes()),
        OwnedValue::Short(value) => out.extend(value.to_be_bytes()),
        OwnedValue::Uint(value) => number(code, &value.to_be_bytes(), out),
        OwnedValue::Ulong(value) => number(code, &value.to_be_bytes(), out),
        OwnedValue::Int(value) => number(code, &value.to_be_bytes(), out),
        OwnedValue::Long(value) => number(code, &value.to_be_bytes(), out),
        OwnedValue::Float(value) => out.extend(value.to_be_bytes()),
        OwnedValue::Double(value) => out.extend(value.to_be_bytes()),
        OwnedValue::Char(value) => out.extend(u32::from(*value).to_be_bytes()),
        OwnedValue::Timestamp(value) => out.extend(value.to_be_bytes()),
        OwnedValue::Decimal32(value) => out.extend(value),
        OwnedValue::Decimal64(value) => out.extend(value),
        OwnedValue::Decimal128(value) => out.extend(value),
        OwnedValue::Uuid(value) => out.extend(value),
        OwnedValue::Binary(bytes) => variable(code, bytes, out),
        OwnedValue::String(text) | OwnedValue::Symbol(text) => variable(code, text.as_bytes(), out),
        OwnedValue::List(items) => {
            let mut body = Vec::new();
            items.iter().for_each(|item| encode(item, picks, &mut body));
            compound(code, items.len(), &body, out);
        }
        OwnedValue::Map(map) => {
            let mut body = Vec::new();
            for (key, value) in &map.0 {
                encode(key, picks, &mut body);
                encode(value, picks, &mut body);
            }
            compound(code, map.0.len() * 2, &body, out);
        }
        OwnedValue::Array(array) => {
            let mut body = Vec::new();
            items(array.items(), picks, &mut body);
            compound(code, array.items().len(), &body, out);
        }
        OwnedValue::Described(_) => unreachable!("described values are unwrapped before"),
    }
}

/// Appends an array's constructor, chosen among those that fit all items, and the items.
fn items(items: &[OwnedValue], picks: &mut Picks, out: &mut Vec<u8>) {
    let Some(first) = items.first() else {
        out.push([0x40, 0x70, 0xA1, 0x45][picks.pick(4)]);
        return;
    };
    let mut innermost: Vec<&OwnedValue> = items.iter().collect();
    let mut described = first;
    while let OwnedValue::Described(outer) = described {
        out.push(0);
        match &outer.descriptor {
            OwnedDescriptor::Code(code) => encode(&OwnedValue::Ulong(*code), picks, out),
            OwnedDescriptor::Symbol(symbol) => encode(&OwnedValue::Symbol(symbol.clone()), picks, out),
        }
        described = &outer.value;
        for item in &mut innermost {
            let OwnedValue::Described(inner) = item else { panic!("items of an array are alike") };
            *item = &inner.value;
        }
    }
    let mut choices = constructors(innermost[0]);
    choices.retain(|code| innermost.iter().all(|item| constructors(item).contains(code)));
    let code = choices[picks.pick(choices.len())];
    out.push(code);
    innermost.iter().for_each(|item| data(code, item, picks, out));
}

fn number(code: u8, bytes: &[u8], out: &mut Vec<u8>) {
    match code {
        0x43 | 0x44 => {}
        0x52..=0x55 => out.push(bytes[bytes.len() - 1]),
        _ => out.extend(bytes),
    }
}

fn variable(code: u8, bytes: &[u8], out: &mut Vec<u8>) {
    match code >> 4 {
        0xA => out.push(u8::try_from(bytes.len()).unwrap()),
        _ => out.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes()),
    }
    out.extend(bytes);
}

fn compound(code: u8, count: usize, body: &[u8], out: &mut Vec<u8>) {
    match code {
        0x45 => {}
        0xC0 | 0xC1 | 0xE0 => {
            out.push(u8::try_from(body.len() + 1).expect("small enough by choice of constructor"));
            out.push(u8::try_from(count).unwrap());
            out.extend(body);
        }
        _ => {
            out.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
            out.extend(u32::try_from(count).unwrap().to_be_bytes());
            out.extend(body);
        }
    }
}
