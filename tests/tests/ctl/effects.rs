//! Effects of commands, observed independently: over HTTP, by a client's login, in the process.

use std::fs;
use std::time::{Duration, Instant};

use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Login, PROTOCOL_HEADER, Tuning, Wire, method, publish};
use serde_json::Value;

use crate::tool::{Said, run};

pub(crate) fn well(node: &Node, line: &str) -> String {
    let said = run(node.directory(), line, "");
    assert_eq!(said.exit, 0, "{line}: {said:?}");
    said.stdout
}

pub(crate) fn exit(node: &Node, line: &str) -> Said {
    run(node.directory(), line, "")
}

fn logs_in(node: &Node, user: &str, password: &str, vhost: &str) -> bool {
    let mut wire = Wire::connect(node.amqp());
    wire.send(PROTOCOL_HEADER);
    wire.next_method(method::CONNECTION_START).expect("a start");
    let login = Login { user, password, vhost, ..Login::default() };
    wire.log_in(Tuning { frame_max: 0, heartbeat: 0 }, &login).is_ok()
}

#[test]
fn users_can_log_in_only_with_the_password_set() {
    let node = Node::start(Options::new());
    well(&node, "rabbitmqctl add_vhost v");
    well(&node, "rabbitmqctl add_user ann first");
    assert!(!logs_in(&node, "ann", "first", "v"), "she has no permissions yet");
    well(&node, "rabbitmqctl set_permissions -p v ann .* .* .*");
    assert!(logs_in(&node, "ann", "first", "v"));
    well(&node, "rabbitmqctl change_password ann second");
    assert!(!logs_in(&node, "ann", "first", "v") && logs_in(&node, "ann", "second", "v"));
    well(&node, "rabbitmqctl set_user_tags ann monitoring");
    assert!(logs_in(&node, "ann", "second", "v"), "tags don't touch the password");
    let hash = well(&node, "rabbitmqctl -s hash_password third");
    well(&node, &format!("rabbitmqctl add_user bob {} --pre-hashed-password", hash.trim()));
    well(&node, "rabbitmqctl set_permissions_globally bob .* .* .*");
    assert!(logs_in(&node, "bob", "third", "v") && logs_in(&node, "bob", "third", "/"));
    well(&node, "rabbitmqctl clear_permissions -p v bob");
    assert!(!logs_in(&node, "bob", "third", "v"));
    well(&node, "rabbitmqctl clear_password ann");
    assert!(!logs_in(&node, "ann", "second", "v") && !logs_in(&node, "ann", "", "v"));
    well(&node, "rabbitmqctl delete_user bob");
    assert!(!logs_in(&node, "bob", "third", "/"));
    assert_eq!(exit(&node, "rabbitmqctl change_password none x").exit, 67);
    // A vhost created here has no creating user, so no user gets permissions in it.
    assert_eq!(well(&node, "rabbitmqctl -s list_permissions -p v"), "ann\t.*\t.*\t.*\n");
}

/// The exit codes are those of RabbitMQ 4.3.6.
#[test]
fn a_password_that_breaks_the_rule_is_refused_with_its_reason() {
    let options = Options::new()
        .set("credential_validator.validation_backend", "rabbit_credential_validator_min_password_length")
        .set("credential_validator.min_length", 8);
    let node = Node::start(options);
    well(&node, "rabbitmqctl add_user bob longenough");
    for (line, code) in [
        ("rabbitmqctl add_user ann short", 69),
        ("rabbitmqctl change_password bob short", 69),
        ("rabbitmqctl add_user bob longenough", 70),
        ("rabbitmqctl change_password ann longenough", 67),
    ] {
        let said = exit(&node, line);
        assert_eq!(said.exit, code, "{line}: {said:?}");
        let names_rule = said.stderr.contains("minimum required password length is 8");
        assert_eq!(names_rule, code == 69, "{line}: {said:?}");
    }
}

