//! The nodes of the cluster.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::replicas::MEMBER;
use super::{CHECK, Command, CommandGroup, LOOK, alarms, listeners};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "cluster_status", CommandGroup::Cluster, "", "Displays the nodes of the cluster: members, and which of them run", status),
    Command::new(LOOK, "metadata_store_status", CommandGroup::Cluster, "", "Displays the members' replicas of the metadata, with their indexes", metadata),
    Command::new(CHECK, "discover_peers", CommandGroup::Cluster, "", "Lists the nodes that discovery names for a cluster", discover),
];

/// A node of the cluster, as `GET /api/cluster/status` has it in `nodes`.
struct MemberStatus {
    name: String,
    is_running: bool,
    version: String,
    cores: u64,
    is_drained: bool,
    /// Resources with alarms.
    alarms: Vec<String>,
    listeners: Vec<Value>,
    /// Members that it can't reach.
    unreachable: Vec<String>,
    /// Milliseconds by which its clock is ahead of the asked node's; 0 if they are alike.
    skew_ms: i64,
}

/// The cluster: `GET /api/cluster/status` is `{"cluster_name", "nodes": [{"name", "running", "version", "cores", "maintenance", "alarms":
/// ["memory"], "listeners": [{"interface", "port", "protocol", "purpose"}], "unreachable": [NAME], "clock_skew_ms"}], "different_settings": [KEY]}`. All but
/// the name may be missing.
struct ClusterStatus {
    name: String,
    nodes: Vec<MemberStatus>,
    /// Keys of the configuration that differ between nodes.
    different: Vec<String>,
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
}

impl MemberStatus {
    fn of(node: &Value) -> Self {
        MemberStatus {
            name: node["name"].as_str().unwrap_or_default().to_owned(),
            is_running: node["running"].as_bool().unwrap_or(false),
            version: node["version"].as_str().unwrap_or_default().to_owned(),
            cores: node["cores"].as_u64().unwrap_or(0),
            is_drained: node["maintenance"].as_bool().unwrap_or(false),
            alarms: texts(&node["alarms"]),
            listeners: node["listeners"].as_array().cloned().unwrap_or_default(),
            unreachable: texts(&node["unreachable"]),
            skew_ms: node["clock_skew_ms"].as_i64().unwrap_or(0),
        }
    }

    /// The difference of its clock in words.
    fn skew(&self) -> String {
        let way = if self.skew_ms > 0 { "ahead" } else { "behind" };
        format!("Node: {}, {:.1} s {way}", self.name, self.skew_ms.unsigned_abs() as f64 / 1000.0)
    }

    fn maintenance(&self) -> &'static str {
        if self.is_drained { "marked for maintenance" } else { "not under maintenance" }
    }
}

impl ClusterStatus {
    fn of(found: &Value) -> Self {
        let nodes = found["nodes"].as_array().into_iter().flatten();
        let mut nodes: Vec<MemberStatus> = nodes.map(MemberStatus::of).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let name = found["cluster_name"].as_str().unwrap_or_default().to_owned();
        ClusterStatus { name, nodes, different: texts(&found["different_settings"]) }
    }

    /// The status of a node that has no cluster.
    fn alone(node: &NodeClient) -> Result<Self, Failure> {
        let name = node.name();
        let cluster = node.get("/api/cluster-name")?["name"].take();
        let body = node.get(&format!("/api/nodes/{}?columns=processors", word(&name)))?;
        let own = json!({
            "name": name,
            "running": true,
            "version": node.node["rabbitmq_version"],
            "cores": body["processors"],
            "maintenance": node.node["being_drained"],
            "alarms": alarms::raised(node)?,
            "listeners": listeners::values(node),
        });
        Ok(ClusterStatus::of(&json!({"cluster_name": cluster, "nodes": [own]})))
    }

    fn skewed(&self) -> impl Iterator<Item = &MemberStatus> {
        self.running().filter(|node| node.skew_ms != 0)
    }

    fn running(&self) -> impl Iterator<Item = &MemberStatus> {
        self.nodes.iter().filter(|node| node.is_running)
    }

