//! Host names. The node runs on this machine and uses the same resolver.

use std::net::{IpAddr, ToSocketAddrs};

use serde_json::json;

use super::{CHECK, Command, CommandGroup};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "resolve_hostname", CommandGroup::Configuration, "<hostname> [--address-family <family>] [--offline]", "Resolves the name of a host to addresses: ipv4, or ipv6", resolve),
    Command::new(CHECK, "resolver_info", CommandGroup::Configuration, "", "Reports that the system resolves host names", resolver),
];

fn resolve(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let host = call.word("hostname").to_owned();
    let asked = call.given("address-family").unwrap_or("ipv4").to_ascii_lowercase();
    let family = match asked.as_str() {
        "ipv4" => "IPv4",
        "ipv6" => "IPv6",
        _ => {
            return Err(Failure::bad_argument(&format!(
                "Bad argument: unsupported IP address family {asked}. Valid values are: ipv4, ipv6"
            )));
        }
    };
    let node = match call.has("offline") {
        true => {
            call.say(&format!("Resolving hostname {host} to {family} addresses..."));
            String::new()
        }
        false => {
            let name = call.node()?.name();
            call.say(&format!("Asking node {name} to resolve hostname {host} to {family} addresses..."));
            name
        }
    };
    let unknown = || Failure::Data("Error:\nHostname does not resolve (resolution failed with an nxdomain)".to_owned());
    let found = (host.as_str(), 0).to_socket_addrs().map_err(|_| unknown())?;
    let addresses: Vec<String> = found
        .map(|address| address.ip())
        .filter(|ip| matches!((ip, family), (IpAddr::V4(_), "IPv4") | (IpAddr::V6(_), "IPv6")))
        .map(|ip| ip.to_string())
        .collect();
    if addresses.is_empty() {
        return Err(unknown());
    }
    let text = addresses.join("\n");
    let value =
        json!({"node": node, "result": "ok", "hostname": host, "address_family": family, "addresses": addresses});
    Ok(CommandOutput::Report { text, value })
}

fn resolver(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.node()?.name();
    call.say(&format!("Asking node {name} for its effective hostname resolver (inetrc) configuration..."));
    let settings = json!({"lookup": "native", "hosts_file": "/etc/hosts", "resolv_conf": "/etc/resolv.conf"});
    Ok(CommandOutput::Report {
        text: "Runtime Hostname Resolver (inetrc) Settings\n\nLookup order: native\nHosts file: /etc/hosts\n\
               Resolv conf file: /etc/resolv.conf"
            .to_owned(),
        value: json!({"node": name, "result": "ok", "resolver": settings}),
    })
}
