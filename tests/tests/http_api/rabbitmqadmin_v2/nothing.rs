//! Policies, shovels and federation: none can be listed or changed.

use super::Effect;
use super::admin::Admin;

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("list policies", lists_nothing),
    ("policies list", lists_nothing),
    ("policies list_in", lists_nothing),
    ("policies list_conflicting", lists_nothing),
    ("policies list_conflicting_in", lists_nothing),
    ("policies list_matching_object", matches_nothing),
    ("policies update_definitions_of_all", updates_nothing),
    ("policies update_definitions_of_all_in", updates_nothing),
    ("policies delete_definition_keys_from_all", deletes_nothing),
    ("policies delete_definition_keys_from_all_in", deletes_nothing),
    ("list operator_policies", lists_nothing),
    ("operator_policies list", lists_nothing),
    ("operator_policies list_in", lists_nothing),
    ("operator_policies list_matching_object", matches_nothing),
    ("operator_policies update_definitions_of_all_in", updates_nothing),
    ("operator_policies delete_definition_keys_from_all_in", deletes_nothing),
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

fn matches_nothing(admin: &Admin, command: &str) {
    assert!(admin.rows(command, "--name q --type queues").is_empty(), "{command}");
}

fn updates_nothing(admin: &Admin, command: &str) {
    assert!(admin.rows(command, "--definition-key max-length --new-value 3").is_empty(), "{command}");
}

fn deletes_nothing(admin: &Admin, command: &str) {
    assert!(admin.rows(command, "--definition-keys max-length").is_empty(), "{command}");
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
