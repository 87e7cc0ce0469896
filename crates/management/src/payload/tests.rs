use std::io::Write as _;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("is written");
    encoder.finish().expect("is finished")
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("is written");
    encoder.finish().expect("is finished")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn decoded(body: &[u8]) -> Decoded {
    within_limits(decode(body, None, None))
}

fn within_limits(decoded: Decoded) -> Decoded {
    assert!(decoded.text.len() <= BUDGET.max(2 * HEX_BYTES_MAX), "{} bytes", decoded.text.len());
    assert!(decoded.cost() <= (COMPRESSIONS_MAX + 4) * BUDGET, "{}", decoded.cost());
    if matches!(decoded.form, "msgpack" | "cbor") && !decoded.truncated && decoded.error.is_none() {
        serde_json::from_str::<Value>(&decoded.text).expect(&decoded.text);
    }
    decoded
}

#[track_caller]
fn assert_decoded(decoded: &Decoded, form: &str, through: &[&str], text: &str) {
    assert_eq!((decoded.form, decoded.through.as_slice(), decoded.text.as_str()), (form, through, text));
    assert_eq!((decoded.truncated, &decoded.error), (false, &None));
}

#[test]
fn forms_are_recognised_by_their_bytes() {
    for (body, form, text) in [
        (&b"{\"a\": [1, 2.50]}"[..], "json", "{\"a\": [1, 2.50]}"),
        (b"plain\ttext\n", "text", "plain\ttext\n"),
        (b"{not json", "text", "{not json"),
        (b"", "text", ""),
        (b"17", "text", "17"),
        (b"\x00\x01\xff", "hex", "0001ff"),
        // {"a": [1, nil, true, -1, 1.5], 2: b"xy"}
        (
            b"\x82\xa1a\x95\x01\xc0\xc3\xff\xca\x3f\xc0\x00\x00\x02\xc4\x02xy",
            "msgpack",
            r#"{"a":[1,null,true,-1,1.5],"2":{"$bytes":"7879"}}"#,
        ),
        (b"\x91\xd6\x05\x00\x00\x00\x01", "msgpack", r#"[{"$ext":5,"value":"00000001"}]"#),
        // {"a": [1, -500, h'00ff'], 1: 1(2)} and text in segments.
        (
            b"\xa2aa\x83\x01\x39\x01\xf3\x42\x00\xff\x01\xc1\x02",
            "cbor",
            r#"{"a":[1,-500,{"$bytes":"00ff"}],"1":{"$tag":1,"value":2}}"#,
        ),
        (b"\xbfaa\x9f\x7faxay\xff\xff\xff", "cbor", r#"{"a":["xy"]}"#),
        (b"\xa1aa\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00", "cbor", r#"{"a":{"$float":"NaN"}}"#),
        (b"\xa1aa\xf9\x3c\x00", "cbor", r#"{"a":1.0}"#),
    ] {
        assert_decoded(&decoded(body), form, &[], text);
    }
}

#[test]
fn the_content_type_decides_between_forms() {
    let as_type = |body: &[u8], kind: &str| within_limits(decode(body, Some(kind), None));
    assert_decoded(&as_type(b"17", "application/json"), "json", &[], "17");
    assert_decoded(&as_type(b"17", "application/vnd.api+json; charset=utf-8"), "json", &[], "17");
    assert_decoded(&as_type(b"a", "application/msgpack"), "msgpack", &[], "97");
    assert_decoded(&as_type(b"\x61a", "application/cbor"), "cbor", &[], "\"a\"");
    let not = as_type(b"{", "application/json");
    assert_eq!(not.form, "text");
    assert!(not.error.expect("a reason").starts_with("it is no JSON"));
    let cut = as_type(b"\x92\x01", "application/x-msgpack");
    assert_eq!((cut.form, cut.text.as_str(), cut.error.as_deref()), ("msgpack", "[1,", Some("it ends within a value")));
    let more = as_type(b"\x01\x02", "application/cbor");
    assert_eq!((more.form, more.error.as_deref()), ("cbor", Some("1 bytes stand behind the value")));
}

#[test]
fn compressions_are_undone() {
    let text = b"{\"key\": \"value value value\"}";
    let shown = std::str::from_utf8(text).expect("text");
    assert_decoded(&decoded(&gzip(text)), "json", &["gzip"], shown);
    assert_decoded(&decoded(&zstd(text)), "json", &["zstd"], shown);
    assert_decoded(&decoded(&lz4(text)), "json", &["lz4"], shown);
    assert_decoded(&decoded(&lz4(&zstd(&gzip(text)))), "json", &["lz4", "zstd", "gzip"], shown);
    let four = decoded(&gzip(&lz4(&zstd(&gzip(text)))));
    assert_eq!((four.form, four.through.len()), ("hex", 3));
    assert!(four.error.expect("a reason").contains("more than 3 compressions"));
    let other = decode(text, None, Some("gzip"));
    assert_eq!(other.error.as_deref(), Some("the content encoding is gzip, but the body isn't"));
    assert!(decode(text, None, Some("br")).error.expect("a reason").contains("br isn't decoded"));
}

#[test]
fn a_bomb_stops_at_its_limits() {
    let zeros = vec![b'0'; 64 << 20];
    for (name, packed) in [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros)), ("lz4", lz4(&zeros))] {
        let bomb = decoded(&packed);
        assert_eq!((bomb.form, bomb.through.as_slice()), ("text", &[name][..]));
        assert!(bomb.truncated && bomb.text.len() <= BUDGET);
    }
    // 20 KiB that would become 20 MiB, packed again to next to nothing.
    let ratio = decoded(&gzip(&gzip(&vec![b'0'; 20 << 20])));
    assert!(ratio.truncated && ratio.text.len() <= BUDGET, "{} bytes", ratio.text.len());
    let small = decoded(&gzip(&vec![b'0'; 300_000]));
    assert_eq!(small.text.len(), 64 << 10);
    assert!(small.error.expect("a reason").contains("200 times"));
    let window = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8][..], &[0; 40]].concat();
    assert!(decoded(&window).error.expect("a reason").contains("a window of"));
    let content = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &[0xff; 40]].concat();
    assert!(decoded(&content).error.expect("a reason").contains("a window of"));
}

