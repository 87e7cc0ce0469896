//! The table in a vhost whose default queue type is quorum: every durable queue that a client declares without a type is one.
//! `allow/quorum.txt` lists the cells that show what quorum queues don't do; they must then fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use leveret_tests::allow;
use leveret_tests::cell::{self, Transport};
use leveret_tests::table::{TABLES, exception};
use libtest_mimic::Trial;

const SETTING: (&str, &str) = ("default_queue_type", "quorum");

pub(crate) fn trials() -> Vec<Trial> {
    let given = env::var_os("LEVERET_TEST_URI").is_some();
    let whole = env::var("LEVERET_QUORUM_TABLE").is_ok_and(|which| which == "whole");
    let allowed = allowed();
    let (mut trials, mut cells) = (Vec::new(), BTreeSet::new());
    for table in TABLES {
        for client in table.clients {
            for scenario in table.scenarios.iter().filter(|scenario| exception(client, scenario.name).is_none()) {
                let name = format!("{}::{}", client.name, scenario.name);
                let must_fail = allowed.contains_key(&name);
                let runs = !given && (whole || table.with_quorum_queues.contains(&scenario.name));
                let trial = Trial::test(format!("quorum::{name}"), move || {
                    let command = crate::command(client.program);
                    match cell::run_with(command, scenario, Transport::Plain, &[SETTING]) {
                        Ok(()) if must_fail => Err("passes: remove it from allow/quorum.txt".into()),
                        Err(reason) if !must_fail => Err(reason.into()),
                        Ok(()) | Err(_) => Ok(()),
                    }
                });
                trials.push(trial.with_ignored_flag(!runs));
                cells.insert(name);
            }
        }
    }
    let strays: Vec<String> = allowed.into_keys().filter(|name| !cells.contains(name)).collect();
    trials.push(Trial::test("quorum::exceptions_name_cells", move || {
        if strays.is_empty() { Ok(()) } else { Err(format!("no such cell: {strays:?}").into()) }
    }));
    trials
}

fn allowed() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("allow/quorum.txt");
    allow::parse(&fs::read_to_string(path).expect("the list"))
}
