//! Cipher suites by the names of OpenSSL and IANA.

use rustls::crypto::aws_lc_rs;
use rustls::{CipherSuite, SupportedCipherSuite};
use tracing::warn;

use super::files::TlsError;

/// OpenSSL's names of suites of TLS 1.2; suites of TLS 1.3 have one name.
const OPENSSL: [(&str, CipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The name by IANA.
pub(crate) fn iana(suite: CipherSuite) -> String {
    let name = format!("{suite:?}");
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name,
    }
}

/// All supported suites by OpenSSL's names, in order of preference.
#[must_use]
pub fn cipher_suites() -> Vec<String> {
    let name = |suite: &SupportedCipherSuite| {
        let suite = suite.suite();
        let openssl = OPENSSL.iter().find(|(_, known)| *known == suite).map(|(openssl, _)| (*openssl).to_owned());
        openssl.unwrap_or_else(|| iana(suite))
    };
    aws_lc_rs::default_provider().cipher_suites.iter().map(name).collect()
}

/// The suites among `there` that are named, in the order of the names. Unknown names are left out with a warning: lists
/// are also written for servers with older suites.
pub(super) fn chosen<'a>(
    names: impl IntoIterator<Item = &'a String>,
    there: &[SupportedCipherSuite],
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut chosen = Vec::new();
    for name in names {
        let called = OPENSSL.iter().find(|(openssl, _)| openssl == name).map(|(_, suite)| *suite);
        let is_named = |suite: CipherSuite| called == Some(suite) || iana(suite) == *name;
        match there.iter().find(|suite| is_named(suite.suite())) {
            Some(suite) => chosen.push(*suite),
            None => warn!("the cipher suite {name} isn't offered"),
        }
    }
    if chosen.is_empty() {
        let there: Vec<String> = there.iter().map(|suite| iana(suite.suite())).collect();
        return Err(TlsError::Unfit(format!(
            "none of the configured ciphers is there; there are {}",
            there.join(", ")
        )));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;

    use super::*;

    #[test]
    fn suites_go_by_both_names_and_unknown_ones_are_left_out() {
        let names = ["AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_256_GCM_SHA384"].map(str::to_owned);
        let chosen = chosen(&names, ALL_CIPHER_SUITES).expect("two are there");
        let names: Vec<String> = chosen.iter().map(|suite| iana(suite.suite())).collect();
        assert_eq!(names, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"]);
    }

    #[test]
    fn a_list_without_a_suite_that_is_there_names_those_that_are() {
        let error = chosen(&["AES128-SHA".to_owned()], ALL_CIPHER_SUITES).expect_err("there is none").to_string();
        assert!(error.contains("TLS_AES_128_GCM_SHA256"), "{error}");
    }

    #[test]
    fn every_suite_of_tls_1_2_has_openssls_name() {
        let old =
            ALL_CIPHER_SUITES.iter().map(|suite| suite.suite()).filter(|suite| !iana(*suite).starts_with("TLS_AES"));
        let old: Vec<_> = old.filter(|suite| *suite != CipherSuite::TLS13_CHACHA20_POLY1305_SHA256).collect();
        assert!(old.iter().all(|suite| OPENSSL.iter().any(|(_, known)| known == suite)), "{old:?}");
    }
}
