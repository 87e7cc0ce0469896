//! Metadata of three processes under partitions, cuts one way, delays, pauses and kills: what clients were told has an order.
//!
//! The nodes reach each other by way of proxies of ours. A clock can't be stepped for one process without a seam in the product, so that is
//! left to the simulator.
//!
//! Lookups aren't judged: a node that finds something says so without asking the others, and one without a majority says what it knows.
//! The answers to changes are, and what is there in the end.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leveret_strict_client::linear::{OBJECT_STEPS_MAX, ObjectAction, ObjectFound, ObjectStep, is_linearizable};
use leveret_tests::PATIENCE;
use leveret_tests::http::{Answer, Http};
use leveret_tests::link_proxy::LinkFaults;
use leveret_tests::random::Random;
use serde_json::json;

use crate::Cluster;

/// Number of clients.
const CLIENTS: usize = 4;
/// Operations that end during each fault.
const DURING: u64 = 24;
/// Operations that end between two faults.
const BETWEEN: u64 = 12;

/// An object whose history is judged. When one has as many operations as can be judged, the next one takes its place.
type ObjectPath = String;

/// The operations of all clients.
struct Load {
    begun: Instant,
    histories: Mutex<BTreeMap<ObjectPath, Vec<ObjectStep>>>,
    values: AtomicU64,
    ended: AtomicU64,
    is_over: AtomicBool,
    apis: Vec<Http>,
}

