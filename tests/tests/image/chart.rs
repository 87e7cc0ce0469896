//! The chart's pod, as Helm renders it. `HELM` names the program, else it is `helm` of the path; PyYAML reads what it renders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use leveret_tests::container::{Container, Image};
use leveret_tests::http::Http;
use leveret_tests::not_run::not_run;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Volume, probed};

/// The output of `helm template`, or its error; `None` if there is no Helm, which is noted.
fn helm(settings: &[&str]) -> Option<Result<String, String>> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/leveret");
    let program = std::env::var("HELM").unwrap_or_else(|_| "helm".to_owned());
    let mut command = Command::new(program);
    command.args(["template", "broker", "--kube-version", "1.30"]).arg(chart);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let Ok(run) = command.output() else {
        not_run("there is no helm");
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(if run.status.success() { Ok(text(&run.stdout)) } else { Err(text(&run.stderr)) })
}

/// The objects, by kind and name; `None` if they can't be read here, which is noted.
fn objects(text: &str) -> Option<BTreeMap<(String, String), Value>> {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("objects.yaml");
    fs::write(&file, text).expect("is written");
    let read =
        "import json, sys, yaml; print(json.dumps([one for one in yaml.safe_load_all(open(sys.argv[1])) if one]))";
    let run = Command::new("python3").args(["-c", read]).arg(&file).output().expect("python3 runs");
    if !run.status.success() {
        not_run(&format!("objects can't be read: {}", String::from_utf8_lossy(&run.stderr)));
        return None;
    }
    let all: Vec<Value> = serde_json::from_slice(&run.stdout).expect("JSON");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(all.into_iter().map(|one| ((word(&one["kind"]), word(&one["metadata"]["name"])), one)).collect())
}

/// A pod of the chart: files of its volumes, and Podman's options.
struct Pod {
    container: Value,
    options: Vec<String>,
    secret: Value,
    _files: TempDir,
}

impl Pod {
    fn of(objects: &BTreeMap<(String, String), Value>, claim: &Volume) -> Self {
        let object = |kind: &str| &objects[&(kind.to_owned(), "broker-leveret".to_owned())];
        let (secret, config) = (&object("Secret")["data"], &object("ConfigMap")["data"]);
        let pod = &object("StatefulSet")["spec"]["template"]["spec"];
        let (container, files) = (pod["containers"][0].clone(), tempfile::tempdir().expect("a directory"));
        let mut options = vec!["--hostname=broker-leveret-0".to_owned()];

        let limits = &container["securityContext"];
        options.push(format!("--user={}:{}", limits["runAsUser"], limits["runAsGroup"]));
        assert_eq!(
            (&limits["readOnlyRootFilesystem"], &limits["allowPrivilegeEscalation"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(limits["capabilities"]["drop"], json!(["ALL"]));
        options.extend(["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"].map(str::to_owned));
        for variable in container["env"].as_array().expect("variables") {
            let value = match (variable["value"].as_str(), variable["valueFrom"]["secretKeyRef"]["key"].as_str()) {
                (Some(value), _) => value.replace("$(POD_NAME)", "broker-leveret-0"),
                (None, Some(key)) => decoded(&secret[key]),
                (None, None) => "broker-leveret-0".to_owned(),
            };
            options.push(format!("--env={}={value}", variable["name"].as_str().expect("a name")));
        }
        let at = |name: &str| -> PathBuf {
            let folder = files.path().join(name);
            fs::create_dir_all(&folder).expect("is made");
            folder
        };
        for (name, text) in config.as_object().expect("files") {
            fs::write(at("configuration").join(name), text.as_str().expect("a text")).expect("is written");
        }
        let items = &pod["volumes"][1]["projected"]["sources"][0]["secret"]["items"][0];
        let (key, path) = (items["key"].as_str().expect("a key"), items["path"].as_str().expect("a path"));
        fs::write(at("secrets").join(path), decoded(&secret[key])).expect("is written");
        for mount in container["volumeMounts"].as_array().expect("mounts") {
            let (name, place) = (mount["name"].as_str().expect("a name"), mount["mountPath"].as_str().expect("a path"));
            match name {
                "data" => options.push(claim.at(place)),
                _ => {
                    let path = at(name).join(mount["subPath"].as_str().unwrap_or_default());
                    options.push(format!("--volume={}:{place}:ro", path.display()));
                }
            }
        }
        Pod { container, options, secret: secret.clone(), _files: files }
    }

    fn start(&self, image: &Image) -> Container {
        image.start(&self.options.iter().map(String::as_str).collect::<Vec<_>>(), &[]).ready()
    }

    fn command(&self, path: &[&str]) -> Vec<&str> {
        let command = path.iter().fold(&self.container, |value, name| &value[name]);
        command["exec"]["command"].as_array().expect("a command").iter().filter_map(Value::as_str).collect()
    }
}

/// The text of a secret's key.
fn decoded(value: &Value) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", "printf %s \"$1\" | base64 -d", "sh", value.as_str().expect("a value")]);
    String::from_utf8(command.output().expect("sh runs").stdout).expect("a text")
}

