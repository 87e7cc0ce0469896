//! Sessions of the page: a login at one node counts at all of them, so that a load balancer may stand in front.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use leveret_tests::PATIENCE;
use leveret_tests::node::Options;
use leveret_tests::secrets;
use serde_json::json;

use crate::Cluster;

/// The answer to a request with the cookie of a session: its status, and the cookie that it sets.
fn request(cluster: &Cluster, at: usize, line: &str, cookie: &str, body: &str) -> (u16, Option<String>) {
    let authority = cluster.nodes[at].http().authority;
    let mut socket = TcpStream::connect(&authority).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(
        socket,
        "{line} HTTP/1.1\r\nhost: {authority}\r\nx-leveret-request: 1\r\ncookie: leveret_session={cookie}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it is sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).expect("a status").parse().expect("a number");
    let set = answer.split("set-cookie: leveret_session=").nth(1).and_then(|rest| rest.split(';').next());
    (status, set.map(str::to_owned))
}

fn log_in(cluster: &Cluster, at: usize, name: &str, password: &str) -> String {
    secrets::used(name, password);
    let body = json!({"username": name, "password": password}).to_string();
    let (status, cookie) = request(cluster, at, "POST /api/login", "", &body);
    assert_eq!(status, 204);
    cookie.expect("a cookie")
}

fn status(cluster: &Cluster, at: usize, cookie: &str) -> u16 {
    request(cluster, at, "GET /api/whoami", cookie, "").0
}

fn log_out(cluster: &Cluster, at: usize, cookie: &str) {
    assert_eq!(request(cluster, at, "POST /api/logout", cookie, ""), (204, Some(String::new())));
}

#[test]
fn a_login_at_one_node_counts_at_all_until_its_end() {
    let mut cluster = Cluster::start(3);
    let cookie = log_in(&cluster, 0, "guest", "guest");
    let other = log_in(&cluster, 2, "guest", "guest");
    for at in 0..3 {
        assert_eq!((status(&cluster, at, &cookie), status(&cluster, at, &other)), (200, 200), "node {at}");
        let changed = format!("{}{}", &cookie[..10], &cookie[11..]);
        assert_eq!(status(&cluster, at, &changed), 401, "node {at}");
    }
    // A session changes things wherever it is used.
    let put = request(&cluster, 1, "PUT /api/queues/%2F/q", &cookie, "{\"durable\": true}");
    assert_eq!(put.0, 201);
    log_out(&cluster, 1, &cookie);
    assert_eq!(status(&cluster, 1, &cookie), 401);
    for at in [0, 2] {
        cluster.wait_until("the others know of its end", |cluster| status(cluster, at, &cookie) == 401);
        assert_eq!(status(&cluster, at, &other), 200, "node {at}");
    }
    // A node that starts anew learns of it from the others.
    cluster.nodes[1].kill();
    assert_eq!(status(&cluster, 0, &other), 200);
    cluster.nodes[1].restart();
    assert_eq!((status(&cluster, 1, &other), status(&cluster, 1, &cookie)), (200, 401));
}

#[test]
fn a_session_ends_everywhere_with_its_user_and_password() {
    let cluster = Cluster::start(3);
    let http = cluster.nodes[0].http();
    let put = |password: &str| {
        let body = json!({"password": password, "tags": "monitoring"});
        assert!(http.put("/api/users/me", &body).expect("an answer").status < 300);
    };
    put("first");
    let cookie = log_in(&cluster, 2, "me", "first");
    (0..3).for_each(|at| assert_eq!(status(&cluster, at, &cookie), 200, "node {at}"));
    put("second");
    let renewed = log_in(&cluster, 1, "me", "second");
    for at in 0..3 {
        cluster.wait_until("the old session has ended", |cluster| status(cluster, at, &cookie) == 401);
        assert_eq!(status(&cluster, at, &renewed), 200, "node {at}");
    }
    assert_eq!(http.delete("/api/users/me").expect("an answer").status, 204);
    put("second");
    for at in 0..3 {
        cluster.wait_until("another user of the name", |cluster| status(cluster, at, &renewed) == 401);
    }
}

#[test]
fn no_session_outlives_all_nodes() {
    let mut cluster = Cluster::start(2);
    let cookie = log_in(&cluster, 0, "guest", "guest");
    assert_eq!(status(&cluster, 1, &cookie), 200);
    cluster.nodes.iter_mut().for_each(|node| node.kill());
    let (one, other) = cluster.nodes.split_at_mut(1);
    std::thread::scope(|scope| {
        scope.spawn(|| one[0].restart());
        other[0].restart();
    });
    // It isn't known any more whether it was ended.
    assert_eq!((status(&cluster, 0, &cookie), status(&cluster, 1, &cookie)), (401, 401));
    let again = log_in(&cluster, 0, "guest", "guest");
    cluster.wait_until("a new one counts", |cluster| status(cluster, 1, &again) == 200);
}

/// A service that knows everybody as an administrator. It ends with the test.
fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let mut socket = BufReader::new(socket);
            let (mut line, mut length) = (String::new(), 0);
            while socket.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = socket.read_exact(&mut body);
            let answer = "allow administrator";
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
            // An asker that is gone needs no answer.
            let _ = socket.get_mut().write_all((head + answer).as_bytes());
        }
    });
    port
}

#[test]
fn a_login_of_another_backend_stays_with_its_node() {
    let port = service();
    let mut cluster = Cluster::start_with(3, |options| {
        let path = |options: Options, path| {
            options.set(&format!("auth_http.{path}_path"), format!("http://127.0.0.1:{port}/{path}"))
        };
        let options = options.set("auth_backends.1", "internal").set("auth_backends.2", "http");
        ["user", "vhost", "resource", "topic"].into_iter().fold(options, path)
    });
    let cookie = log_in(&cluster, 0, "somebody", "secret");
    (0..3).for_each(|at| assert_eq!(status(&cluster, at, &cookie), 200, "node {at}"));
    log_out(&cluster, 2, &cookie);
    (0..3).for_each(|at| assert_eq!(status(&cluster, at, &cookie), 401, "node {at}"));
    let cookie = log_in(&cluster, 1, "somebody", "secret");
    assert_eq!(status(&cluster, 2, &cookie), 200);
    cluster.nodes[1].kill();
    cluster.wait_until("nobody can be asked", |cluster| status(cluster, 2, &cookie) == 401);
}

#[test]
fn a_stream_at_another_node_ends_with_its_session() {
    let port = service();
    let cluster = Cluster::start_with(2, |options| {
        let path = |options: Options, path| {
            options.set(&format!("auth_http.{path}_path"), format!("http://127.0.0.1:{port}/{path}"))
        };
        let options = options.set("auth_backends.1", "internal").set("auth_backends.2", "http");
        ["user", "vhost", "resource", "topic"].into_iter().fold(options, path)
    });
    let cookie = log_in(&cluster, 0, "somebody", "secret");
    let authority = cluster.nodes[1].http().authority;
    let mut socket = TcpStream::connect(&authority).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(
        socket,
        "GET /api/watch?path=/api/vhosts HTTP/1.1\r\nhost: {authority}\r\ncookie: leveret_session={cookie}\r\n\r\n"
    )
    .expect("it is sent");
    let mut lines = BufReader::new(socket).lines().map(|line| line.expect("the stream goes on"));
    assert!(lines.any(|line| line.starts_with("data: ") && line.contains("/api/vhosts")));
    log_out(&cluster, 0, &cookie);
    assert!(lines.any(|line| line == "event: end"));
    assert!(lines.any(|line| line.starts_with("data: ") && line.contains("the session has ended")));
}
