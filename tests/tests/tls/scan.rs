//! The findings of testssl.sh, Debian's package (`apt-get install testssl.sh`), about the listeners.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::stage::TlsStage;

/// The checks: protocols, suites, forward secrecy, order, defaults, HTTP headers, known vulnerabilities.
const CHECKS: [&str; 7] =
    ["--protocols", "--std", "--fs", "--server-preference", "--server-defaults", "--headers", "--vulnerable"];

#[test]
#[ignore = "minutes, and needs testssl.sh: make scan"]
fn testssl_finds_nothing_of_medium_severity_or_above() {
    let stage = TlsStage::new(|options, _| options);
    for (name, scheme) in [("amqps", ""), ("https", "https://"), ("prometheus_tls", "https://")] {
        let (found, root) = (stage.files.path().join(format!("{name}.json")), stage.files.path().join("root.pem"));
        let target = format!("{scheme}localhost:{}", stage.address(name).port());
        let mut scan = Command::new("testssl");
        scan.args(["--quiet", "--warnings", "off", "--color", "0", "--nodns", "none", "--ip", "127.0.0.1"]);
        scan.args(CHECKS).arg("--add-ca").arg(root).arg("--jsonfile").arg(&found).arg(target);
        let output = scan.env("TERM", "dumb").stdin(Stdio::null()).output().expect("testssl.sh is installed");
        let text = std::fs::read_to_string(&found).unwrap_or_else(|error| panic!("no findings: {error}: {output:?}"));
        let findings: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        let id = |finding: &Value| finding["id"].as_str().unwrap_or_default().to_owned();
        assert!(findings.iter().any(|finding| id(finding) == "TLS1_3" && finding["severity"] == "OK"), "{text}");
        let bad: Vec<&Value> = findings
            .iter()
            .filter(|finding| matches!(finding["severity"].as_str(), Some("MEDIUM" | "HIGH" | "CRITICAL")))
            // The validity of the test's certificate and its lack of a revocation list belong to the test.
            .filter(|finding| !id(finding).starts_with("cert_"))
            .collect();
        assert!(bad.is_empty(), "{name}: {bad:#?}");
    }
}