#[test]
fn nested_and_long_values_stop_at_their_limits() {
    let deep = |byte: u8| decode(&[byte; 100_000], Some(if byte == 0x91 { "a/msgpack" } else { "a/cbor" }), None);
    for byte in [0x91, 0x81, 0x9f, 0xc1] {
        let stopped = within_limits(deep(byte));
        assert!(stopped.error.expect("a reason").contains("nested deeper than 64"), "{byte:x}");
    }
    let json = decoded(&[vec![b'['; 65], vec![b']'; 65]].concat());
    assert_eq!(json.form, "text");
    // Lengths that aren't there.
    for body in [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"] {
        assert!(within_limits(decode(body, Some("a/msgpack"), None)).error.is_some());
    }
    for body in [b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"] {
        assert!(within_limits(decode(body, Some("a/cbor"), None)).error.is_some());
    }
    let long = [&b"\xdd\x00\x10\x00\x00"[..], &vec![0xc0; 1 << 20]].concat();
    let long = decoded(&long);
    assert_eq!((long.form, long.truncated, long.error), ("msgpack", true, None));
    let text = decoded("ä".repeat(600_000).as_bytes());
    assert_eq!((text.form, text.truncated, text.text.len()), ("text", true, BUDGET));
}

/// Numbers that look like chance and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn damaged_bodies_are_decoded_within_the_limits() {
    let whole =
        b"{\"a\": [1, 2, {\"b\": \"some text that is there several times, some text\"}], \"c\": null}".repeat(20);
    let msgpack = b"\x83\xa1a\x95\x01\xc0\xc3\xff\xca\x3f\xc0\x00\x00\x02\xc4\x02xy\xa1b\x81\xa1c\xd9\x03abc".to_vec();
    let cbor = b"\xa3aa\x83\x01\x39\x01\xf3\x42\x00\xff\x01\xc1\x02ab\x9f\x7faxay\xff\xf5\xff".to_vec();
    let seeds = [gzip(&whole), zstd(&whole), lz4(&whole), gzip(&zstd(&lz4(&whole))), whole, msgpack, cbor];
    let types = [None, Some("application/json"), Some("application/msgpack"), Some("application/cbor")];
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for round in 0..20_000 {
        let mut body = seeds[round % seeds.len()].clone();
        for _ in 0..=numbers.next() % 4 {
            let at = (numbers.next() % body.len() as u64) as usize;
            match numbers.next() % 4 {
                0 => body.truncate(at.max(1)),
                1 => body[at] = numbers.next() as u8,
                2 => body[at] ^= 1 << (numbers.next() % 8),
                _ => body.insert(at, numbers.next() as u8),
            }
        }
        within_limits(decode(&body, types[round / seeds.len() % types.len()], None));
    }
    for _ in 0..20_000 {
        let length = numbers.next() % 64;
        let body: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        let kind = types[(numbers.next() % 4) as usize];
        within_limits(decode(&body, kind, None));
    }
}
