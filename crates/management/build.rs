//! Embeds the page: the files of `ui/`, as they are and compressed, below a folder whose name is a hash of all of them.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// The page itself. The others have names below the hash, which stands in for this word in it.
const INDEX: &str = "index.html";
const HASH: &str = "HASH";
/// Digits of the hash in addresses.
const HASH_DIGITS: usize = 16;

/// Extensions of files that browsers load, and their types.
const TYPES: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("json", "application/json"),
    ("webmanifest", "application/manifest+json"),
];
/// Folders and files that are for developers, and so are hidden ones.
const FOR_DEVELOPERS: &[&str] =
    &["test", "tests", "node_modules", "package.json", "package-lock.json", "tsconfig.json", "jsconfig.json"];

struct Embedded {
    /// Relative to `ui/`, with `/`.
    path: String,
    content_type: &'static str,
    bytes: Vec<u8>,
}

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let (crate_folder, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    let ui = crate_folder.join("../../ui");
    println!("cargo::rerun-if-changed={}", ui.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect(&ui, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    for file in files.iter_mut().filter(|file| file.path.ends_with(".js") && !file.path.starts_with("vendor/")) {
        file.bytes = without_comments(&String::from_utf8_lossy(&file.bytes)).into_bytes();
    }
    let hash = hash(&files);
    for file in files.iter_mut().filter(|file| file.path == INDEX) {
        file.bytes = String::from_utf8_lossy(&file.bytes).replace(HASH, &hash).into_bytes();
    }
    let mut table = format!("pub(super) const HASH: &str = \"{hash}\";\npub(super) static FILES: &[Embedded] = &[\n");
    for (at, file) in files.iter().enumerate() {
        let shorter = |packed: Vec<u8>| if packed.len() < file.bytes.len() { packed } else { Vec::new() };
        let (gzip, brotli) = (shorter(gzipped(&file.bytes)?), shorter(brotli_of(&file.bytes)?));
        for (kind, bytes) in [("plain", &file.bytes), ("gz", &gzip), ("br", &brotli)] {
            fs::write(out.join(format!("{at}.{kind}")), bytes)?;
        }
        let bytes = |kind: &str| format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{at}.{kind}\"))");
        let _ = writeln!(
            table,
            "    Embedded {{ path: {:?}, content_type: {:?}, plain: {}, gzip: {}, brotli: {} }},",
            file.path,
            file.content_type,
            bytes("plain"),
            bytes("gz"),
            bytes("br")
        );
    }
    table.push_str("];\n");
    fs::write(out.join("page.rs"), table)
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<Embedded>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || FOR_DEVELOPERS.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
            continue;
        }
        let known = name.rsplit_once('.').and_then(|(_, end)| TYPES.iter().find(|(extension, _)| *extension == end));
        if let Some((_, content_type)) = known {
            files.push(Embedded { path, content_type, bytes: fs::read(entry.path())? });
        }
    }
    Ok(())
}

/// A script without its lines that are only comments, which are a tenth of what a browser loads. Empty lines stand in their
/// place, so that the numbers of lines in errors are those of the source. Lines within a template, such as text of the page that
/// begins with two slashes, stay.
fn without_comments(script: &str) -> String {
    let (mut out, mut in_comment, mut in_template) = (String::with_capacity(script.len()), false, false);
    for line in script.lines() {
        let trimmed = line.trim();
        let begins = !in_template && trimmed.starts_with("/*");
        let is_comment = in_comment || (!in_template && (trimmed.starts_with("//") || begins));
        if in_comment || begins {
            // Code behind the end of a comment makes the line one of code.
            in_comment = !trimmed.contains("*/");
        }
        if is_comment && (in_comment || !trimmed.contains("*/") || trimmed.ends_with("*/")) {
            out.push('\n');
            continue;
        }
        in_template ^= line.matches('`').count() % 2 == 1;
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn hash(files: &[Embedded]) -> String {
    let mut hasher = Sha256::new();
    for Embedded { path, bytes, .. } in files {
        hasher.update((path.len() as u64).to_le_bytes());
        hasher.update(path);
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    let mut hash = String::new();
    for byte in hasher.finalize().iter().take(HASH_DIGITS / 2) {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

fn gzipped(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn brotli_of(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
    brotli::BrotliCompress(&mut &bytes[..], &mut packed, &parameters)?;
    Ok(packed)
}
