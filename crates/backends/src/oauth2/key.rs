//! Keys of tokens, from PEM and from JWK (RFC 7517, 7518, 8037).

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use x509_cert::Certificate;
use x509_cert::der::pem::decode_vec;
use x509_cert::der::{Decode, Encode};

/// An algorithm of signatures (RFC 7518, 3.1). There is no `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
}

const ALGORITHMS: [(&str, Algorithm); 14] = [
    ("HS256", Algorithm::Hs256),
    ("HS384", Algorithm::Hs384),
    ("HS512", Algorithm::Hs512),
    ("RS256", Algorithm::Rs256),
    ("RS384", Algorithm::Rs384),
    ("RS512", Algorithm::Rs512),
    ("PS256", Algorithm::Ps256),
    ("PS384", Algorithm::Ps384),
    ("PS512", Algorithm::Ps512),
    ("ES256", Algorithm::Es256),
    ("ES384", Algorithm::Es384),
    ("ES512", Algorithm::Es512),
    ("EdDSA", Algorithm::EdDsa),
    ("Ed25519", Algorithm::EdDsa),
];

const RSA: [(Algorithm, &dyn VerificationAlgorithm); 6] = [
    (Algorithm::Rs256, &RSA_PKCS1_2048_8192_SHA256),
    (Algorithm::Rs384, &RSA_PKCS1_2048_8192_SHA384),
    (Algorithm::Rs512, &RSA_PKCS1_2048_8192_SHA512),
    (Algorithm::Ps256, &RSA_PSS_2048_8192_SHA256),
    (Algorithm::Ps384, &RSA_PSS_2048_8192_SHA384),
    (Algorithm::Ps512, &RSA_PSS_2048_8192_SHA512),
];

/// Lengths of moduli that signatures are verified with.
const RSA_BITS_MIN: usize = 2_048;
const RSA_BITS_MAX: usize = 8_192;

const CURVES: [(&str, Algorithm, &dyn VerificationAlgorithm); 4] = [
    ("P-256", Algorithm::Es256, &ECDSA_P256_SHA256_FIXED),
    ("P-384", Algorithm::Es384, &ECDSA_P384_SHA384_FIXED),
    ("P-521", Algorithm::Es512, &ECDSA_P521_SHA512_FIXED),
    ("Ed25519", Algorithm::EdDsa, &ED25519),
];

impl Algorithm {
    /// The algorithm of this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    pub(super) fn name(self) -> &'static str {
        ALGORITHMS.iter().find(|(_, algorithm)| *algorithm == self).map_or("", |(name, _)| name)
    }
}

/// A key, with each algorithm for which it may be used.
pub(super) struct Key(Vec<(Algorithm, Verifier)>);

enum Verifier {
    Public(ParsedPublicKey),
    Shared(Box<hmac::Key>),
}