impl Load {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).expect("it is small")
    }

    /// Begins an operation on any object. Returns its place in the history of that.
    fn begin(&self, random: &mut Random, action: ObjectAction) -> (ObjectPath, usize) {
        let kind = ["users/u", "queues/%2F/q"][random.below(2)];
        let number = random.below(3);
        let mut histories = self.histories.lock().expect("no client has panicked");
        let path = (0..)
            .map(|generation| format!("/api/{kind}-{number}-{generation}"))
            .find(|path| histories.get(path).is_none_or(|steps| steps.len() < OBJECT_STEPS_MAX / 2))
            .expect("there is always another one");
        let steps = histories.entry(path.clone()).or_default();
        let action = match action {
            ObjectAction::Put(value) if kind.starts_with("queues") => ObjectAction::Create(value),
            action => action,
        };
        steps.push(ObjectStep { action, from: self.now(), end: None });
        (path, steps.len() - 1)
    }

    fn operate(&self, random: &mut Random) {
        let api = &self.apis[random.below(self.apis.len())];
        let is_deletion = random.below(3) == 0;
        let value = 1 + self.values.fetch_add(1, Ordering::Relaxed);
        let action = if is_deletion { ObjectAction::Delete } else { ObjectAction::Put(value) };
        let (path, at) = self.begin(random, action);
        let answer = match is_deletion {
            true => api.delete(&path),
            false if path.starts_with("/api/users") => {
                api.put(&path, &json!({"password_hash": "", "tags": format!("v{value}")}))
            }
            false => api.put(&path, &json!({"durable": true, "arguments": {"x-max-length": value}})),
        };
        if let Some(found) = found(&path, is_deletion, &answer) {
            let end = Some((self.now(), found));
            self.histories.lock().expect("no client has panicked").get_mut(&path).expect("it has begun")[at].end = end;
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until so many more operations have ended.
    fn wait_for(&self, more: u64) {
        let until = self.ended.load(Ordering::Relaxed) + more;
        let deadline = Instant::now() + 4 * PATIENCE;
        while self.ended.load(Ordering::Relaxed) < until {
            assert!(Instant::now() < deadline, "clients wait for answers");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Has the clients end when it is dropped.
struct Over<'a>(&'a Load);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// The state in which an operation found its object, by its answer; `None` if whether it took effect isn't known.
fn found(path: &str, is_deletion: bool, answer: &io::Result<Answer>) -> Option<ObjectFound> {
    let answer = answer.as_ref().ok()?;
    match answer.status {
        201 => Some(ObjectFound::Nothing),
        204 => Some(ObjectFound::Something),
        // Its node may have looked at what it knows, without the others.
        404 if is_deletion => None,
        400 if answer.body.contains("inequivalent arg") => Some(ObjectFound::Something),
        400 | 404 | 500.. => {
            let is_known = ["timeout", "home node", "reach", "answer", "leader", "starts", "stops", "unavailable"];
            let is_known = is_known.iter().any(|word| answer.body.to_lowercase().contains(word));
            assert!(is_known, "{path}: {} {}", answer.status, answer.body);
            None
        }
        // The node has just started, and doesn't know its users yet.
        401 => None,
        status => panic!("{path}: {status} {}", answer.body),
    }
}

/// The value of an object as a node has it; `Err` if it doesn't say.
fn value_at(api: &Http, path: &str) -> Result<Option<u64>, String> {
    let answer = api.get(path).map_err(|error| error.to_string())?;
    let json = answer.json();
    match answer.status {
        404 => Ok(None),
        200 if path.starts_with("/api/users") => {
            let tag = json["tags"][0].as_str().and_then(|tag| tag.strip_prefix('v')?.parse().ok());
            Ok(Some(tag.ok_or(answer.body)?))
        }
        200 => Ok(Some(json["arguments"]["x-max-length"].as_u64().ok_or(answer.body)?)),
        status => Err(format!("{status} {}", answer.body)),
    }
}

/// Three nodes behind proxies.
pub(crate) fn started(faults: &LinkFaults) -> Cluster {
    let (net, options) = Cluster::options(3);
    let names: Vec<String> = (0..3).map(|at| format!("leveret@{net}.{}", at + 1)).collect();
    let behind = |(at, options): (usize, leveret_tests::node::Options)| {
        let (own, behind) = (format!("{net}.{}:25672", at + 1), format!("{net}.{}:25672", at + 101));
        faults.guard(at, &own, &behind, &names);
        let options = options.set("cluster.listeners.tcp.default", behind).set("cluster.advertised_address", own);
        options.set("cluster.metadata_timeout", 2000)
    };
    let options = options.into_iter().enumerate().map(behind).collect();
    let cluster = Cluster { net, nodes: Cluster::started(options) };
    cluster.wait_until("all are members", |cluster| cluster.nodes.iter().all(|node| cluster.members(node).len() == 3));
    cluster
}

/// A fault, which is over when this returns.
fn strike(
    time: usize,
    cluster: &mut Cluster,
    (faults, load): (&LinkFaults, &Load),
    random: &mut Random,
) -> &'static str {
    let (at, other) = (random.below(3), 1 + random.below(2));
    let other = (at + other) % 3;
    match time % 5 {
        0 => {
            faults.isolate(at, 0..3);
            load.wait_for(DURING);
            faults.heal();
            "isolation"
        }
        1 => {
            faults.cut(at, other);
            load.wait_for(DURING);
            faults.heal();
            "cut one way"
        }
        2 => {
            (0..3).for_each(|to| faults.delay(at, to, Duration::from_millis(30)));
            load.wait_for(DURING);
            faults.heal();
            "delay"
        }
        3 => {
            cluster.nodes[at].pause();
            // Its clients wait.
            load.wait_for(CLIENTS as u64);
            thread::sleep(Duration::from_millis(random.below(1500) as u64));
            cluster.nodes[at].resume();
            "pause"
        }
        _ => {
            cluster.nodes[at].kill();
            load.wait_for(DURING);
            cluster.nodes[at].restart();
            "kill"
        }
    }
}

/// Has clients work under so many faults, and judges what they were told.
fn run(times: usize, seed: u64) {
    let (faults, mut random) = (LinkFaults::default(), Random::new(seed));
    let mut cluster = started(&faults);
    let load = Load {
        begun: Instant::now(),
        histories: Mutex::default(),
        values: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        apis: cluster.nodes.iter().map(leveret_tests::node::Node::http).collect(),
    };
    let mut counts = BTreeMap::<&str, u32>::new();
    thread::scope(|scope| {
        // Clients end also if this panics.
        let over = Over(&load);
        for client in 0..CLIENTS {
            let (load, mut random) = (&load, Random::new(seed * 1000 + client as u64));
            scope.spawn(move || {
                while !load.is_over.load(Ordering::Relaxed) {
                    load.operate(&mut random);
                }
            });
        }
        for time in 0..times {
            load.wait_for(BETWEEN);
            *counts.entry(strike(time, &mut cluster, (&faults, &load), &mut random)).or_default() += 1;
        }
        drop(over);
    });
    cluster.wait_until("all are members", |cluster| cluster.nodes.iter().all(|node| cluster.members(node).len() == 3));
    let (mut operations, mut unanswered) = (0, 0);
    for (path, mut steps) in load.histories.into_inner().expect("no client has panicked") {
        let values = || load.apis.iter().map(|api| value_at(api, &path)).collect::<Vec<_>>();
        cluster.wait_until("all nodes have the same", |_| {
            let values = values();
            values.iter().all(Result::is_ok) && values.windows(2).all(|two| two[0] == two[1])
        });
        let last = value_at(&load.apis[0], &path).expect("it answers");
        operations += steps.len();
        unanswered += steps.iter().filter(|step| step.end.is_none()).count();
        let now = u64::MAX - 1;
        let found = last.map_or(ObjectFound::Nothing, ObjectFound::Value);
        steps.push(ObjectStep { action: ObjectAction::Read, from: now, end: Some((now, found)) });
        assert!(is_linearizable(&steps), "{path}: the operations have no order: {steps:#?}");
    }
    println!("{counts:?}: {operations} operations, {unanswered} without an answer");
}

#[test]
fn metadata_of_processes_has_one_history_under_partitions() {
    run(8, 1);
}

#[test]
#[ignore = "takes minutes: make cluster-partitions"]
fn metadata_has_one_history_under_partitions_for_a_long_time() {
    let times = std::env::var("LEVERET_PARTITIONS").map_or(200, |times| times.parse().expect("a number"));
    let seed = std::env::var("LEVERET_PARTITIONS_SEED").map_or(54, |seed| seed.parse().expect("a number"));
    run(times, seed);
}

/// The member that leads the metadata.
pub(crate) fn leader(cluster: &Cluster) -> Option<usize> {
    let status = cluster.nodes[0].http().get("/api/cluster/status").ok()?.json();
    let leader = status["leader"].as_str()?.to_owned();
    (0..cluster.nodes.len()).find(|at| cluster.name(*at) == leader)
}

/// A node that hears late of what was decided lets an import begin whose user may not import any more.
#[test]
fn an_import_whose_asker_the_leader_refuses_is_refused() {
    let faults = LinkFaults::default();
    let cluster = started(&faults);
    cluster.wait_until("there is a leader", |cluster| leader(cluster).is_some());
    let leads = leader(&cluster).expect("a leader");
    let asked = (leads + 1) % 3;
    let path = "/api/users/importer";
    let put = |tags: &str| {
        let user = json!({"password": "s3cret-of-importer", "tags": tags});
        let answer = cluster.nodes[leads].http().put(path, &user).expect("an answer");
        assert!(answer.status < 300, "{}", answer.body);
    };
    put("administrator");
    let http = cluster.nodes[asked].http().as_user("importer", "s3cret-of-importer");
    cluster.wait_until("it may import", |_| http.get("/api/definitions").is_ok_and(|answer| answer.status == 200));
    faults.delay(leads, asked, Duration::from_millis(250));
    put("");
    let queue = json!({"name": "of-nobody", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}});
    let answer = http.post("/api/definitions?skip_unsupported=true", &json!({"queues": [queue]})).expect("an answer");
    faults.heal();
    // Its node may have heard of it in time.
    assert_eq!(answer.status, 401, "{}", answer.body);
    let found = cluster.nodes[leads].http().get("/api/queues/%2F/of-nobody").expect("an answer");
    assert_eq!(found.status, 404);
}
