//! The broker under test: a node of the test's own, or a broker that is running already.

use std::env;
use std::net::{SocketAddr, ToSocketAddrs as _};

use crate::balancer::Balanced;
use crate::conservation;
use crate::http::Http;
use crate::node::{Node, Options};
use crate::not_run::not_run;

/// The broker under test.
#[derive(Debug)]
pub enum Broker {
    /// A node that this test started and may kill.
    Own(Box<Node>),
    /// Three nodes behind a balancer, if `LEVERET_BEHIND_BALANCER` is set. With the value `transfers`, quorum queues get another leader
    /// each second.
    Balanced(Box<Balanced>),
    /// A broker named by `LEVERET_TEST_URI`, shared with other tests.
    Given {
        /// Its AMQP address.
        amqp: SocketAddr,
        /// Its HTTP API.
        http: Http,
    },
}

impl Broker {
    /// A node with the default options, or the broker that the environment names.
    pub fn start() -> Self {
        Self::start_with(Options::new())
    }

    /// As [`Broker::start`]; a given broker keeps its own settings.
    pub fn start_with(options: Options) -> Self {
        given().unwrap_or_else(|| match behind_balancer() {
            Some(how) => Self::Balanced(Box::new(Balanced::start(&options, how == "transfers"))),
            None => Self::Own(Box::new(Node::start(options))),
        })
    }

    /// The AMQP address.
    pub fn amqp(&self) -> SocketAddr {
        match self {
            Self::Own(node) => node.amqp(),
            Self::Balanced(nodes) => nodes.amqp(),
            Self::Given { amqp, .. } => *amqp,
        }
    }

    /// The HTTP API.
    pub fn http(&self) -> Http {
        match self {
            Self::Own(node) => node.http(),
            Self::Balanced(nodes) => nodes.http(),
            Self::Given { http, .. } => http.clone(),
        }
    }

    /// The node, when the test may kill it.
    pub fn node(&mut self) -> Option<&mut Node> {
        match self {
            Self::Own(node) => Some(node),
            Self::Balanced(_) | Self::Given { .. } => None,
        }
    }

    /// Ends a test by checking conservation for every queue. A given broker has other counters; there only the
    /// objects whose names start with `prefix` are removed.
    pub fn finish(self, prefix: &str) {
        match self {
            Self::Own(node) => conservation::check(&node.http()),
            Self::Balanced(mut nodes) => {
                if let Some(count) = nodes.end_transfers() {
                    println!("{count} transfers of leadership");
                }
                for node in nodes.nodes() {
                    conservation::check(&node.http());
                }
            }
            Self::Given { http, .. } => remove(&http, prefix),
        }
    }
}

/// Whether a broker is given from outside; tests that need a node of their own then return at once, and count as ignored.
pub fn is_given() -> bool {
    let given = is_another();
    if given {
        not_run("this test starts, kills or configures the broker, and LEVERET_TEST_URI names another one");
    }
    given
}

/// As [`is_given`], for tests that go on and leave out a part.
pub fn is_another() -> bool {
    env::var_os("LEVERET_TEST_URI").is_some()
}

/// The value of `LEVERET_BEHIND_BALANCER`, if it is set and no broker is given.
pub fn behind_balancer() -> Option<String> {
    env::var("LEVERET_BEHIND_BALANCER").ok().filter(|_| !is_another())
}

fn given() -> Option<Broker> {
    let uri = env::var("LEVERET_TEST_URI").ok()?;
    let authority = uri.strip_prefix("amqp://").unwrap_or(&uri).trim_end_matches('/');
    let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
    let amqp = authority.to_socket_addrs().expect("LEVERET_TEST_URI: host:port").next().expect("an address");
    let http = env::var("LEVERET_TEST_HTTP_URI").unwrap_or_else(|_| "http://127.0.0.1:15672".into());
    Some(Broker::Given { amqp, http: Http::parse(&http).expect("LEVERET_TEST_HTTP_URI") })
}

fn remove(http: &Http, prefix: &str) {
    for kind in ["queues", "exchanges"] {
        let Ok(answer) = http.get(&format!("/api/{kind}")) else { return };
        for object in answer.json().as_array().into_iter().flatten() {
            let name = object["name"].as_str().unwrap_or_default();
            if name.starts_with(prefix) {
                let _ = http.delete(&format!("/api/{kind}/%2F/{name}"));
            }
        }
    }
}
