//! The initial content of an empty data directory: the first user with its vhost, or nothing if definitions are loaded.
//!
//! The first start ends with storing the cluster's id. A directory that has one is never treated as empty again,
//! whatever was deleted from it: neither a deleted user nor an old password comes back.

use std::sync::Arc;
use std::sync::mpsc::channel;

use leveret_broker::Broker;
use leveret_broker::registry::ChangeRequests;
use leveret_broker::ticket::Ticket;
use leveret_model::{Arguments, Command, DeclareExchange, ExchangeType, Permit, Queue, Topology, VhostDefaults};

use crate::clock::Clock;
use crate::first_user::FirstUser;
use crate::identity::Identity;
use crate::node::StartError;

/// The global parameter that identifies the cluster.
const CLUSTER_ID: &str = "internal_cluster_id";

/// The vhost that every model begins with.
const ROOT: &str = "/";

/// Initializes an empty directory; returns once that is durable and published. Without a first user the content comes
/// from definitions, and [`finish`] has to be called when they are loaded.
///
/// # Errors
/// The first user is refused.
pub(crate) fn begin(
    broker: &Arc<Broker>,
    first_user: Option<&FirstUser>,
    defaults: &VhostDefaults,
    identity: &Identity,
    clock: &Clock,
) -> Result<(), StartError> {
    let topology = broker.registry.snapshot().topology.clone();
    let is_fresh = is_fresh(&topology, first_user, defaults);
    match first_user {
        Some(first_user) if is_fresh => carry_out(broker, first_user.commands(defaults), clock)?,
        None if is_fresh => {
            let root = topology.vhost(ROOT).map(|_| Command::DeleteVhost { name: ROOT.into() });
            return carry_out(broker, root.into_iter().collect(), clock);
        }
        _ => {}
    }
    finish(broker, identity, clock)
}

/// The id of the cluster as a global parameter shows it, if the directory has one.
pub(crate) fn cluster_id(topology: &Topology) -> Option<&str> {
    topology.global_parameter(CLUSTER_ID)?.as_str()
}

/// Stores the cluster id of the identity in the directory, unless it has one.
///
/// # Errors
/// The model refuses the id.
pub(crate) fn finish(broker: &Arc<Broker>, identity: &Identity, clock: &Clock) -> Result<(), StartError> {
    let is_named = broker.registry.snapshot().topology.clone().global_parameter(CLUSTER_ID).is_some();
    let value = || identity.cluster_id_text().into();
    let name = || Command::PutGlobalParameter { name: CLUSTER_ID.into(), value: value() };
    carry_out(broker, (!is_named).then(name).into_iter().collect(), clock)
}

