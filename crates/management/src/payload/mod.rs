//! Message bodies as text: decompressed, and decoded if they are JSON, MessagePack or CBOR.
//!
//! Bodies are hostile. A body may cost [`BUDGET`] bytes of output at each step, and as much work; nothing is allocated by a length
//! that it claims.

mod cbor;
mod inflate;
mod json_text;
mod msgpack;

use serde_json::{Value, json};

use json_text::{JsonText, Stop};

/// Most bytes that one step, such as decompressing, takes in or gives out.
const BUDGET: usize = 1 << 20;
/// Most nested arrays and maps.
const DEPTH_MAX: usize = 64;
/// Most compressions around each other.
const COMPRESSIONS_MAX: usize = 3;
/// Bytes of a body that are shown as hexadecimal digits.
const HEX_BYTES_MAX: usize = 64 << 10;

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// `json`, `msgpack`, `cbor`, `text` or `hex`.
    form: &'static str,
    /// Compressions, the outermost first.
    through: Vec<&'static str>,
    text: String,
    /// Whether the text is only a beginning.
    truncated: bool,
    /// The reason why decoding didn't go further.
    error: Option<String>,
    /// Bytes that were gone through.
    work: usize,
}

impl Decoded {
    /// As in responses.
    pub(crate) fn view(&self) -> Value {
        let mut view =
            json!({"as": self.form, "through": self.through, "text": self.text, "truncated": self.truncated});
        if let Some(error) = &self.error {
            view["error"] = json!(error);
        }
        view
    }

    /// As in responses, with at most so many bytes of text.
    pub(crate) fn view_within(mut self, text_max: usize) -> Value {
        if self.text.len() > text_max {
            self.text.truncate(self.text.floor_char_boundary(text_max));
            self.truncated = true;
        }
        self.view()
    }

    /// The bytes that it cost, for a limit on all bodies of a response.
    pub(crate) fn cost(&self) -> usize {
        self.work + self.text.len()
    }
}

/// Decodes a body. Its content type decides between forms that it could be, and its first bytes do if there is none.
pub(crate) fn decode(body: &[u8], content_type: Option<&str>, content_encoding: Option<&str>) -> Decoded {
    decode_beginning((body, true), content_type, content_encoding)
}

/// The same of the beginning of a body, which may be the whole one. The text of a mere beginning may be cut, without an error.
pub(crate) fn decode_beginning(
    (body, is_whole): (&[u8], bool),
    content_type: Option<&str>,
    content_encoding: Option<&str>,
) -> Decoded {
    let (form, through, text) = ("hex", Vec::new(), String::new());
    let mut decoded = Decoded { form, through, text, truncated: !is_whole, error: None, work: 0 };
    let mut inflated: Vec<u8>;
    let mut bytes = body;
    while let Some(compression) = inflate::Compression::of(bytes) {
        if decoded.through.len() == COMPRESSIONS_MAX {
            decoded.error = Some(format!("more than {COMPRESSIONS_MAX} compressions are around each other"));
            break;
        }
        let mut found = compression.inflate(bytes);
        if !is_whole && decoded.through.is_empty() && !found.bytes.is_empty() {
            // It ends in the middle.
            found.error = None;
        }
        if found.bytes.is_empty() && found.error.is_some() {
            decoded.error = found.error;
            break;
        }
        decoded.through.push(compression.name());
        decoded.work += found.bytes.len();
        decoded.truncated |= found.is_cut;
        let stopped = found.error.is_some();
        decoded.error = found.error;
        inflated = found.bytes;
        bytes = &inflated;
        if stopped {
            break;
        }
    }
    if decoded.through.is_empty() && decoded.error.is_none() {
        decoded.error = unknown_encoding(content_encoding);
    }
    if bytes.len() > BUDGET {
        bytes = &bytes[..BUDGET];
        decoded.truncated = true;
    }
    decoded.work += bytes.len();
    show(bytes, content_type, &mut decoded);
    decoded
}

/// The error if a body isn't compressed as its content encoding says.
fn unknown_encoding(content_encoding: Option<&str>) -> Option<String> {
    let named = content_encoding.unwrap_or("").trim();
    match named.to_ascii_lowercase().as_str() {
        "" | "identity" | "utf-8" | "utf8" | "binary" => None,
        "gzip" | "x-gzip" | "zstd" | "lz4" => Some(format!("the content encoding is {named}, but the body isn't")),
        _ => Some(format!("the content encoding {} isn't decoded", named.escape_debug())),
    }
}

