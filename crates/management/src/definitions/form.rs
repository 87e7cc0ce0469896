//! A file that a browser sends (RFC 7578), as far as a form with one file takes it.

/// The first part of the form that has a body.
pub(super) fn file<'a>(content_type: &str, body: &'a [u8]) -> Option<&'a [u8]> {
    let boundary = content_type.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    let delimiter = format!("--{}", boundary.trim_matches('"'));
    let mut rest = &body[find(body, delimiter.as_bytes())? + delimiter.len()..];
    loop {
        let start = find(rest, b"\r\n\r\n")? + 4;
        let end = find(&rest[start..], format!("\r\n{delimiter}").as_bytes())?;
        let part = &rest[start..start + end];
        if !part.trim_ascii().is_empty() {
            return Some(part);
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
        assert_eq!(file("multipart/form-data; boundary=x1", body), Some(&b"{\"a\": 1}"[..]));
        assert_eq!(file("multipart/form-data; boundary=x2", body), None);
        assert_eq!(file("multipart/form-data", body), None);
        assert_eq!(file("multipart/form-data; boundary=x1", b"--x1\r\n"), None);
    }
}
