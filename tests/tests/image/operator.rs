//! The pod of the cluster operator (rabbitmq.com/v1beta1), by hand: its volumes, files, variables, commands and probes, as
//! `internal/resource` of its version 2 makes them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use leveret_tests::container::{Container, Image};
use leveret_tests::http::Http;

use super::{Volume, kept, probed, publish_kept};

/// A claim as the kubelet prepares it for `fsGroup: 0`: the group may write.
fn claim() -> Volume {
    let claim = Volume::new();
    fs::set_permissions(claim.path(), fs::Permissions::from_mode(0o2775)).expect("is set");
    claim
}

/// The configuration that the operator makes, for a number of replicas.
fn defaults(replicas: u32) -> String {
    format!(
        "queue_master_locator = min-masters\ndisk_free_limit.absolute = 1MB\ncluster_partition_handling = pause_minority\n\
         cluster_formation.peer_discovery_backend = rabbit_peer_discovery_k8s\n\
         cluster_formation.k8s.host = kubernetes.default\ncluster_formation.k8s.address_type = hostname\n\
         cluster_formation.target_cluster_size_hint = {replicas}\ncluster_name = the-cluster\n"
    )
}

/// The init container's command.
const INIT: &str = "cp /tmp/erlang-cookie-secret/.erlang.cookie /var/lib/rabbitmq/.erlang.cookie \
    && chmod 600 /var/lib/rabbitmq/.erlang.cookie ; \
    cp /tmp/rabbitmq-plugins/enabled_plugins /operator/enabled_plugins ; \
    echo '[default]' > /var/lib/rabbitmq/.rabbitmqadmin.conf \
    && sed -e 's/default_user/username/' -e 's/default_pass/password/' /tmp/default_user.conf >> /var/lib/rabbitmq/.rabbitmqadmin.conf \
    && chmod 600 /var/lib/rabbitmq/.rabbitmqadmin.conf ; sleep 0.1";

/// A pod: a claim that stays, and folders that are new with each pod.
struct Pod {
    claim: Volume,
    files: Volume,
    home: PathBuf,
    operator: PathBuf,
    _node: Volume,
}

impl Pod {
    fn new(claim: Volume, replicas: u32) -> Self {
        let (files, node) = (Volume::new(), Volume::open_to_all());
        files.write("operatorDefaults.conf", &defaults(replicas));
        files.write("default_user.conf", "default_user = default_user_x\ndefault_pass = of-operator\n");
        files.write("userDefinedConfiguration.conf", "total_memory_available_override_value = 800MB\n");
        files.write("advanced.config", "[].\n");
        files.write("rabbitmq-env.conf", "RABBITMQ_MAX_NUMBER_OF_PROCESSES=1048576\n");
        files.write("erl_inetrc", "{lookup, [file, dns]}.\n");
        files.write(".erlang.cookie", "cookie");
        files.write("enabled_plugins", "[rabbitmq_peer_discovery_k8s,rabbitmq_prometheus,rabbitmq_management].");
        files.write("skipPreStopChecks", "");
        let empty_dir = |name: &str| {
            let path = node.path().join("volumes/kubernetes.io~empty-dir").join(name);
            fs::create_dir_all(&path).expect("is made");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("is set");
            path
        };
        Pod {
            home: empty_dir("rabbitmq-erlang-cookie"),
            operator: empty_dir("rabbitmq-plugins"),
            claim,
            files,
            _node: node,
        }
    }

    fn file(&self, name: &str, place: &str) -> String {
        format!("--volume={}:{place}:ro", self.files.path().join(name).display())
    }

    /// Runs the init container, then starts the other one.
    fn start(&self, image: &Image) -> Container {
        let at = |path: &PathBuf, place: &str| format!("--volume={}:{place}", path.display());
        let (home, operator) = (at(&self.home, "/var/lib/rabbitmq"), at(&self.operator, "/operator"));
        let user = ["--user=999", "--group-add=0"];
        let cookie = self.file(".erlang.cookie", "/tmp/erlang-cookie-secret/.erlang.cookie");
        let plugins = self.file("enabled_plugins", "/tmp/rabbitmq-plugins/enabled_plugins");
        let secret = self.file("default_user.conf", "/tmp/default_user.conf");
        let init = image.output(&[user[0], user[1], &home, &operator, &cookie, &plugins, &secret], &["sh", "-c", INIT]);
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));

        let claim = self.claim.at("/var/lib/rabbitmq/mnesia");
        let files = [
            ("operatorDefaults.conf", "/etc/rabbitmq/conf.d/10-operatorDefaults.conf"),
            ("default_user.conf", "/etc/rabbitmq/conf.d/11-default_user.conf"),
            ("userDefinedConfiguration.conf", "/etc/rabbitmq/conf.d/90-userDefinedConfiguration.conf"),
            ("advanced.config", "/etc/rabbitmq/advanced.config"),
            ("rabbitmq-env.conf", "/etc/rabbitmq/rabbitmq-env.conf"),
            ("erl_inetrc", "/etc/rabbitmq/erl_inetrc"),
            ("skipPreStopChecks", "/etc/pod-info/skipPreStopChecks"),
        ];
        let files: Vec<String> = files.iter().map(|(name, place)| self.file(name, place)).collect();
        let mut options =
            vec![user[0], user[1], "--cap-drop=all", "--security-opt=no-new-privileges", &*claim, &*home, &*operator];
        options.extend(files.iter().map(String::as_str));
        options.extend([
            "--hostname=the-cluster-server-0",
            "--env=MY_POD_NAME=the-cluster-server-0",
            "--env=MY_POD_NAMESPACE=default",
            "--env=K8S_SERVICE_NAME=the-cluster-nodes",
            "--env=RABBITMQ_ENABLED_PLUGINS_FILE=/operator/enabled_plugins",
            "--env=RABBITMQ_USE_LONGNAME=true",
            "--env=RABBITMQ_NODENAME=rabbit@the-cluster-server-0.the-cluster-nodes.default",
            "--env=K8S_HOSTNAME_SUFFIX=.the-cluster-nodes.default",
        ]);
        image.start(&options, &[])
    }
}