    /// For programs, as RabbitMQ's tool has it.
    fn value(&self, flags: &[Value]) -> Value {
        let names = |nodes: &mut dyn Iterator<Item = &MemberStatus>| -> Vec<Value> {
            nodes.map(|node| json!(node.name)).collect()
        };
        let each = |of: &dyn Fn(&MemberStatus) -> Value| -> Map<String, Value> {
            self.running().map(|node| (node.name.clone(), of(node))).collect()
        };
        let alarms = self
            .running()
            .flat_map(|node| node.alarms.iter().map(|resource| json!({"resource": resource, "node": node.name})));
        let cut_off = self.running().filter(|node| !node.unreachable.is_empty());
        let mut value = json!({
            "cluster_name": self.name,
            "cluster_tags": [],
            "disk_nodes": names(&mut self.nodes.iter()),
            "running_nodes": names(&mut self.running()),
            "versions": each(&|node| json!({"rabbitmq_name": "RabbitMQ", "rabbitmq_version": node.version, "erlang_version": ""})),
            "cpu_cores": each(&|node| json!(node.cores)),
            "maintenance_status": each(&|node| json!(node.maintenance())),
            "alarms": alarms.collect::<Vec<_>>(),
            "partitions": cut_off.map(|node| (node.name.clone(), json!(node.unreachable))).collect::<Map<_, _>>(),
            "listeners": each(&|node| json!(node.listeners)),
            "feature_flags": flags,
        });
        if !self.different.is_empty() {
            value["different_settings"] = json!(self.different);
        }
        let skewed: Map<_, _> = self.skewed().map(|node| (node.name.clone(), json!(node.skew_ms))).collect();
        if !skewed.is_empty() {
            value["clock_skew_ms"] = json!(skewed);
        }
        value
    }

    /// For people, in the sections of RabbitMQ's tool.
    fn text(&self, flags: &[Value]) -> String {
        let cores: u64 = self.running().map(|node| node.cores).sum();
        let basics =
            vec![format!("Cluster name: {}", self.name), format!("Total CPU cores available cluster-wide: {cores}")];
        let each = |of: &dyn Fn(&MemberStatus) -> String| -> Vec<String> { self.running().map(of).collect() };
        let alarms =
            self.running().flat_map(|node| node.alarms.iter().map(|resource| alarms::described(resource, &node.name)));
        let cut_off = self.running().filter(|node| !node.unreachable.is_empty());
        let partitions =
            cut_off.map(|node| format!("Node {} cannot communicate with {}", node.name, node.unreachable.join(", ")));
        let listeners = self.running().flat_map(|node| {
            node.listeners.iter().map(|listener| format!("Node: {}, {}", node.name, listeners::described(listener)))
        });
        let plain = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let flag = |flag: &Value| format!("Flag: {}, state: {}", plain(&flag["name"]), plain(&flag["state"]));
        let sections: [(&str, Vec<String>); 11] = [
            ("Basics", basics),
            ("Cluster Tags", Vec::new()),
            ("Disk Nodes", self.nodes.iter().map(|node| node.name.clone()).collect()),
            ("Running Nodes", each(&|node| node.name.clone())),
            ("Versions", each(&|node| format!("{}: RabbitMQ {}", node.name, node.version))),
            ("CPU Cores", each(&|node| format!("Node: {}, available CPU cores: {}", node.name, node.cores))),
            ("Maintenance status", each(&|node| format!("Node: {}, status: {}", node.name, node.maintenance()))),
            ("Alarms", alarms.collect()),
            ("Network Partitions", partitions.collect()),
            ("Listeners", listeners.collect()),
            ("Feature flags", flags.iter().map(flag).collect()),
        ];
        let mut text = String::new();
        for (title, lines) in &sections {
            let lines = if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") };
            let _ = write!(text, "{}{title}\n\n{lines}\n", if text.is_empty() { "" } else { "\n" });
        }
        if !self.different.is_empty() {
            let _ = write!(text, "\nSettings that differ between nodes\n\n{}\n", self.different.join("\n"));
        }
        let skewed: Vec<String> = self.skewed().map(|node| node.skew()).collect();
        if !skewed.is_empty() {
            let _ = write!(text, "\nClocks that differ\n\n{}\n", skewed.join("\n"));
        }
        text
    }
}

