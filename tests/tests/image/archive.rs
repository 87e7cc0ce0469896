use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use leveret_tests::container::archive;
use leveret_tests::not_run::not_run;
use serde_json::Value;

/// The files of a tar, by `tar` itself.
fn listed(tar: &Path) -> Vec<String> {
    let run = Command::new("tar").args(["--list", "--verbose", "--numeric-owner", "--file"]).arg(tar).output();
    String::from_utf8_lossy(&run.expect("tar runs").stdout).lines().map(str::to_owned).collect()
}

/// The parts of an archive that are JSON, and the paths of its layers.
struct Unpacked {
    folder: tempfile::TempDir,
}

impl Unpacked {
    fn of(archive: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let run = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder.path()).status();
        assert!(run.expect("tar runs").success());
        Unpacked { folder }
    }

    fn json(&self, path: &str) -> Value {
        let text = fs::read_to_string(self.folder.path().join(path)).expect("is there");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The blob that a descriptor names, whose size and digest have to be right.
    fn blob(&self, descriptor: &Value) -> std::path::PathBuf {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a digest");
        let path = self.folder.path().join("blobs/sha256").join(digest);
        assert_eq!(fs::metadata(&path).expect("is there").len(), descriptor["size"].as_u64().expect("a size"));
        let sum = Command::new("sha256sum").arg(&path).output().expect("runs");
        assert!(String::from_utf8_lossy(&sum.stdout).starts_with(digest), "{digest}");
        path
    }

    fn json_blob(&self, descriptor: &Value) -> Value {
        serde_json::from_slice(&fs::read(self.blob(descriptor)).expect("is there")).expect("JSON")
    }
}

#[test]
fn the_archive_is_reproducible_and_keeps_the_images_contract() {
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = match archive(one.path(), "1.2.3") {
        Ok(first) => first,
        Err(reason) => return not_run(&format!("the image can't be built: {reason}")),
    };
    let second = archive(two.path(), "1.2.3").expect("is built again");
    assert!(fs::read(&first).expect("is there") == fs::read(&second).expect("is there"), "the archives differ");

    let unpacked = Unpacked::of(&first);
    assert_eq!(unpacked.json("oci-layout")["imageLayoutVersion"], "1.0.0");
    let manifest = unpacked.json_blob(&unpacked.json("index.json")["manifests"][0]);
    let image = unpacked.json_blob(&manifest["config"]);
    let config = &image["config"];
    assert_eq!(
        (&config["Entrypoint"][0], &config["Cmd"][0]),
        (&"docker-entrypoint.sh".into(), &"rabbitmq-server".into())
    );
    for port in [1883, 8883, 4369, 5671, 5672, 15671, 15672, 15691, 15692, 25672, 5551, 5552] {
        assert!(config["ExposedPorts"].get(format!("{port}/tcp")).is_some(), "{port}");
    }
    assert!(config["Volumes"].get("/var/lib/rabbitmq").is_some() && config.get("User").is_none());
    assert_eq!(config["Labels"]["org.opencontainers.image.version"], "1.2.3");
    assert_eq!(config["Labels"], manifest["annotations"]);

    let mut files = BTreeMap::new();
    for layer in manifest["layers"].as_array().expect("layers") {
        for line in listed(&unpacked.blob(layer)) {
            let words: Vec<&str> = line.split_whitespace().collect();
            files.insert(words[5].trim_end_matches('/').to_owned(), line.clone());
        }
    }
    for name in include_str!("../../../packaging/programs").lines() {
        assert!(files[&format!("usr/sbin/{name}")].ends_with("-> ../bin/leveret"), "{name}");
    }
    for name in ["bash", "sh", "cp", "chmod", "sed", "cat", "sleep"] {
        assert!(files.contains_key(&format!("usr/bin/{name}")), "the operator needs {name}");
    }
    for name in [
        "etc/ssl/certs/ca-certificates.crt",
        "usr/share/zoneinfo/Europe/Berlin",
        "etc/rabbitmq/conf.d/10-defaults.conf",
    ] {
        assert!(files.contains_key(name), "{name}");
    }
    let home = &files["var/lib/rabbitmq"];
    assert!(home.starts_with("drwxrwxrwx 999/999"), "any user may write: {home}");
    let setuid = files.values().find(|line| line.split(' ').next().is_some_and(|mode| mode.contains('s')));
    assert_eq!(setuid, None, "no program changes its user");

    let bill = fs::read_dir(one.path()).expect("is there").map(|entry| entry.expect("is there").path());
    let bill =
        bill.into_iter().find(|path| path.to_string_lossy().ends_with(".spdx.json")).expect("a bill of materials");
    let bill: Value = serde_json::from_slice(&fs::read(bill).expect("is there")).expect("JSON");
    let references = bill["packages"].to_string();
    for part in ["pkg:cargo/tokio@", "pkg:deb/debian/libc6@", "pkg:deb/debian/busybox-static@"] {
        assert!(references.contains(part), "{part}");
    }
    assert!(!references.contains("pkg:cargo/proptest@"), "only what is linked");
}