#[test]
fn a_vhost_is_traced_between_two_commands() {
    let node = Node::start(Options::new());
    well(&node, "rabbitmqctl add_vhost v");
    let traced = |node: &Node| well(node, "rabbitmqctl -s list_vhosts name tracing");
    let told = well(&node, "rabbitmqctl trace_on -p v");
    assert_eq!(told, "Starting tracing for vhost \"v\" ...\nTrace enabled for vhost v\n");
    assert!(traced(&node).contains("v\ttrue") && traced(&node).contains("/\tfalse"), "{}", traced(&node));
    let told = well(&node, "rabbitmqctl trace_off -p v");
    assert_eq!(told, "Stopping tracing for vhost \"v\" ...\nTrace disabled for vhost v\n");
    assert!(traced(&node).contains("v\tfalse"));
    assert_ne!(exit(&node, "rabbitmqctl trace_on -p none").exit, 0);
}

#[test]
fn definitions_are_exported_and_imported_again() {
    let node = Node::start(Options::new());
    well(&node, "rabbitmqctl add_vhost v");
    well(&node, "rabbitmqctl set_global_parameter p '{\"a\":1}'");
    let file = node.directory().join("definitions.json");
    well(&node, &format!("rabbitmqctl export_definitions {}", file.display()));
    let exported: Value = serde_json::from_str(&fs::read_to_string(&file).expect("is written")).expect("JSON");
    assert!(exported["vhosts"].to_string().contains("\"v\""));
    well(&node, "rabbitmqctl delete_vhost v");
    well(&node, "rabbitmqctl clear_global_parameter p");
    assert_eq!(well(&node, "rabbitmqctl -s list_vhosts"), "/\n");
    well(&node, &format!("rabbitmqctl import_definitions {}", file.display()));
    assert!(well(&node, "rabbitmqctl -s list_vhosts").contains("v\n"));
    assert!(well(&node, "rabbitmqctl -s list_global_parameters").contains("p\t{\"a\":1}\n"));
    let again = well(&node, &format!("rabbitmqctl import_definitions --skip-if-unchanged {}", file.display()));
    assert!(again.contains("unchanged"), "{again}");
    assert_eq!(exit(&node, "rabbitmqctl import_definitions --format erlang x").exit, 64);
}

#[test]
fn policies_are_set_listed_and_cleared() {
    let node = Node::start(Options::new());
    well(&node, "rabbitmqctl add_vhost v");
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q-1", true);
    wire.close();
    let set = "rabbitmqctl set_policy --priority 2 --apply-to queues p ^q '{\"max-length\":5}'";
    let said = well(&node, set);
    let text =
        "Setting policy \"p\" for pattern \"^q\" to \"{\"max-length\":5}\" with priority \"2\" for vhost \"/\" ...";
    assert_eq!(said.trim_end(), text);
    well(&node, "rabbitmqctl set_operator_policy o q '{\"max-length\":3}'");
    let listed = "vhost\tname\tpattern\tapply-to\tdefinition\tpriority\n/\tp\t^q\tqueues\t{\"max-length\":5}\t2\n";
    assert_eq!(well(&node, "rabbitmqctl -q list_policies"), listed);
    let operators = well(&node, "rabbitmqctl list_operator_policies --formatter json");
    let operators: Value = serde_json::from_str(&operators).expect("JSON");
    assert_eq!((&operators[0]["name"], &operators[0]["definition"]), (&"o".into(), &"{\"max-length\":3}".into()));
    assert_eq!(well(&node, "rabbitmqctl -s list_policies -p v"), "");
    let queues = well(&node, "rabbitmqctl -s list_queues name policy operator_policy");
    assert_eq!(queues, "q-1\tp\to\n");
    let effective = well(&node, "rabbitmqctl -s list_queues effective_policy_definition");
    assert!(effective.contains("max-length") && effective.contains('3'), "{effective}");
    well(&node, "rabbitmqctl set_policy --priority 1 low q '{\"expires\":1000000}'");
    let matching = well(&node, "rabbitmq-diagnostics -s list_policies_that_match q-1");
    let names: Vec<&str> = matching.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    assert_eq!(names, ["p", "low"]);
    for (line, exit_code, text) in [
        ("rabbitmqctl set_policy a q '{\"max-length\":'", 69, "Could not parse JSON document"),
        ("rabbitmqctl set_policy a q '{\"nonsense\":1}'", 69, "are not recognised policy settings"),
        ("rabbitmqctl set_policy --priority high a q '{\"max-length\":1}'", 64, "--priority : high"),
        ("rabbitmqctl set_policy -p none a q '{\"max-length\":1}'", 65, "Virtual host 'none' does not exist"),
        ("rabbitmqctl clear_policy none", 69, "Parameter does not exist"),
        ("rabbitmqctl clear_operator_policy none", 69, "Parameter does not exist"),
    ] {
        let said = exit(&node, line);
        assert!(said.exit == exit_code && said.stderr.contains(text), "{line}: {said:?}");
    }
    well(&node, "rabbitmqctl clear_policy p");
    well(&node, "rabbitmqctl clear_operator_policy o");
    assert_eq!(well(&node, "rabbitmqctl -s list_queues name policy operator_policy"), "q-1\tlow\t\n");
}

