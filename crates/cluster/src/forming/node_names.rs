//! Names of nodes, and those that follow from others: from addresses, and from numbers of pods.

use core::net::IpAddr;
use std::fmt;

/// Most pods that are asked for a cluster.
const PODS_MAX: u32 = 9;
/// Fewest pods that are asked: a first pod without its data may have others that are in a cluster.
const PODS_MIN: u32 = 3;

/// A name from which no others follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNameError(String);

impl fmt::Display for NodeNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NodeNameError {}

/// The host of `name@host`; all of a name without a host.
#[must_use]
pub fn host_of(node: &str) -> &str {
    node.split_once('@').map_or(node, |(_, host)| host)
}

/// The name of the node at an address that has this host name: with the own name's first part, and with the host as long as the own
/// one. Without a host name, the address stands for it.
#[must_use]
pub fn resolved_name(own: &str, address: IpAddr, host: Option<&str>) -> String {
    let (name, own_host) = own.split_once('@').unwrap_or((own, ""));
    let host = host.map(|host| host.trim_end_matches('.')).filter(|host| !host.is_empty());
    let Some(host) = host.filter(|_| own_host.parse::<IpAddr>().is_err()) else { return format!("{name}@{address}") };
    let is_short = !own_host.contains('.') && host.parse::<IpAddr>().is_err();
    let host = if is_short { host.split('.').next().unwrap_or(host) } else { host };
    format!("{name}@{host}")
}

/// The pods of a stateful set that has the pod with this name: the node that seeds, then all that are asked for a cluster.
///
/// # Errors
/// The name isn't one of a numbered pod.
pub fn pods(
    own: &str,
    ordinal_start: u32,
    seed: Option<&str>,
    target_size: u32,
) -> Result<(String, Vec<String>), NodeNameError> {
    let numbered = numbered(own);
    let seed = match (seed, &numbered) {
        (Some(seed), _) => seed.to_owned(),
        (None, Some((begin, _, rest))) => format!("{begin}{ordinal_start}{rest}"),
        (None, None) => {
            return Err(NodeNameError(format!(
                "the node's name, {own}, isn't that of a pod of a stateful set, NAME@SET-NUMBER.DOMAIN; set RABBITMQ_NODENAME, or name \
                 the node that seeds the cluster by cluster_formation.k8s.seed_node"
            )));
        }
    };
    let mut names = vec![seed.clone()];
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    if let Some((begin, number, rest)) = numbered {
        let count = target_size.clamp(PODS_MIN, PODS_MAX);
        (ordinal_start..ordinal_start.saturating_add(count)).for_each(|other| add(format!("{begin}{other}{rest}")));
        add(format!("{begin}{number}{rest}"));
    }
    add(own.to_owned());
    Ok((seed, names))
}

/// The parts of `rabbit@SET-` `1` `.domain`.
fn numbered(own: &str) -> Option<(&str, u32, &str)> {
    let host_at = own.find('@')? + 1;
    let label_end = own[host_at..].find('.').map_or(own.len(), |dot| host_at + dot);
    let dash = own[host_at..label_end].rfind('-')? + host_at + 1;
    let digits = &own[dash..label_end];
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((&own[..dash], digits.parse().ok().filter(|_| is_number)?, &own[label_end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses_are_as_long_as_the_own_one() {
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        let name = |own: &str, host: Option<&str>| resolved_name(own, address, host);
        assert_eq!(name("rabbit@a.local", Some("b.local.")), "rabbit@b.local");
        assert_eq!(name("rabbit@a", Some("b.local")), "rabbit@b");
        assert_eq!(name("rabbit@a", Some("10.0.0.9")), "rabbit@10.0.0.9");
        assert_eq!(name("hare@10.0.0.7", Some("b.local")), "hare@10.0.0.1");
        assert_eq!(name("rabbit@a", None), "rabbit@10.0.0.1");
    }

    #[test]
    fn pods_follow_from_the_own_name() {
        let own = "rabbit@mq-server-4.mq-nodes.default";
        let (seed, names) = pods(own, 0, None, 1).expect("a pod");
        assert_eq!(seed, "rabbit@mq-server-0.mq-nodes.default");
        let expected = ["0", "1", "2", "4"].map(|number| format!("rabbit@mq-server-{number}.mq-nodes.default"));
        assert_eq!(names, expected);
        let (seed, names) = pods("rabbit@mq-5", 5, None, 5).expect("a pod");
        assert_eq!((&*seed, names.len(), &*names[4]), ("rabbit@mq-5", 5, "rabbit@mq-9"));
        let (seed, names) = pods("rabbit@mq-1", 0, Some("rabbit@first"), 1).expect("a pod");
        assert_eq!((&*seed, &*names[0], names.len()), ("rabbit@first", "rabbit@first", 4));
        assert_eq!(pods("rabbit@x", 0, Some("rabbit@y"), 3).expect("named").1, ["rabbit@y", "rabbit@x"]);
        for wrong in ["rabbit@host", "rabbit@host-", "rabbit@host-x", "rabbit@ho.st-1", "rabbit-1", "rabbit@host-+1"] {
            let error = pods(wrong, 0, None, 3).expect_err(wrong).to_string();
            assert!(error.contains(wrong) && error.contains("seed_node"), "{error}");
        }
    }

    #[test]
    fn the_host_of_a_node_is_behind_its_name() {
        assert_eq!(host_of("rabbit@a.b"), "a.b");
        assert_eq!(host_of("a"), "a");
    }
}