impl Key {
    /// The key of a file: a public key or a certificate in PEM, or a JWK.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn of_file(contents: &[u8]) -> Result<Self, String> {
        match contents.trim_ascii_start().first() {
            Some(b'{') => {
                let jwk = serde_json::from_slice(contents).map_err(|error| format!("no JWK: {error}"))?;
                Self::of_jwk(&jwk, true)
            }
            _ => Self::of_pem(contents),
        }
    }

    fn of_pem(contents: &[u8]) -> Result<Self, String> {
        let (label, der) = decode_vec(contents.trim_ascii()).map_err(|error| error.to_string())?;
        match label {
            "PUBLIC KEY" | "RSA PUBLIC KEY" => Self::of_der(&der),
            "CERTIFICATE" => {
                let certificate = Certificate::from_der(&der).map_err(|error| error.to_string())?;
                let info = certificate.tbs_certificate.subject_public_key_info.to_der();
                Self::of_der(&info.map_err(|error| error.to_string())?)
            }
            label if label.ends_with("PRIVATE KEY") => {
                Err("it is a private key, which only the provider may have; give the public key".to_owned())
            }
            _ => Err("there is no public key in it".to_owned()),
        }
    }

    /// The key of a structure of PKCS #1 or of X.509.
    fn of_der(der: &[u8]) -> Result<Self, String> {
        if let Ok(key) = Self::of_rsa(der) {
            return Ok(key);
        }
        let parsed = CURVES.iter().find_map(|(_, algorithm, by)| {
            ParsedPublicKey::new(*by, der).ok().map(|key| Self(vec![(*algorithm, Verifier::Public(key))]))
        });
        parsed
            .ok_or_else(|| "the key is none of RSA with 2048 to 8192 bits, P-256, P-384, P-521 and Ed25519".to_owned())
    }

    fn of_rsa(der: &[u8]) -> Result<Self, String> {
        let parsed = RSA.iter().map(|(algorithm, by)| {
            let key = ParsedPublicKey::new(*by, der).map_err(|error| error.to_string())?;
            Ok((*algorithm, Verifier::Public(key)))
        });
        parsed.collect::<Result<Vec<_>, String>>().map(Self)
    }

    /// The key of a JWK. Only our own configuration may have a secret that both sides know: with one of a provider's public document,
    /// anybody could sign.
    ///
    /// # Errors
    /// It is of no use for signatures, or of a kind that isn't known.
    pub(super) fn of_jwk(jwk: &Map<String, Value>, is_own: bool) -> Result<Self, String> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            let value = text(name).ok_or_else(|| format!("a JWK without {name}"))?;
            URL_SAFE_NO_PAD
                .decode(value.trim_end_matches('='))
                .map_err(|_| format!("a JWK whose {name} isn't base64url"))
        };
        if text("use").is_some_and(|used| used != "sig") {
            return Err("a JWK that isn't for signatures".to_owned());
        }
        let curve = |name: &str, point: Vec<u8>| {
            let (_, algorithm, by) =
                CURVES.iter().find(|(known, ..)| *known == name).ok_or("a JWK of another curve")?;
            let key = ParsedPublicKey::new(*by, point).map_err(|error| error.to_string())?;
            Ok::<_, String>(Self(vec![(*algorithm, Verifier::Public(key))]))
        };
        let key = match text("kty") {
            Some("RSA") => {
                let modulus = bytes("n")?;
                let bits = 8 * modulus.iter().skip_while(|byte| **byte == 0).count();
                if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
                    return Err(format!("a JWK of RSA with {bits} bits; {RSA_BITS_MIN} to {RSA_BITS_MAX} are taken"));
                }
                Self::of_rsa(&rsa_der(&modulus, &bytes("e")?))?
            }
            Some("EC") => curve(text("crv").unwrap_or_default(), [&[4], &*bytes("x")?, &*bytes("y")?].concat())?,
            Some("OKP") => curve(text("crv").unwrap_or_default(), bytes("x")?)?,
            Some("oct") if is_own => Self::of_secret(&bytes("k")?)?,
            Some("oct") => return Err("a JWK with a secret in a public document".to_owned()),
            _ => return Err("a JWK of another kty than RSA, EC, OKP and oct".to_owned()),
        };
        let Some(only) = text("alg") else { return Ok(key) };
        let only = Algorithm::parse(only).ok_or("a JWK of another algorithm")?;
        let fitting: Vec<_> = key.0.into_iter().filter(|(algorithm, _)| *algorithm == only).collect();
        if fitting.is_empty() { Err("a JWK whose alg isn't of its kty".to_owned()) } else { Ok(Self(fitting)) }
    }

    fn of_secret(secret: &[u8]) -> Result<Self, String> {
        // With a public key as secret, anybody could sign.
        if secret.trim_ascii_start().starts_with(b"-----BEGIN") {
            return Err("a JWK whose secret is a file in PEM".to_owned());
        }
        let all = [
            (Algorithm::Hs256, hmac::HMAC_SHA256, 32),
            (Algorithm::Hs384, hmac::HMAC_SHA384, 48),
            (Algorithm::Hs512, hmac::HMAC_SHA512, 64),
        ];
        let long_enough = all.into_iter().filter(|(.., bytes_min)| secret.len() >= *bytes_min);
        let keys: Vec<_> =
            long_enough.map(|(is, by, _)| (is, Verifier::Shared(Box::new(hmac::Key::new(by, secret))))).collect();
        if keys.is_empty() {
            return Err(format!("a JWK with a secret of {} bytes, the shortest has 32 (RFC 7518, 3.2)", secret.len()));
        }
        Ok(Self(keys))
    }

    /// Verifies a signature.
    ///
    /// # Errors
    /// It is wrong, or of an algorithm that isn't of the key's kind.
    pub(super) fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> Result<(), String> {
        let Some((_, verifier)) = self.0.iter().find(|(own, _)| *own == algorithm) else {
            let own: Vec<&str> = self.0.iter().map(|(own, _)| own.name()).collect();
            return Err(format!("a token with the algorithm {}, its key is for {}", algorithm.name(), own.join(", ")));
        };
        let is_right = match verifier {
            Verifier::Public(key) => key.verify_sig(signed, signature).is_ok(),
            Verifier::Shared(key) => hmac::verify(key, signed, signature).is_ok(),
        };
        if is_right { Ok(()) } else { Err("the token's signature is wrong".to_owned()) }
    }
}

/// A public key of RSA in the form of PKCS #1: a sequence of two integers.
fn rsa_der(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let integers = [integer(modulus), integer(exponent)].concat();
    tagged(0x30, &integers)
}

fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeroes = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeroes..];
    let sign: &[u8] = if bytes.first().is_none_or(|byte| byte & 0x80 != 0) { &[0] } else { &[] };
    tagged(2, &[sign, bytes].concat())
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let zeroes = bytes.iter().take_while(|byte| **byte == 0).count();
        out.push(0x80 | (bytes.len() - zeroes) as u8);
        out.extend_from_slice(&bytes[zeroes..]);
    }
    out.extend_from_slice(content);
    out
}
