//! rabbitmqadmin v2 (2.35.0) as a program. Every command is in one of the tables, with a check over HTTP or AMQP of
//! its effect, or in `allow/rabbitmqadmin-v2.txt` with the words of its refusal.

mod admin;
mod bindings;
mod connections;
mod definitions;
mod exchanges;
mod limits;
mod local;
mod messages;
mod node;
mod nothing;
mod policies;
mod queues;
mod users;
mod vhosts;

use std::collections::BTreeSet;

use leveret_tests::allow;
use leveret_tests::broker::is_given;

use admin::Admin;

/// Runs a command and asserts its effect. Aliases share one.
type Effect = fn(&Admin, &str);

const TABLES: &[&[(&str, Effect)]] = &[
    bindings::EFFECTS,
    connections::EFFECTS,
    definitions::EFFECTS,
    exchanges::EFFECTS,
    limits::EFFECTS,
    local::EFFECTS,
    messages::EFFECTS,
    node::EFFECTS,
    nothing::EFFECTS,
    policies::EFFECTS,
    queues::EFFECTS,
    users::EFFECTS,
    vhosts::EFFECTS,
];

/// The commands of a table, with a broker for all of them.
fn each(effects: &[(&str, Effect)]) {
    if is_given() {
        return;
    }
    let admin = Admin::start();
    for (command, effect) in effects {
        effect(&admin, command);
        assert!(admin.ran(command), "{command} isn't run by its row");
    }
    admin.finish();
}

#[test]
fn bindings_are_made_listed_and_deleted() {
    each(bindings::EFFECTS);
}

#[test]
fn connections_channels_and_consumers_are_listed_and_closed() {
    each(connections::EFFECTS);
}

#[test]
fn definitions_and_parameters_are_exported_and_imported() {
    each(definitions::EFFECTS);
}

#[test]
fn exchanges_are_declared_listed_and_deleted() {
    each(exchanges::EFFECTS);
}

#[test]
fn limits_are_set_listed_and_lifted() {
    each(limits::EFFECTS);
}

#[test]
fn the_program_stores_the_address_of_a_node() {
    each(local::EFFECTS);
}

#[test]
fn messages_are_published_taken_and_purged() {
    each(messages::EFFECTS);
}

#[test]
fn a_node_is_shown_and_checked() {
    each(node::EFFECTS);
}

#[test]
fn unsupported_objects_cannot_be_listed_or_changed() {
    each(nothing::EFFECTS);
}

#[test]
fn policies_are_declared_listed_changed_and_deleted() {
    each(policies::EFFECTS);
}

#[test]
fn queues_are_declared_listed_and_deleted() {
    each(queues::EFFECTS);
}

#[test]
fn users_and_permissions_are_declared_listed_and_deleted() {
    each(users::EFFECTS);
}

#[test]
fn vhosts_are_declared_listed_protected_and_deleted() {
    each(vhosts::EFFECTS);
}

/// Commands with arguments, and the words required in their output; separated by `; `.
const REFUSED: &str = include_str!("../../../allow/rabbitmqadmin-v2.txt");

#[test]
fn unsupported_commands_are_refused_by_name() {
    if is_given() {
        return;
    }
    let admin = Admin::start();
    let (mut refused, mut done) = (Vec::new(), Vec::new());
    let allowed = allow::parse(REFUSED);
    for (line, words) in &allowed {
        match admin.try_run(line, "") {
            Ok(_) => done.push(line.clone()),
            Err(printed) => {
                for words in words.split("; ") {
                    assert!(printed.contains(words), "{line}: {words:?} isn't in {printed}");
                }
                refused.push(line.clone());
            }
        }
    }
    assert_eq!(allow::judge(&allowed, &done, &refused), Vec::<String>::new());
    admin.finish();
}

#[test]
fn every_command_of_the_program_is_in_a_table_or_in_the_list() {
    if is_given() {
        return;
    }
    let admin = Admin::start();
    let all = admin.commands();
    assert!(all.len() > 150, "only {} commands were found: {all:?}", all.len());
    let mut known = BTreeSet::new();
    for (command, _) in TABLES.iter().copied().flatten() {
        assert!(known.insert((*command).to_owned()), "{command} is in two tables");
    }
    for line in allow::parse(REFUSED).keys() {
        let command = line.split(" -").next().unwrap_or_default().to_owned();
        assert!(known.insert(command), "{line} is in a table, or twice in the list");
    }
    let missing: Vec<_> = all.difference(&known).collect();
    let gone: Vec<_> = known.difference(&all).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not known here: {missing:?}; not known there: {gone:?}");
    admin.finish();
}
