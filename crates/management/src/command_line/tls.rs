//! The node's TLS versions, ciphers and certificates.

use leveret_broker::PeerCertificate;
use leveret_node::{cipher_suites, tls_versions};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json};
use crate::health::listener_of;

/// GET.
pub(crate) async fn show(call: Call) -> HandlerResult {
    let listeners = call.api.node().tls().iter().map(|tls| {
        let (protocol, listening) = listener_of(&call.api, tls);
        let options = tls.options();
        let (certificates, roots) = tls.certificates();
        json!({
            "node": call.api.name(),
            "protocol": protocol,
            "interface": listening.map(|listening| listening.interface()),
            "port": listening.map(|listening| listening.address.port()),
            "certfile": options.certfile,
            "certificates": certificates.iter().map(view).collect::<Vec<_>>(),
            "cacertfile": options.cacertfile,
            "roots": roots.iter().map(view).collect::<Vec<_>>(),
        })
    });
    let listeners: Vec<Value> = listeners.collect();
    json(json!({"cipher_suites": cipher_suites(), "versions": tls_versions(), "listeners": listeners}))
}

fn view(certificate: &PeerCertificate) -> Value {
    json!({
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "serial_number": certificate.serial_number,
        "validity": certificate.validity,
    })
}
