//! An uploaded file (RFC 7578), as far as a form with one file needs it.

/// A file, and the header of its part of the form.
pub(super) struct File<'a> {
    head: &'a [u8],
    pub(super) text: &'a [u8],
}

impl File<'_> {
    /// Whether its name ends in `.json`.
    pub(super) fn is_called_json(&self) -> bool {
        let head = String::from_utf8_lossy(self.head);
        let name = head.split("filename=\"").nth(1).and_then(|rest| rest.split('"').next());
        name.is_some_and(|name| name.to_ascii_lowercase().ends_with(".json"))
    }
}

/// The first part of the form that has a body.
pub(super) fn file<'a>(content_type: &str, body: &'a [u8]) -> Option<File<'a>> {
    let boundary = content_type.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    let delimiter = format!("--{}", boundary.trim_matches('"'));
    let mut rest = &body[find(body, delimiter.as_bytes())? + delimiter.len()..];
    loop {
        let start = find(rest, b"\r\n\r\n")? + 4;
        let end = find(&rest[start..], format!("\r\n{delimiter}").as_bytes())?;
        let part = &rest[start..start + end];
        if !part.trim_ascii().is_empty() {
            return Some(File { head: &rest[..start], text: part });
        }
        rest = &rest[start + end + 2 + delimiter.len()..];
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_found_among_its_headers() {
        let body = b"--x1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--x1\r\nContent-Disposition: \
                     form-data; name=\"file\"; filename=\"f.json\"\r\nContent-Type: application/json\r\n\r\n{\"a\": 1}\r\n--x1--\r\n";
        let found = file("multipart/form-data; boundary=x1", body).expect("a file");
        assert_eq!((found.text, found.is_called_json()), (&b"{\"a\": 1}"[..], true));
        let other = body.map(|byte| if byte == b'.' { b'_' } else { byte });
        assert!(!file("multipart/form-data; boundary=x1", &other).expect("a file").is_called_json());
        assert!(file("multipart/form-data; boundary=x2", body).is_none());
        assert!(file("multipart/form-data", body).is_none());
        assert!(file("multipart/form-data; boundary=x1", b"--x1\r\n").is_none());
    }
}
