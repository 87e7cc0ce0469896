//! The node's listeners.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::{CHECK, Command, CommandGroup};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::NodeClient;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "listeners", CommandGroup::Monitoring, "", "Lists active connection listeners", list),
    Command::new(CHECK, "check_port_connectivity", CommandGroup::Monitoring, "[--address <address>]", "Exits with a non-zero code if a connection to a listener fails", check_connectivity),
    Command::new(CHECK, "check_port_listener", CommandGroup::Monitoring, "<port>", "Exits with a non-zero code if no listener has this port", check_port),
    Command::new(CHECK, "check_protocol_listener", CommandGroup::Monitoring, "<protocol>", "Exits with a non-zero code if no listener has this protocol", check_protocol),
];

/// Timeout for connecting.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// A listener as reported by the node.
struct Found {
    protocol: String,
    /// Other names of the protocol.
    also_called: Vec<String>,
    purpose: String,
    /// The address in RabbitMQ's form: IPv6 in brackets.
    interface: String,
    address: IpAddr,
    port: u16,
}

fn found(node: &NodeClient) -> Vec<Found> {
    let listeners = node.node["listeners"].as_array().cloned().unwrap_or_default();
    let listener = |listener: &Value| {
        Some(Found {
            protocol: listener["protocol"].as_str()?.to_owned(),
            also_called: listener["also_called"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect(),
            purpose: listener["purpose"].as_str()?.to_owned(),
            interface: listener["interface"].as_str()?.to_owned(),
            address: listener["address"].as_str()?.parse().ok()?,
            port: u16::try_from(listener["port"].as_u64()?).ok()?,
        })
    };
    listeners.iter().filter_map(listener).collect()
}

impl Found {
    /// Addresses at which it can be reached from this machine. A listener on all addresses can be reached at any.
    fn reached_at(&self) -> Vec<IpAddr> {
        match self.address {
            IpAddr::V4(any) if any.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into()],
            // IPv4 is included, unless the system is configured otherwise.
            IpAddr::V6(any) if any.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            one => vec![one],
        }
    }
}

/// The listeners for programs.
pub(super) fn values(node: &NodeClient) -> Vec<Value> {
    let name = node.name();
    let value = |Found { protocol, purpose, interface, port, .. }: Found| json!({"node": name, "interface": interface, "port": port, "protocol": protocol, "purpose": purpose});
    found(node).into_iter().map(value).collect()
}

/// A listener of [`values`] in the words of the cluster's status.
pub(super) fn described(listener: &Value) -> String {
    let plain = |key: &str| listener[key].as_str().unwrap_or_default().to_owned();
    format!(
        "interface: {}, port: {}, protocol: {}, purpose: {}",
        plain("interface"),
        listener["port"],
        plain("protocol"),
        plain("purpose")
    )
}

/// The listeners for people, one per line.
pub(super) fn lines(node: &NodeClient) -> Vec<String> {
    let line = |Found { protocol, purpose, interface, port, .. }: &Found| {
        format!("Interface: {interface}, port: {port}, protocol: {protocol}, purpose: {purpose}")
    };
    found(node).iter().map(line).collect()
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Asking node {} to report its protocol listeners ...", node.name()));
    let value = json!({"result": "ok", "node": node.name(), "listeners": values(&node)});
    Ok(CommandOutput::Report { text: lines(&node).join("\n"), value })
}

fn check_connectivity(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Testing TCP connections to all active listeners on node {name} ..."));
    let given = call.given("address").map(str::to_owned);
    let wrong = |address: &str| Failure::bad_argument(&format!("Bad argument: {address} is no IP address"));
    let given = given.map(|address| address.parse::<IpAddr>().map_err(|_| wrong(&address))).transpose()?;
    let patience = call.options.timeout.unwrap_or(CONNECT_PATIENCE);
    let (mut connected, mut failed) = (Vec::new(), Vec::new());
    for listener in found(&node) {
        let port = listener.port;
        let addresses = given.map_or_else(|| listener.reached_at(), |address| vec![address]);
        let mut reasons = Vec::new();
        for address in addresses.into_iter().map(|ip| SocketAddr::new(ip, port)) {
            call.say(&format!("Will connect to {address}"));
            match TcpStream::connect_timeout(&address, patience) {
                Ok(_) => {
                    reasons.clear();
                    break;
                }
                Err(reason) => reasons.push(format!("{address} ({reason})")),
            }
        }
        match reasons.is_empty() {
            true => connected.push(port),
            false => failed.push(reasons.join(", ")),
        }
    }
    if !failed.is_empty() {
        return Err(Failure::check(&format!(
            "Connection to ports of the following listeners on node {name} failed: {}",
            failed.join(", ")
        )));
    }
    connected.sort_unstable();
    let text = format!("Successfully connected to ports {} on node {name}", joined(&connected));
    Ok(CommandOutput::Report { value: json!({"result": "ok", "node": name, "ports": connected}), text })
}

fn joined(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn check_port(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let port: u16 = call
        .word("port")
        .parse()
        .map_err(|_| Failure::bad_argument("Bad argument: Argument must be a positive integer"))?;
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Asking node {name} if there's an active listener on port {port} ..."));
    let mut ports: Vec<u16> = found(&node).into_iter().map(|found| found.port).collect();
    ports.sort_unstable();
    match ports.contains(&port) {
        true => {
            let text = format!("A listener for port {port} is running on node {name}.");
            Ok(CommandOutput::Report { value: json!({"result": "ok", "node": name, "port": port}), text })
        }
        false => Err(Failure::Unavailable(format!(
            "No listener for port {port} is active on node {name}. Found listeners that use the following ports: {}",
            joined(&ports)
        ))),
    }
}

fn check_protocol(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let asked = call.word("protocol").to_owned();
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Asking node {name} if there's an active listener for protocol {asked} ..."));
    let found = found(&node);
    let wanted = asked.to_ascii_lowercase();
    let is_wanted = |one: &Found| one.protocol == wanted || one.also_called.contains(&wanted);
    let mut protocols: Vec<&str> = found.iter().map(|found| found.protocol.as_str()).collect();
    protocols.sort_unstable();
    match found.iter().any(is_wanted) {
        true => {
            let text = format!("A listener for protocol {asked} is running on node {name}.");
            Ok(CommandOutput::Report { value: json!({"result": "ok", "node": name, "protocol": asked}), text })
        }
        false => Err(Failure::check(&format!(
            "No listener for protocol {asked} is active on node {name}. Found listeners for the following protocols: {}",
            protocols.join(", ")
        ))),
    }
}