#[test]
fn logs_without_an_owner_are_listed_and_deleted() {
    let node = Node::start(Options::new());
    assert_eq!(well(&node, "rabbitmqctl -s list_unowned_logs log messages"), "");
    let said = exit(&node, "rabbitmqctl delete_unowned_log 7");
    assert!(said.exit != 0 && said.stderr.contains("there is no log '7' without an owner"), "{said:?}");
    let said = well(&node, "rabbitmq-diagnostics check_storage");
    assert!(said.contains("reported no stopped queue and no log without an owner"), "{said}");
}

#[test]
fn waiting_objects_are_listed_with_their_sentence() {
    let node = Node::start(Options::new());
    assert_eq!(well(&node, "rabbitmqctl -s list_waiting name"), "");
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "orders", true);
    wire.confirm_select(1);
    wire.publish_all(1, 1, |_| publish(1, "", "orders", b"one", false, true));
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let said = well(&node, "rabbitmqctl -s list_waiting kind name code text");
        if said == "queue\torders\tno_consumers\t1 ready message, and no consumer to take it.\n" {
            break;
        }
        assert!(Instant::now() < deadline, "{said}");
    }
}

#[test]
fn limits_of_alarms_change_while_the_node_runs() {
    let node = Node::start(Options::new());
    well(&node, "rabbitmq-diagnostics check_alarms");
    well(&node, "rabbitmqctl set_vm_memory_high_watermark absolute 1MiB");
    until(&node, "rabbitmq-diagnostics check_local_alarms", 69);
    let said = exit(&node, "rabbitmq-diagnostics check_alarms");
    assert!(said.stderr.contains("Memory alarm on node"), "{said:?}");
    assert!(well(&node, "rabbitmq-diagnostics -q alarms").starts_with("Memory alarm on node"));
    let nodes = node.http().get("/api/nodes").expect("the nodes").json();
    assert_eq!(nodes[0]["mem_limit"], 1 << 20);
    well(&node, "rabbitmqctl set_vm_memory_high_watermark 1.0");
    until(&node, "rabbitmq-diagnostics check_local_alarms", 0);
    well(&node, "rabbitmqctl set_disk_free_limit 900TB");
    until(&node, "rabbitmq-diagnostics check_local_alarms", 69);
    well(&node, "rabbitmqctl set_disk_free_limit 1");
    until(&node, "rabbitmq-diagnostics check_local_alarms", 0);
    assert_eq!(exit(&node, "rabbitmqctl set_vm_memory_high_watermark 1.5").exit, 65);
    assert_eq!(exit(&node, "rabbitmqctl set_disk_free_limit 5 6").exit, 64);
}

/// Alarms are measured by a separate thread: repeats the command until its result is as expected.
fn until(node: &Node, line: &str, expected: i32) {
    let begin = std::time::Instant::now();
    while exit(node, line).exit != expected {
        assert!(begin.elapsed() < leveret_tests::PATIENCE, "{line} doesn't exit with {expected}");
    }
}