/// As the operator publishes: its own user, whose password is in its file.
fn login(container: &Container) -> Http {
    leveret_tests::secrets::used("default_user_x", "of-operator");
    Http::guest(container.address(15672).to_string()).as_user("default_user_x", "of-operator")
}

#[test]
fn a_pod_of_one_replica_serves_and_its_claim_outlives_it() {
    let Some(image) = Image::load() else { return };
    let pod = Pod::new(claim(), 1);
    let mut container = pod.start(image).ready();
    assert!(!container.log().contains("WILL LOSE DATA"), "the claim has the data: {}", container.log());
    assert_eq!(probed(&container, "/api/health/checks/reached-target-cluster-size"), 200);
    let all_plugins = "rabbitmq-plugins set rabbitmq_peer_discovery_k8s rabbitmq_prometheus rabbitmq_management \
                       rabbitmq_shovel rabbitmq_federation rabbitmq_mqtt rabbitmq_stream";
    for line in [
        "rabbitmqctl enable_feature_flag all",
        all_plugins,
        "rabbitmq-queues rebalance all",
        "rabbitmq-upgrade await_online_quorum_plus_one -t 600",
        "rabbitmq-upgrade await_online_synchronized_mirror -t 600",
    ] {
        container.well(&["bash", "-c", line]);
    }
    let plugins = container.well(&["cat", "/operator/enabled_plugins"]);
    assert!(plugins.contains("rabbitmq_mqtt") && plugins.contains("rabbitmq_peer_discovery_k8s"), "{plugins}");
    let reached = container.well(&["rabbitmqctl", "eval", "rabbit_nodes:reached_target_cluster_size()."]);
    assert_eq!(reached, "true\n");

    // The user guest isn't there, so the message goes by HTTP.
    let http = login(&container);
    let kept = serde_json::json!({"durable": true, "arguments": {}, "auto_delete": false});
    assert_eq!(http.put("/api/queues/%2F/kept", &kept).expect("an answer").status, 201);
    let message = serde_json::json!({"properties": {"delivery_mode": 2}, "routing_key": "kept", "payload": "kept",
                                     "payload_encoding": "string"});
    let answer = http.post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
    assert_eq!(answer.json()["routed"], true);

    let pre_stop = "if [ ! -z \"$(cat /etc/pod-info/skipPreStopChecks)\" ]; then exit 0; fi; \
                    rabbitmq-upgrade await_online_quorum_plus_one -t 604800 && \
                    rabbitmq-upgrade await_online_synchronized_mirror -t 604800 || true && rabbitmq-upgrade drain -t 604800";
    container.well(&["/bin/bash", "-c", pre_stop]);
    assert_eq!(probed(&container, "/api/health/checks/is-in-service"), 503, "it is drained");
    assert!(container.stop().success(), "{}", container.log());
    drop(container);

    let claim = pod.claim;
    let next = Pod::new(claim, 1);
    let container = next.start(image).ready();
    let queue = login(&container).get("/api/queues/%2F/kept").expect("an answer").json();
    assert_eq!(queue["messages"], 1, "{queue}");
}

#[test]
fn the_first_pod_of_three_replicas_seeds() {
    let Some(image) = Image::load() else { return };
    let pod = Pod::new(claim(), 3);
    let mut container = pod.start(image);
    assert!(container.wait_for_line("the one that seeds the cluster"), "{}", container.log());
    assert!(container.wait_for_line("Server startup complete"), "{}", container.log());
    // The two others are missing.
    assert_eq!(probed(&container, "/api/health/checks/reached-target-cluster-size"), 503);
    assert_eq!(container.well(&["rabbitmqctl", "eval", "rabbit_nodes:reached_target_cluster_size()."]), "false\n");
    let node = login(&container).get("/api/nodes?columns=being_drained").expect("an answer").json();
    assert_eq!(node[0]["being_drained"], false, "{node}");
}

#[test]
fn a_claim_that_a_first_version_left_empty_is_used() {
    let Some(image) = Image::load() else { return };
    let claim = Volume::open_to_all();
    let container = image.start(&[&claim.at("/var/lib/rabbitmq/mnesia")], &[]).ready();
    publish_kept(&container, "on the claim");
    drop(container);
    let container = image.start(&[&claim.at("/var/lib/rabbitmq/mnesia")], &[]).ready();
    assert_eq!(kept(&container), ["on the claim"]);
}
