//! The table over the clients' own TLS. `allow/tls.txt` lists the unsupported cells, which must then fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use leveret_tests::allow;
use leveret_tests::cell::{self, Distrust, Transport};
use leveret_tests::table::{ClientLibrary, Scenario, TABLES, exception};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let given = env::var_os("LEVERET_TEST_URI").is_some();
    let whole = env::var("LEVERET_TLS_TABLE").is_ok_and(|which| which == "whole");
    let allowed = allowed();
    let (mut trials, mut cells, mut suspicious) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for table in TABLES {
        for client in table.clients {
            for scenario in table.scenarios.iter().filter(|scenario| exception(client, scenario.name).is_none()) {
                let name = format!("{}::{}", client.name, scenario.name);
                let must_fail = allowed.contains_key(&name);
                let runs = !given && (whole || table.over_tls.contains(&scenario.name));
                let trial = Trial::test(format!("tls::{name}"), move || again(client, scenario, must_fail));
                trials.push(trial.with_ignored_flag(!runs));
                cells.insert(name);
            }
            if suspicious.insert(client.name) {
                let scenario = &table.scenarios[0];
                let trial = Trial::test(format!("tls::{}::trusts_no_other", client.name), move || {
                    trusts_no_other(client, scenario)
                });
                trials.push(trial.with_ignored_flag(given));
            }
        }
    }
    let strays: Vec<String> = allowed.into_keys().filter(|name| !cells.contains(name)).collect();
    trials.push(Trial::test("tls::what_is_allowed_names_cells", move || {
        if strays.is_empty() { Ok(()) } else { Err(format!("no such cell: {strays:?}").into()) }
    }));
    trials
}

fn allowed() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("allow/tls.txt");
    allow::parse(&fs::read_to_string(path).expect("the list"))
}

fn again(client: &ClientLibrary, scenario: &Scenario, must_fail: bool) -> Result<(), Failed> {
    match crate::run(client, scenario, Transport::Tls) {
        Ok(()) if must_fail => Err("passes: remove it from allow/tls.txt".into()),
        Err(reason) if !must_fail => Err(reason.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A client that accepted any certificate would prove nothing about TLS.
fn trusts_no_other(client: &ClientLibrary, scenario: &Scenario) -> Result<(), Failed> {
    for distrust in [Distrust::Authority, Distrust::Host] {
        if cell::run(crate::command(client.program), scenario, Transport::Untrusted(distrust)).is_ok() {
            return Err(format!("it doesn't mind the wrong {distrust:?}").into());
        }
    }
    Ok(())
}
