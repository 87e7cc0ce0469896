//! Shovels and federation: none can be listed or changed.

use super::Effect;
use super::admin::Admin;

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("federation list_all_upstreams", lists_nothing),
    ("federation list_all_links", lists_nothing),
    ("federation disable_tls_peer_verification_for_all_upstreams", disables_nothing),
    ("federation enable_tls_peer_verification_for_all_upstreams", enables_nothing),
    ("shovels list", lists_nothing),
    ("shovels list_all", lists_nothing),
    ("shovels disable_tls_peer_verification_for_all_source_uris", disables_nothing),
    ("shovels disable_tls_peer_verification_for_all_destination_uris", disables_nothing),
    ("shovels enable_tls_peer_verification_for_all_source_uris", enables_nothing),
    ("shovels enable_tls_peer_verification_for_all_destination_uris", enables_nothing),
];

fn lists_nothing(admin: &Admin, command: &str) {
    assert!(admin.rows(command, "").is_empty(), "{command}");
}

fn disables_nothing(admin: &Admin, command: &str) {
    assert!(admin.run(command, "").contains("0 items processed"), "{command}");
}

fn enables_nothing(admin: &Admin, command: &str) {
    let options = [
        "--node-local-ca-certificate-bundle-path /ca.pem",
        "--node-local-client-certificate-file-path /cert.pem",
        "--node-local-client-private-key-file-path /key.pem",
    ];
    assert!(admin.run(command, &options.join(" ")).contains("0 items processed"), "{command}");
}