#[test]
fn a_stop_returns_when_the_node_has_ended() {
    let mut node = Node::start(Options::new());
    let pid = node.ports().pid;
    assert_eq!(exit(&node, "rabbitmqctl wait --pid 4194304").exit, 69, "no process has this id");
    well(&node, &format!("rabbitmqctl wait --pid {pid}"));
    well(&node, "rabbitmqctl await_startup");
    well(&node, "rabbitmqctl start_app");
    well(&node, "rabbitmqctl stop");
    assert!(!node.directory().join("ports.json").exists());
    assert!(node.terminate_asked().success());
    assert_eq!(exit(&node, "rabbitmqctl -t 0.01 await_startup").exit, 75);
    node.restart();
    well(&node, "rabbitmqctl shutdown");
    assert!(node.terminate_asked().success());
}

#[test]
fn suspended_listeners_accept_no_clients_and_keep_existing_ones() {
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    well(&node, "rabbitmqctl suspend_listeners");
    assert!(std::net::TcpStream::connect(node.amqp()).is_err());
    wire.declare(1, "q", true);
    well(&node, "rabbitmqctl resume_listeners");
    assert!(logs_in(&node, "guest", "guest", "/"));
    wire.close();
}

#[test]
fn a_connection_is_closed_by_its_name_with_the_reason() {
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    let name = well(&node, "rabbitmqctl -s list_connections pid");
    assert_eq!(well(&node, "rabbitmqctl -s list_connections protocol"), "{0,9,1}\n");
    assert_eq!(well(&node, "rabbitmqctl -s list_channels connection"), name);
    well(&node, &format!("rabbitmqctl close_connection '{}' 'by a test'", name.trim()));
    let (code, text) = wire.until_closed().expect("a connection.close");
    assert!(code == 320 && text.contains("by a test"), "{code} {text}");
    assert_eq!(exit(&node, "rabbitmqctl close_all_connections -p none x").exit, 65);
}

#[test]
fn a_node_is_drained_for_an_upgrade_and_revived() {
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    let said = well(&node, "rabbitmq-upgrade drain");
    assert!(said.contains("The node will no longer serve any client traffic!"), "{said}");
    assert_eq!(wire.until_closed().expect("a connection.close").0, 320);
    assert!(std::net::TcpStream::connect(node.amqp()).is_err());
    assert!(well(&node, "rabbitmqctl cluster_status").contains("marked for maintenance"));
    well(&node, "rabbitmq-upgrade drain");
    well(&node, "rabbitmq-upgrade revive");
    assert!(logs_in(&node, "guest", "guest", "/"));
    let said = well(&node, "rabbitmq-upgrade await_online_quorum_plus_one");
    assert!(said.contains("the only one in a single node cluster, the command does not apply"), "{said}");
    well(&node, "rabbitmq-upgrade await_online_synchronized_mirror");
    well(&node, "rabbitmq-upgrade post_upgrade");
    well(&node, "rabbitmq-upgrade has_reached_target_cluster_size");
}

#[test]
fn the_level_of_the_log_changes_while_the_node_runs() {
    let mut node = Node::start(Options::new().set("log.level", "error"));
    well(&node, "rabbitmqctl set_disk_free_limit 60MB");
    well(&node, "rabbitmqctl set_log_level info");
    well(&node, "rabbitmqctl set_disk_free_limit 70MB");
    assert!(node.wait_for_line("Disk free limit set to 70000000 bytes"));
    well(&node, "rabbitmqctl set_log_level none");
    well(&node, "rabbitmqctl set_disk_free_limit 80MB");
    well(&node, "rabbitmqctl set_log_level notice");
    well(&node, "rabbitmqctl set_disk_free_limit 85MB");
    well(&node, "rabbitmqctl set_log_level debug");
    well(&node, "rabbitmqctl set_disk_free_limit 90MB");
    assert!(node.wait_for_line("Disk free limit set to 90000000 bytes"));
    let log = node.log();
    assert!(!log.contains("60000000") && !log.contains("80000000") && !log.contains("85000000"), "{log}");
}