fn show(bytes: &[u8], content_type: Option<&str>, decoded: &mut Decoded) {
    let kind = Kind::of(content_type);
    if let Some(text) = printable(bytes, decoded.truncated)
        && !matches!(kind, Kind::Msgpack | Kind::Cbor)
    {
        decoded.form = "text";
        let begins = text.trim_start().starts_with(['{', '[']);
        if !decoded.truncated && (kind == Kind::Json || begins) {
            match check_json(text) {
                Ok(()) => decoded.form = "json",
                Err(reason) if kind == Kind::Json => decoded.error = decoded.error.take().or(Some(reason)),
                Err(_) => {}
            }
        }
        decoded.truncated |= text.len() < bytes.len();
        text.clone_into(&mut decoded.text);
        return;
    }
    type Decode = fn(&[u8], &mut JsonText) -> Result<usize, Stop>;
    let both: [(&'static str, Kind, Decode); 2] =
        [("msgpack", Kind::Msgpack, msgpack::decode), ("cbor", Kind::Cbor, cbor::decode)];
    for (form, own, decode) in both.into_iter().filter(|(_, own, _)| kind == *own || kind == Kind::Unknown) {
        let is_named = kind == own;
        if !is_named && !looks_like(own, bytes) {
            continue;
        }
        let mut out = JsonText::new(BUDGET);
        let ended = decode(bytes, &mut out);
        let (is_whole, reason) = match ended {
            Ok(used) if used == bytes.len() => (true, None),
            Ok(used) => (false, Some(format!("{} bytes stand behind the value", bytes.len() - used))),
            Err(Stop::Full) => {
                decoded.truncated = true;
                (true, None)
            }
            Err(Stop::Damaged(_)) if decoded.truncated => (true, None),
            Err(Stop::Damaged(reason)) => (false, Some(reason)),
        };
        decoded.work += out.text().len();
        if is_whole || is_named {
            decoded.form = form;
            decoded.text = out.into_text();
            decoded.error = decoded.error.take().or(reason);
            return;
        }
    }
    let shown = &bytes[..bytes.len().min(HEX_BYTES_MAX)];
    decoded.truncated |= shown.len() < bytes.len();
    decoded.form = "hex";
    decoded.text = hex(shown);
}

/// The form that the content type names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Msgpack,
    Cbor,
    /// Nothing, or another form.
    Unknown,
}

impl Kind {
    fn of(content_type: Option<&str>) -> Self {
        let named = content_type.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let subtype = named.rsplit_once('/').map_or(named.as_str(), |(_, subtype)| subtype);
        match subtype.rsplit_once('+').map_or(subtype, |(_, suffix)| suffix) {
            "json" => Kind::Json,
            "msgpack" | "x-msgpack" | "vnd.msgpack" | "messagepack" => Kind::Msgpack,
            "cbor" => Kind::Cbor,
            _ => Kind::Unknown,
        }
    }
}

/// Whether the first byte begins an array or a map. Others could be anything.
fn looks_like(kind: Kind, bytes: &[u8]) -> bool {
    matches!(
        (kind, bytes.first()),
        (Kind::Msgpack, Some(0x80..=0x9f | 0xdc..=0xdf)) | (Kind::Cbor, Some(0x80..=0xbf | 0xd9))
    )
}

/// The bytes as text, if they are UTF-8 without control characters. At a cut, a part of the last character is left out.
fn printable(bytes: &[u8], is_cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or("")
        }
        Err(_) => return None,
    };
    let is_control = |character: char| character.is_control() && !matches!(character, '\t' | '\n' | '\r');
    (!text.contains(is_control)).then_some(text)
}

fn check_json(text: &str) -> Result<(), String> {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > DEPTH_MAX {
        return Err(format!("it is nested {deepest} deep; JSON is shown to a depth of {DEPTH_MAX}"));
    }
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(|_| ()).map_err(|error| format!("it is no JSON: {error}"))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)] as char).collect()
}

#[cfg(test)]
mod tests;
