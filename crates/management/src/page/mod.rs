//! The page at `/`: the files of `ui/`, which the build script compressed and embedded.
//!
//! The page has an address that stays, and is asked for anew each time; all its files are below a hash and stay in a browser's
//! cache. So a browser never mixes files of two versions.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::accepted::takes;
use crate::error::Error;
use crate::etag;

include!(concat!(env!("OUT_DIR"), "/page.rs"));

const INDEX: &str = "index.html";
/// Browsers, and programs that look at a page from outside, ask for it at the root.
const ICON: &str = "icon.svg";

/// The page loads its own files and talks to its own node, and nothing else: no inline script or style, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// One file.
pub(super) struct Embedded {
    /// Relative to `ui/`.
    path: &'static str,
    content_type: &'static str,
    plain: &'static [u8],
    /// Empty if it isn't shorter.
    gzip: &'static [u8],
    /// Empty if it isn't shorter.
    brotli: &'static [u8],
}

/// The part of the page for an address that RabbitMQ's page has, and that links and checks know: the description of the API, and that
/// of the tools. `None` if it is another one.
pub(crate) fn part_for(path: &str) -> Option<&'static str> {
    match path {
        "/api" | "/api/" | "/api/index.html" | "/doc" | "/doc/" | "/doc/stats.html" | "/stats" | "/stats/" => {
            Some("#/api")
        }
        "/cli" | "/cli/" | "/cli/index.html" | "/login" => Some(""),
        _ => None,
    }
}

/// The answer to a request for the page or one of its files; `None` if the path is none of theirs.
pub(crate) fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    let name = match path {
        "/" => Some(INDEX),
        "/index.html" => Some(INDEX),
        "/favicon.ico" => Some(ICON),
        _ => path
            .strip_prefix("/ui/")
            .map(|below| below.strip_prefix(HASH).and_then(|rest| rest.strip_prefix('/')).unwrap_or("")),
    }?;
    let Some(file) = FILES.iter().find(|file| file.path == name) else {
        // Of an older version: the page is loaded anew.
        return Some(Error::NotFound.into_response());
    };
    Some(match *method {
        Method::GET | Method::HEAD => file.answer(headers, path.starts_with("/ui/")),
        Method::OPTIONS => (StatusCode::OK, [(header::ALLOW, "HEAD, GET, OPTIONS")]).into_response(),
        _ => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "HEAD, GET, OPTIONS")]).into_response(),
    })
}

impl Embedded {
    /// `is_kept`: whether browsers may keep it, because its address has the hash.
    fn answer(&self, asked: &HeaderMap, is_kept: bool) -> Response {
        let etag = format!("W/\"{HASH}\"");
        let cache = if is_kept { "public, max-age=31536000, immutable" } else { "no-cache" };
        let (encoding, bytes) = self.encoded(asked);
        let is_known = etag::is_known(asked, &etag);
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => Body::from(Bytes::from_static(bytes)).into_response(),
        };
        let headers = response.headers_mut();
        let mut set = |name, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        if !is_known {
            set(header::CONTENT_TYPE, self.content_type);
            if let Some(encoding) = encoding {
                set(header::CONTENT_ENCODING, encoding);
            }
        }
        set(header::CACHE_CONTROL, cache);
        set(header::VARY, "Accept-Encoding");
        set(header::CONTENT_SECURITY_POLICY, POLICY);
        set(header::X_FRAME_OPTIONS, "DENY");
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::REFERRER_POLICY, "no-referrer");
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            headers.insert(header::ETAG, etag);
        }
        if !is_known {
            // Also of an answer to HEAD, which has no body.
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        }
        response
    }

    /// The shortest form that the client takes, with its name.
    fn encoded(&self, asked: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
        let takes = |coding| takes(asked, coding);
        match () {
            () if !self.brotli.is_empty() && takes("br") => (Some("br"), self.brotli),
            () if !self.gzip.is_empty() && takes("gzip") => (Some("gzip"), self.gzip),
            () => (None, self.plain),
        }
    }
}

#[cfg(test)]
mod tests;