#[test]
fn a_report_has_the_status_and_every_list_of_every_vhost() {
    let node = Node::start(Options::new());
    well(&node, "rabbitmqctl add_vhost other");
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "reported", true);
    let report = well(&node, "rabbitmqctl report");
    for part in [
        "Reporting server status of node ",
        "Status of node ",
        "Cluster status of node ",
        "Application environment",
        "Listing connections ...",
        "{0,9,1}",
        "Listing channels ...",
        "Listing queues for vhost / ...",
        "reported",
        "Listing exchanges for vhost other ...",
        "Listing bindings for vhost other",
        "guest\t.*\t.*\t.*",
    ] {
        assert!(report.contains(part), "{part} isn't in {report}");
    }
    assert_eq!(exit(&node, "rabbitmqctl report --formatter json").exit, 64);
    let terms = well(&node, "rabbitmqctl -q list_queues --formatter erlang name durable");
    assert_eq!(terms, "[[{name,<<\"reported\">>},{durable,true}]]\n");
    wire.close();
}

#[test]
fn a_missing_command_says_so() {
    let node = Node::start(Options::new());
    for line in ["rabbitmqctl eval_file x", "rabbitmqctl force_boot", "rabbitmq-diagnostics maybe_stuck"] {
        let said = exit(&node, line);
        assert!(said.exit == 64 && said.stderr.contains("isn't there yet: "), "{line}: {said:?}");
    }
    let said = exit(&node, "rabbitmqctl list_queue");
    assert!(said.exit == 64 && said.stderr.contains("Did you mean list_queues?"), "{said:?}");
}

#[test]
fn changes_of_the_cluster_are_checked_before_they_are_sent() {
    let node = Node::start(Options::new());
    for (line, code, part) in [
        ("rabbitmqctl join_cluster --ram rabbit@elsewhere", 64, "Invalid options for this command:\n--ram"),
        ("rabbitmqctl forget_cluster_node --offline rabbit@elsewhere", 64, "leveret recover --accept-data-loss"),
        ("rabbitmqctl reset now", 64, "too many arguments"),
        ("rabbitmqctl force_reset now", 64, "too many arguments"),
    ] {
        let said = exit(&node, line);
        assert!(said.exit == code && said.stderr.contains(part), "{line}: {said:?}");
    }
}

#[test]
fn help_names_every_command_and_each_is_run_by_a_test() {
    let node = Node::start(Options::new());
    let tests = [
        include_str!("effects.rs"),
        include_str!("parked.rs"),
        include_str!("plugins.rs"),
        include_str!("points.rs"),
        include_str!("place.rs"),
        include_str!("eval.rs"),
        include_str!("stop_app.rs"),
        include_str!("quorum.rs"),
        include_str!("streams.rs"),
        include_str!("transfers.rs"),
        include_str!("../backends/cache.rs"),
        include_str!("../convert.rs"),
        include_str!("../logging.rs"),
        include_str!("../../golden/ctl/scene.txt"),
    ];
    for tool in [
        "rabbitmqctl",
        "rabbitmq-diagnostics",
        "rabbitmq-plugins",
        "rabbitmq-upgrade",
        "rabbitmq-queues",
        "rabbitmq-streams",
    ] {
        let help = well(&node, &format!("{tool} help"));
        let names = well(&node, &format!("{tool} autocomplete"));
        let (there, missing) = help.split_once("Not there yet:").unwrap_or((&help, ""));
        for name in names.lines() {
            assert!(help.contains(&format!("   {name} ")), "{name} isn't in the help of {tool}");
            let is_missing = missing.contains(&format!("   {name} ")) && !there.contains(&format!("   {name} "));
            let is_run = tests
                .iter()
                .any(|test| test.match_indices(name).any(|(at, _)| !test[at + name.len()..].starts_with('_')));
            assert!(is_missing || is_run, "{tool} {name} is run by no test");
        }
        assert!(well(&node, &format!("{tool} version --help")).contains("General Options"));
    }
    // Commands that change nothing, and those with output for people only.
    well(&node, "rabbitmqctl reconcile_vhosts");
    well(&node, "rabbitmqctl has_reached_target_cluster_size");
    well(&node, "rabbitmq-diagnostics check_if_node_is_quorum_critical");
    assert!(well(&node, "rabbitmqctl metadata_store_status").contains("\tleader\tvoter\t"));
    well(&node, "rabbitmq-diagnostics check_if_node_is_mirror_sync_critical");
    assert!(well(&node, "rabbitmq-diagnostics erlang_version").contains("No Erlang"));
}