fn status(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Cluster status of node {} ...", node.name()));
    let status = match node.find("/api/cluster/status")? {
        Some(found) => ClusterStatus::of(&found),
        None => ClusterStatus::alone(&node)?,
    };
    let flags = node.list("/api/feature-flags")?;
    Ok(CommandOutput::Report { text: status.text(&flags), value: status.value(&flags) })
}

fn metadata(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Status of metadata store on node {} ...", node.name()));
    let columns = MEMBER.into_iter().chain(["Machine Version"]).map(str::to_owned);
    Ok(Rows::pick(&Vec::from_iter(columns), node.list("/api/cluster/metadata")?).into())
}

fn discover(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say("Discovering peers nodes ...");
    let found = node.find("/api/cluster/peers")?.map(|found| texts(&found)).unwrap_or_default();
    let names = if found.is_empty() { vec![node.name()] } else { found };
    // Atoms, as Elixir writes them.
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'@'));
    let atom = |name: &String| if is_plain(name) { format!(":{name}") } else { format!(":\"{name}\"") };
    let atoms: Vec<String> = names.iter().map(atom).collect();
    Ok(CommandOutput::Report { text: format!("[{}]", atoms.join(", ")), value: json!(names) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::StandIn;
    use crate::tool::Tool;

    fn three() -> Value {
        let listener = json!({"interface": "127.0.0.1", "port": 5672, "protocol": "amqp", "purpose": "AMQP 0-9-1"});
        let node = |name: &str| json!({"name": name, "running": true, "version": "4.3.6", "cores": 2, "listeners": [listener]});
        let (mut b, mut c) = (node("rabbit@b"), node("rabbit@c"));
        b["alarms"] = json!(["memory"]);
        b["clock_skew_ms"] = json!(-2340);
        b["maintenance"] = json!(true);
        b["unreachable"] = json!(["rabbit@c"]);
        c["running"] = json!(false);
        json!({"cluster_name": "mine", "nodes": [c, b, node("rabbit@a")], "different_settings": ["heartbeat"]})
    }

    #[test]
    fn the_status_has_the_sections_of_rabbitmq() {
        let node = StandIn::new("rabbit@a");
        node.answers("GET /api/cluster/status", 200, &three().to_string());
        node.answers("GET /api/feature-flags", 200, r#"[{"name": "khepri_db", "state": "enabled"}]"#);
        let expected = "\
Cluster status of node rabbit@a ...
Basics

Cluster name: mine
Total CPU cores available cluster-wide: 4

Cluster Tags

(none)

Disk Nodes

rabbit@a
rabbit@b
rabbit@c

Running Nodes

rabbit@a
rabbit@b

Versions

rabbit@a: RabbitMQ 4.3.6
rabbit@b: RabbitMQ 4.3.6

CPU Cores

Node: rabbit@a, available CPU cores: 2
Node: rabbit@b, available CPU cores: 2

Maintenance status

Node: rabbit@a, status: not under maintenance
Node: rabbit@b, status: marked for maintenance

Alarms

Memory alarm on node rabbit@b

Network Partitions

Node rabbit@b cannot communicate with rabbit@c

Listeners

Node: rabbit@a, interface: 127.0.0.1, port: 5672, protocol: amqp, purpose: AMQP 0-9-1
Node: rabbit@b, interface: 127.0.0.1, port: 5672, protocol: amqp, purpose: AMQP 0-9-1

Feature flags

Flag: khepri_db, state: enabled

Settings that differ between nodes

heartbeat

Clocks that differ

Node: rabbit@b, 2.3 s behind
";
        assert_eq!(node.run("cluster_status").expect("a status"), expected);
    }

    #[test]
    fn the_status_for_programs_is_by_node() {
        let value = ClusterStatus::of(&three()).value(&[]);
        assert_eq!(value["disk_nodes"], json!(["rabbit@a", "rabbit@b", "rabbit@c"]));
        assert_eq!(value["running_nodes"], json!(["rabbit@a", "rabbit@b"]));
        assert_eq!(value["alarms"], json!([{"resource": "memory", "node": "rabbit@b"}]));
        assert_eq!(value["partitions"], json!({"rabbit@b": ["rabbit@c"]}));
        assert_eq!(value["cpu_cores"], json!({"rabbit@a": 2, "rabbit@b": 2}));
        assert_eq!(value["maintenance_status"]["rabbit@b"], "marked for maintenance");
        assert_eq!(value["versions"]["rabbit@a"]["rabbitmq_version"], "4.3.6");
        assert_eq!(value["listeners"]["rabbit@a"][0]["port"], 5672);
        assert_eq!(value["clock_skew_ms"], json!({"rabbit@b": -2340}));
    }

    /// Answers of three nodes of RabbitMQ.
    const RECORDED: &str = include_str!("../../../../tests/golden/cluster/answers.txt");

    #[test]
    fn the_status_of_three_nodes_is_that_of_rabbitmq() {
        let node = |number: u16| {
            let host = format!("127.0.77.{number}");
            let listener = |port: u16, protocol: &str, purpose: &str| json!({"node": format!("rabbit{number}@{host}"), "interface": host, "port": port, "protocol": protocol, "purpose": purpose});
            json!({
                "name": format!("rabbit{number}@{host}"),
                "running": true,
                "version": "4.3.6",
                "cores": 2,
                "listeners": [
                    listener(15672, "http", "HTTP API"),
                    listener(35671 + number, "clustering", "inter-node and CLI tool communication"),
                    listener(5672, "amqp", "AMQP 0-9-1 and AMQP 1.0"),
                ],
            })
        };
        let status = json!({"cluster_name": "rabbit1@vm", "nodes": [node(1), node(2), node(3)]});
        let status = ClusterStatus::of(&status);
        let recorded = RECORDED.replace(" on Erlang 29.1.1", "");
        let (_, text) = recorded.split_once("Cluster status of node rabbit1@127.0.77.1 ...\n").expect("a status");
        let (text, _) = text.split_once("\nFeature flags").expect("flags");
        assert_eq!(status.text(&[]).split_once("\nFeature flags").map(|(text, _)| text), Some(text));
        let json =
            RECORDED.lines().find(|line| line.starts_with('{') && line.contains("rabbit1@vm")).expect("a status");
        let mut recorded: Value = serde_json::from_str(json).expect("JSON");
        for version in recorded["versions"].as_object_mut().expect("versions").values_mut() {
            version["erlang_version"] = json!("");
        }
        assert_eq!(status.value(&[]), recorded);
    }

    #[test]
    fn replicas_of_the_metadata_have_the_columns_of_rabbitmq() {
        let node = StandIn::new("rabbit@a");
        let rows = r#"[{"Node Name": "rabbit@a", "Raft State": "leader", "Membership": "voter", "Last Log Index": 9,
            "Last Written": 9, "Last Applied": 9, "Commit Index": 9, "Snapshot Index": 3, "Term": 2, "Machine Version": 1},
            {"Node Name": "rabbit@b", "Raft State": "nodedown"}]"#;
        node.answers("GET /api/cluster/metadata", 200, rows);
        let said = node.run("-q metadata_store_status --formatter csv").expect("two rows");
        let plain = said.replace('"', "");
        assert!(plain.contains("Commit Index") && plain.contains("leader,voter,9,9,9,9,3,2,1"), "{said}");
        assert!(plain.contains("rabbit@b,nodedown,"), "{said}");
    }

    #[test]
    fn peers_are_those_of_discovery() {
        let node = StandIn::new("rabbit@a");
        let said = node.run_as(Tool::Diagnostics, "discover_peers").expect("is alone");
        assert_eq!(said, "Discovering peers nodes ...\n[:rabbit@a]\n");
        node.answers("GET /api/cluster/peers", 200, r#"["rabbit@a", "rabbit@b-1.c"]"#);
        let said = node.run_as(Tool::Diagnostics, "-q discover_peers").expect("are two");
        assert_eq!(said, "[:rabbit@a, :\"rabbit@b-1.c\"]\n");
    }
}
