use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::*;

/// Most bytes of all files together as browsers load them.
const WIRE_BYTES_MAX: usize = 100_000;

fn get(path: &str, headers: &[(header::HeaderName, &'static str)]) -> Response {
    let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
    answer(&Method::GET, path, &headers).expect("is a path of the page")
}

fn text<'a>(response: &'a Response, name: &header::HeaderName) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

fn body(response: Response) -> Vec<u8> {
    futures_lite::future::block_on(axum::body::to_bytes(response.into_body(), 1 << 24)).expect("a body").to_vec()
}

#[test]
fn all_files_together_are_small_on_the_wire() {
    let wire = |file: &Embedded| if file.brotli.is_empty() { file.plain.len() } else { file.brotli.len() };
    let total: usize = FILES.iter().map(wire).sum();
    let each: Vec<_> = FILES.iter().map(|file| (file.path, wire(file))).collect();
    assert!(total <= WIRE_BYTES_MAX, "{total} bytes: {each:?}");
    assert!(FILES.iter().any(|file| file.path == INDEX));
}

/// Addresses of namespaces, which are names and nobody loads.
const NAMESPACES: [&str; 3] = ["http://www.w3.org/", "https://www.w3.org/", "http://www.inkscape.org/"];

#[test]
fn no_file_names_another_host() {
    for file in FILES {
        let Ok(text) = std::str::from_utf8(file.plain) else { continue };
        // Comments of others may say where they are from.
        let is_vendored = file.path.starts_with("vendor/");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !(is_vendored && is_comment(line))) {
            let addresses = ["http://", "https://", "ws://", "wss://"];
            let found = addresses.iter().flat_map(|scheme| line.match_indices(scheme)).map(|(at, _)| &line[at..]);
            let other = found.filter(|rest| !NAMESPACES.iter().any(|known| rest.starts_with(known)));
            let named: Vec<_> = other.filter(|rest| names_a_host(rest)).collect();
            assert!(named.is_empty(), "{}:{}: {named:?}", file.path, number + 1);
            let relative = ["=\"//", "='//", "url(//", "(\"//", "('//", "`//"];
            assert!(!relative.iter().any(|form| line.contains(form)), "{}:{}: {line}", file.path, number + 1);
        }
    }
}

fn is_comment(line: &str) -> bool {
    ["//", "/*", "*"].iter().any(|start| line.trim_start().starts_with(start))
}

/// Whether a name stands behind the scheme, and no expression.
fn names_a_host(address: &str) -> bool {
    let host = address.split_once("//").map_or("", |(_, host)| host);
    host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
}

#[test]
fn vendored_files_are_those_of_the_list() {
    let vendor = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/vendor");
    let list = fs::read_to_string(vendor.join("README")).expect("the list");
    let mut listed = BTreeMap::new();
    for row in list.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [file, name, version, licence, hash] = cells[..] else { panic!("five cells: {row}") };
        if hash.len() == 64 {
            assert!(![name, version, licence].contains(&""), "{row}");
            listed.insert(file.trim_matches('`').to_owned(), hash.to_owned());
        }
    }
    let mut there = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![vendor.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let name = entry.strip_prefix(&vendor).expect("is below").display().to_string();
            let digest = Sha256::digest(fs::read(&entry).expect("a file"));
            there.insert(name, digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
    }
    there.remove("README");
    assert_eq!(there, listed, "what is in ui/vendor, and what its README lists");
}

#[test]
fn embedded_scripts_are_the_sources_but_for_lines_of_comments() {
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui");
    for file in FILES.iter().filter(|file| file.path.ends_with(".js")) {
        let source = fs::read_to_string(ui.join(file.path)).expect("a source");
        let embedded = std::str::from_utf8(file.plain).expect("text");
        assert_eq!(embedded.lines().count(), source.lines().count(), "{}", file.path);
        for (number, (shown, line)) in embedded.lines().zip(source.lines()).enumerate() {
            let is_left_out = shown.is_empty() && (is_comment(line) || line.trim().ends_with("*/"));
            assert!(shown == line || is_left_out, "{}:{}: {line}", file.path, number + 1);
        }
    }
}

#[test]
fn a_browser_gets_the_shortest_form_that_it_takes() {
    let index = FILES.iter().find(|file| file.path == INDEX).expect("the page");
    for (asked, encoding, bytes) in [
        ("gzip, deflate, br, zstd", "br", index.brotli),
        ("br;q=0, gzip;q=0.5", "gzip", index.gzip),
        ("GZIP", "gzip", index.gzip),
        ("gzip;q=0", "", index.plain),
        ("identity", "", index.plain),
    ] {
        let response = get("/", &[(header::ACCEPT_ENCODING, asked)]);
        assert_eq!(text(&response, &header::CONTENT_ENCODING), encoding, "{asked}");
        assert_eq!(text(&response, &header::CONTENT_LENGTH), bytes.len().to_string());
        assert_eq!(text(&response, &header::VARY), "Accept-Encoding");
        assert_eq!(body(response), bytes, "{asked}");
    }
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(index.gzip), &mut unpacked).expect("is gzip");
    assert_eq!(unpacked, index.plain);
    assert!(!String::from_utf8_lossy(index.plain).contains("HASH"));
}

#[test]
fn the_page_is_asked_for_anew_and_its_files_are_kept() {
    let response = get("/", &[]);
    assert_eq!(text(&response, &header::CACHE_CONTROL), "no-cache");
    let policy = text(&response, &header::CONTENT_SECURITY_POLICY);
    assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    ] {
        assert_eq!(text(&response, &name), value);
    }
    let tag: &'static str = text(&response, &header::ETAG).to_owned().leak();
    let again = get("/", &[(header::IF_NONE_MATCH, tag)]);
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(text(&again, &header::ETAG), tag);
    assert!(body(again).is_empty());
    assert_eq!(get("/", &[(header::IF_NONE_MATCH, "W/\"other\"")]).status(), StatusCode::OK);
    let kept = get(&format!("/ui/{HASH}/{INDEX}"), &[]);
    assert_eq!(text(&kept, &header::CACHE_CONTROL), "public, max-age=31536000, immutable");
}

#[test]
fn other_paths_methods_and_hashes_are_refused() {
    for path in ["/api/overview", "/index.htm", "", "/uix"] {
        assert!(answer(&Method::GET, path, &HeaderMap::new()).is_none(), "{path}");
    }
    for path in ["/ui/", "/ui/0000000000000000/index.html", "/ui/index.html", "/ui/../index.html"] {
        assert_eq!(get(path, &[]).status(), StatusCode::NOT_FOUND, "{path}");
    }
    let nested = format!("/ui/{HASH}/../{INDEX}");
    assert_eq!(get(&nested, &[]).status(), StatusCode::NOT_FOUND);
    let posted = answer(&Method::POST, "/", &HeaderMap::new()).expect("a path of the page");
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
}
