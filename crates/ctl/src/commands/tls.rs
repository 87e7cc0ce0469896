//! TLS: the node's versions, ciphers and certificates.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{CHECK, Command, CommandGroup};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::bare;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "cipher_suites", CommandGroup::Configuration, "[--format <format>] [--all]", "Lists the cipher suites that the node can offer, as OpenSSL calls them, as erlang's tuples or as a map", cipher_suites),
    Command::new(CHECK, "tls_versions", CommandGroup::Configuration, "", "Lists the versions of TLS that the node can speak", versions),
    Command::new(CHECK, "certificates", CommandGroup::Configuration, "", "Displays the certificates of every listener with TLS", certificates),
];

/// The parts of a cipher suite, with Erlang's names.
struct Suite {
    key_exchange: String,
    cipher: String,
    hash: String,
}

impl Suite {
    /// Parses OpenSSL's name: `TLS_CIPHER_HASH` since TLS 1.3, `KEY-EXCHANGE-CIPHER-HASH` before.
    fn of(openssl: &str) -> Option<Self> {
        let lower = openssl.to_ascii_lowercase().replace('-', "_");
        let (key_exchange, rest) = match lower.strip_prefix("tls_") {
            Some(rest) => ("any", rest),
            None => ["ecdhe_ecdsa", "ecdhe_rsa"]
                .into_iter()
                .find_map(|exchange| Some((exchange, lower.strip_prefix(exchange)?.strip_prefix('_')?)))?,
        };
        let (cipher, hash) = match rest.strip_suffix("chacha20_poly1305") {
            // The hash is implied.
            Some(_) => (rest, "sha256"),
            None => rest.rsplit_once('_')?,
        };
        let cipher = cipher.replace("aes128", "aes_128").replace("aes256", "aes_256");
        Some(Suite { key_exchange: key_exchange.to_owned(), cipher, hash: hash.to_owned() })
    }
}

fn cipher_suites(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let format = call.given("format").unwrap_or("openssl").to_owned();
    let called = match format.as_str() {
        "openssl" => "OpenSSL format",
        "erlang" => "Erlang term format",
        "map" => "map format",
        _ => return Err(Failure::bad_argument("Bad argument: Format should be either openssl, erlang or map")),
    };
    let node = call.node()?;
    call.say(&format!("Listing available cipher suites in {called}"));
    let said = node.get("/local/tls")?;
    let names: Vec<&str> = said["cipher_suites"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let suites = names.iter().filter_map(|name| Suite::of(name));
    let (lines, values): (Vec<String>, Vec<Value>) = match format.as_str() {
        "openssl" => names.iter().map(|name| ((*name).to_owned(), json!(name))).unzip(),
        "erlang" => suites
            .map(|Suite { key_exchange, cipher, hash }| {
                (format!("{{{key_exchange},{cipher},aead,{hash}}}"), json!([key_exchange, cipher, "aead", hash]))
            })
            .unzip(),
        _ => suites
            .map(|Suite { key_exchange, cipher, hash }| {
                let text = format!("#{{cipher => {cipher},key_exchange => {key_exchange},mac => aead,prf => {hash}}}");
                (text, json!({"cipher": cipher, "key_exchange": key_exchange, "mac": "aead", "prf": hash}))
            })
            .unzip(),
    };
    let text = match format.as_str() {
        "openssl" => lines.join("\n"),
        _ => format!("[\n{}\n]", lines.join("\n,")),
    };
    Ok(CommandOutput::Report { text, value: json!(values) })
}

fn versions(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say("Listing all TLS versions supported by the runtime...");
    let versions = node.get("/local/tls")?["versions"].take();
    let names: Vec<&str> = versions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Ok(CommandOutput::Report { text: names.join("\n"), value: json!({"versions": versions}) })
}

fn certificates(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Certificates of node {} ...", node.name()));
    let listeners = node.get("/local/tls")?["listeners"].take();
    let mut text = String::new();
    for listener in listeners.as_array().into_iter().flatten() {
        let plain = |key: &str| bare(&listener[key]);
        let _ = writeln!(text, "Interface: [::], port: {}, protocol: {}", plain("port"), plain("protocol"));
        for (file, inside) in [("certfile", "certificates"), ("cacertfile", "roots")] {
            for certificate in listener[inside].as_array().into_iter().flatten() {
                let plain = |key: &str| bare(&certificate[key]);
                let _ = writeln!(
                    text,
                    " * {file} {}\n   Subject: {}\n   Issuer: {}\n   Serial number: {}\n   Valid: {}",
                    bare(&listener[file]),
                    plain("subject"),
                    plain("issuer"),
                    plain("serial_number"),
                    plain("validity"),
                );
            }
        }
    }
    if text.is_empty() {
        text.push_str("#{}");
    }
    Ok(CommandOutput::Report { text, value: listeners })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_has_its_parts_in_either_form() {
        let parts = |name| {
            let suite = Suite::of(name).expect("a suite");
            (suite.key_exchange, suite.cipher, suite.hash)
        };
        let of = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parts("TLS_AES_256_GCM_SHA384"), of("any", "aes_256_gcm", "sha384"));
        assert_eq!(parts("TLS_CHACHA20_POLY1305_SHA256"), of("any", "chacha20_poly1305", "sha256"));
        assert_eq!(parts("ECDHE-RSA-AES128-GCM-SHA256"), of("ecdhe_rsa", "aes_128_gcm", "sha256"));
        assert_eq!(parts("ECDHE-ECDSA-CHACHA20-POLY1305"), of("ecdhe_ecdsa", "chacha20_poly1305", "sha256"));
        assert!(Suite::of("AES128-SHA").is_none());
    }
}