/// Declares the node's own exchanges, by vhost and name, unless they are there. As in RabbitMQ, a missing vhost is created.
///
/// # Errors
/// The model refuses one.
pub(crate) fn declare_own(
    broker: &Arc<Broker>,
    exchanges: &[(String, &'static str)],
    defaults: &VhostDefaults,
    clock: &Clock,
) -> Result<(), StartError> {
    let topology = broker.registry.snapshot().topology.clone();
    let mut commands = Vec::new();
    for (vhost, name) in exchanges.iter().filter(|(vhost, name)| topology.exchange(vhost, name).is_none()) {
        let vhost: Arc<str> = vhost.as_str().into();
        if topology.vhost(&vhost).is_none() {
            commands.push(Command::CreateVhost { name: vhost.clone() });
            commands.push(Command::SetVhost { name: vhost.clone(), settings: defaults.settings() });
        }
        commands.push(Command::DeclareExchange(DeclareExchange {
            vhost,
            name: (*name).into(),
            kind: ExchangeType::Topic.name().to_owned(),
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: Arguments::default(),
        }));
    }
    carry_out(broker, commands, clock)
}

/// Whether the first start still has to be done. A first start that was cut off by a crash left a part of the first
/// user's records, and is repeated.
fn is_fresh(topology: &Topology, first_user: Option<&FirstUser>, defaults: &VhostDefaults) -> bool {
    let is_first_vhost = |name: &str| name == ROOT || first_user.is_some_and(|first| first.vhost == name);
    let is_first_user = |name: &str| {
        first_user.is_some_and(|first| first.name == name || defaults.user_names().any(|default| default == name))
    };
    // A repaired copy without its metadata has nothing but these queues. Otherwise the first start may delete the vhost "/".
    let keeps_root = first_user.is_some_and(|first| first.vhost == ROOT);
    let may_stay = |queue: &Queue| keeps_root && queue.is_adopted();
    // The permission is the last record of the first user.
    let is_permitted = |first: &FirstUser| topology.permission(&first.name, &first.vhost).is_some();
    topology.global_parameter(CLUSTER_ID).is_none()
        && topology.vhosts().all(|name| is_first_vhost(name) && topology.queues(name).all(|queue| may_stay(queue)))
        && topology.users().all(|user| is_first_user(&user.name))
        && !first_user.is_some_and(is_permitted)
}

/// Carries out the commands; returns once they are durable and published.
fn carry_out(broker: &Arc<Broker>, commands: Vec<Command>, clock: &Clock) -> Result<(), StartError> {
    if commands.is_empty() {
        return Ok(());
    }
    if broker.registry.is_placed() {
        return carry_out_placed(broker, commands, clock);
    }
    broker.bootstrap(commands, clock.now())?;
    let (sender, durable) = channel();
    let local = broker.streams.local();
    let all = Ticket::new(local.id(), local.appended());
    // The receiver is only gone if the node has failed meanwhile, so a failed send doesn't matter.
    broker.streams.when_over(all, Box::new(move |_| sender.send(()).unwrap_or_default()));
    if durable.recv().is_ok() {
        broker.registry.publish();
    }
    Ok(())
}

/// Asks the cluster for the changes, and waits for the answer. A cluster without a majority has them already, or gets them at the next
/// start.
fn carry_out_placed(broker: &Arc<Broker>, commands: Vec<Command>, clock: &Clock) -> Result<(), StartError> {
    let (sender, answer) = channel();
    let requests = ChangeRequests { permit: Permit::system(), commands: commands.into(), is_new: false };
    let asked = broker.registry.change_all(requests, clock.now().monotonic);
    // The receiver is here.
    asked.then(move |outcome| sender.send(outcome.map(drop)).unwrap_or_default());
    if let Ok(Err((_, refused))) = answer.recv() {
        tracing::warn!("the node's own objects aren't declared: {refused}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use leveret_model::{Model, Permit};

    use super::*;

    fn after(commands: &[Command]) -> Topology {
        let mut model = Model::new();
        for command in commands {
            let _ = model.submit(Permit::system(), command.clone()).expect("is taken");
        }
        model.topology().clone()
    }

    #[test]
    fn a_first_start_that_was_cut_off_begins_anew_until_it_is_whole() {
        for vhost in ["/", "other"] {
            let first = FirstUser { vhost: vhost.to_owned(), ..FirstUser::default() };
            let defaults = VhostDefaults::default();
            let commands = first.commands(&defaults);
            for cut in 0..commands.len() {
                assert!(is_fresh(&after(&commands[..cut]), Some(&first), &defaults), "{vhost}, {cut} records");
            }
            assert!(!is_fresh(&after(&commands), Some(&first), &defaults));
        }
    }

    #[test]
    fn a_directory_with_a_cluster_id_is_never_taken_for_empty() {
        let (first, defaults) = (FirstUser::default(), VhostDefaults::default());
        let mut commands = first.commands(&defaults);
        commands.push(Command::PutGlobalParameter { name: CLUSTER_ID.into(), value: "rabbitmq-cluster-id-1".into() });
        commands.push(Command::DeleteUser { name: "guest".into() });
        commands.push(Command::DeleteVhost { name: "/".into() });
        assert!(!is_fresh(&after(&commands), Some(&first), &defaults));
        assert!(!is_fresh(&after(&commands), None, &defaults));
    }

    #[test]
    fn a_directory_with_anything_else_in_it_is_not_empty() {
        let (first, defaults) = (FirstUser::default(), VhostDefaults::default());
        let vhost = [Command::CreateVhost { name: "prod".into() }];
        assert!(!is_fresh(&after(&vhost), Some(&first), &defaults));
        let other = FirstUser { name: "ops".to_owned(), ..FirstUser::default() }.commands(&defaults);
        assert!(!is_fresh(&after(&other[..3]), Some(&first), &defaults));
        assert!(!is_fresh(&after(&other[..3]), None, &defaults));
    }
}