#[test]
fn the_charts_pod_serves_and_its_claim_outlives_it() {
    let Some(rendered) = helm(&["extraConfiguration=heartbeat = 21"]) else { return };
    let Some(objects) = objects(&rendered.expect("is rendered")) else { return };
    let Some(image) = Image::load() else { return };
    let claim = Volume::open_to_all();
    let pod = Pod::of(&objects, &claim);
    let password = decoded(&pod.secret["rabbitmq-password"]);
    assert_eq!(password.len(), 24);
    leveret_tests::secrets::used("user", &password);
    let login = |container: &Container| Http::guest(container.address(15672).to_string()).as_user("user", &password);

    let mut container = pod.start(image);
    assert!(!container.log().contains(&password), "the password is in the log");
    container.well(&pod.command(&["startupProbe"]));
    container.well(&pod.command(&["livenessProbe"]));
    let ready = pod.container["readinessProbe"]["httpGet"]["path"].as_str().expect("a path");
    assert_eq!(probed(&container, ready), 200);
    assert!(container.well(&["rabbitmqctl", "environment"]).contains("heartbeat = 21"));
    let queue = json!({"durable": true, "arguments": {}, "auto_delete": false});
    assert_eq!(login(&container).put("/api/queues/%2F/kept", &queue).expect("an answer").status, 201);
    let message = json!({"properties": {"delivery_mode": 2}, "routing_key": "kept", "payload": "x", "payload_encoding": "string"});
    let published = login(&container).post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
    assert_eq!(published.json()["routed"], true);
    container.well(&pod.command(&["lifecycle", "preStop"]));
    assert_eq!(probed(&container, ready), 503, "it is drained");
    assert!(container.stop().success(), "{}", container.log());

    let container = pod.start(image);
    assert_eq!(login(&container).get("/api/queues/%2F/kept").expect("an answer").json()["messages"], 1);
}

#[test]
fn values_without_a_meaning_are_refused_with_a_hint() {
    for (setting, hint) in [
        ("replicaCount=3", "replicaCount must be one of the following: 0, 1"),
        ("clustering.enabled=true", "clustering isn't a value of this chart: the chart runs one node"),
        ("memoryHighWatermark.enabled=true", "write vm_memory_high_watermark.relative"),
        ("auth.usrname=a", "Additional property usrname is not allowed"),
        ("auth.tls.enabled=true", "auth.tls.existingSecret: name a secret"),
        ("service.type=Other", "service.type must be one of the following"),
    ] {
        let Some(rendered) = helm(&[setting]) else { return };
        let told = rendered.expect_err(setting);
        assert!(told.contains(hint), "{setting}: {told}");
    }
}

#[test]
fn every_optional_object_of_the_chart_is_rendered() {
    let settings = [
        "ingress.enabled=true",
        "metrics.serviceMonitor.enabled=true",
        "metrics.prometheusRule.enabled=true",
        "networkPolicy.allowExternal=false",
        "auth.tls.enabled=true",
        "auth.tls.existingSecret=certificates",
        "auth.tls.only=true",
        "auth.existingPasswordSecret=own",
        "auth.existingErlangSecret=own",
        "loadDefinition.enabled=true",
        "loadDefinition.existingSecret=definitions",
        "commonLabels.team=a",
        "commonAnnotations.note=b",
    ];
    let Some(rendered) = helm(&settings) else { return };
    let Some(objects) = objects(&rendered.expect("is rendered")) else { return };
    let kinds: Vec<&str> = objects.keys().map(|(kind, _)| kind.as_str()).collect();
    for kind in
        ["Ingress", "ServiceMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"]
    {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert!(!kinds.contains(&"Secret"), "existing secrets are used");
    for object in objects.values() {
        let metadata = &object["metadata"];
        assert_eq!(
            (&metadata["labels"]["team"], &metadata["annotations"]["note"]),
            (&json!("a"), &json!("b")),
            "{metadata}"
        );
    }
    let service = &objects[&("Service".to_owned(), "broker-leveret".to_owned())];
    let ports = service["spec"]["ports"].as_array().expect("ports");
    let names: Vec<&str> = ports.iter().filter_map(|port| port["name"].as_str()).collect();
    assert_eq!(names, ["http", "amqps", "streams"], "no listener without TLS");
    let config = &objects[&("ConfigMap".to_owned(), "broker-leveret".to_owned())]["data"]["10-chart.conf"];
    for line in
        ["ssl_options.certfile = /certificates/tls.crt", "listeners.tcp = none", "load_definitions = /definitions/"]
    {
        assert!(config.as_str().is_some_and(|text| text.contains(line)), "{line} in {config}");
    }
}
