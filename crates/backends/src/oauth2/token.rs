//! A token: its three parts, its signature and its times.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::key::{Algorithm, Key};

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// A token that was read. Only [`Token::verify`] makes its claims trustworthy.
pub(super) struct Token<'a> {
    pub(super) header: TokenHeader,
    pub(super) claims: Claims,
    signed: &'a [u8],
    signature: Vec<u8>,
}

/// The parts of a header that count. Addresses and certificates in it are never looked at.
pub(super) struct TokenHeader {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
}

/// Longest text of a token in a line of the log, in characters.
const SHOWN_MAX: usize = 100;

/// The types of tokens that are taken, without `application/` (RFC 9068, 2.1).
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

impl<'a> Token<'a> {
    /// Reads a token.
    ///
    /// # Errors
    /// It isn't a signed token, or has extensions that aren't known.
    pub(super) fn parse(token: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(token).map_err(|_| "the password is no token: it isn't text")?;
        let (signed, signature) = text.rsplit_once('.').ok_or("the password is no token: it has no parts")?;
        let (header, payload) = signed.split_once('.').ok_or("the password is no token: it has two parts")?;
        if payload.contains('.') {
            return Err("the password is no signed token: it has more than three parts".to_owned());
        }
        let header = TokenHeader::parse(&object("header", header)?)?;
        let claims = object("payload", payload)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "the token's signature isn't base64url")?;
        Ok(Self { header, claims, signed: signed.as_bytes(), signature })
    }

    /// Verifies the signature.
    ///
    /// # Errors
    /// It is wrong, or of an algorithm that isn't of the key's kind.
    pub(super) fn verify(&self, key: &Key) -> Result<(), String> {
        key.verify(self.header.algorithm, self.signed, &self.signature)
    }

    /// Checks `exp` and `nbf`. Returns the time at which it ends, in seconds since the Unix epoch.
    ///
    /// # Errors
    /// It has ended, or hasn't begun.
    pub(super) fn check_times(
        &self,
        now_s: f64,
        not_before_skew_s: f64,
        expiry_skew_s: f64,
        requires_exp: bool,
    ) -> Result<Option<f64>, String> {
        let time = |claim: &str| match self.claims.get(claim) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64().filter(|seconds| (0.0..1e15).contains(seconds)) {
                Some(seconds) => Ok(Some(seconds.trunc())),
                None => Err(format!("the token's claim {claim} is no time")),
            },
        };
        if let Some(begins_s) = time("nbf")?.filter(|begins_s| *begins_s > now_s + not_before_skew_s) {
            return Err(format!("the token begins at {begins_s:.0}, in {:.0} s", begins_s - now_s));
        }
        match time("exp")? {
            Some(ends_s) if ends_s + expiry_skew_s <= now_s => {
                Err(format!("the token ended at {ends_s:.0}, {:.0} s ago", now_s - ends_s))
            }
            None if requires_exp => Err("the token has no end (auth_oauth2.require_exp)".to_owned()),
            ends_s => Ok(ends_s),
        }
    }

    /// Checks `iss`.
    ///
    /// # Errors
    /// It isn't the provider's.
    pub(super) fn check_issuer(&self, issuer: Option<&str>) -> Result<(), String> {
        let Some(issuer) = issuer else { return Ok(()) };
        let claimed = self.claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        match claimed.trim_end_matches('/') == issuer.trim_end_matches('/') {
            true => Ok(()),
            false => Err(format!("the token's issuer is '{}', not '{issuer}'", shown(claimed))),
        }
    }
}

impl TokenHeader {
    fn parse(header: &Map<String, Value>) -> Result<Self, String> {
        if header.contains_key("crit") {
            return Err("the token's header has crit, and no extension is known".to_owned());
        }
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("the token's header has a {name} that is no text")),
        };
        if let Some(kind) = text("typ")? {
            let lower = kind.to_ascii_lowercase();
            if !TYPES.contains(&lower.strip_prefix("application/").unwrap_or(&lower)) {
                return Err(format!("a token of the type '{}'", shown(&kind)));
            }
        }
        let algorithm = text("alg")?.unwrap_or_default();
        let algorithm = Algorithm::parse(&algorithm)
            .ok_or_else(|| format!("a token with the algorithm '{}'", shown(&algorithm)))?;
        Ok(Self { algorithm, kid: text("kid")? })
    }
}

/// The beginning of a text of a token, for a line of the log.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect()
}

fn object(part: &str, text: &str) -> Result<Map<String, Value>, String> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("the token's {part} isn't base64url"))?;
    serde_json::from_slice(&bytes).map_err(|_| format!("the token's {part} is no JSON object"))
}
