use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::wire::{Login, PROTOCOL_HEADER, Tuning, Wire, method};
use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("list connections", list),
    ("connections list", list),
    ("connections list_of_user", list_of_user),
    ("list user_connections", list_of_user),
    ("users connections", list_of_user),
    ("channels list", list_channels),
    ("list channels", list_channels),
    ("list consumers", list_consumers),
    ("close connection", close),
    ("connections close", close),
    ("close user_connections", close_of_user),
    ("connections close_of_user", close_of_user),
];

/// A connection with channel 1 open, of a user with the command's name; also returns the connection's name.
fn open(admin: &Admin, command: &str) -> (Wire, String, String) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": ""}));
    admin.put(&format!("permissions/%2F/{user}"), json!({"configure": ".*", "read": ".*", "write": ".*"}));
    let mut wire = Wire::connect(admin.broker.amqp());
    wire.send(PROTOCOL_HEADER);
    let _ = wire.next_method(method::CONNECTION_START).expect("connection.start");
    let login = Login { user: &user, password: "secret", ..Login::default() };
    wire.log_in(Tuning { frame_max: 0, heartbeat: 0 }, &login).expect("connection.open-ok");
    wire.open_channel(1);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let open = admin.get(&format!("connections/username/{user}"));
        if let Some(name) = open[0]["name"].as_str() {
            return (wire, user, name.to_owned());
        }
        assert!(Instant::now() < deadline, "the connection isn't shown");
        // Its visibility can only be polled.
        thread::sleep(Duration::from_millis(10));
    }
}

fn list(admin: &Admin, command: &str) {
    let (wire, user, _) = open(admin, command);
    let port = wire.socket.local_addr().expect("an address").port().to_string();
    admin.lists(command, "", &[&user, "running", "0-9-1", &port]);
    admin.lists(command, "--page 1 --page-size 500", &[&user, "running"]);
    wire.close();
}

fn list_of_user(admin: &Admin, command: &str) {
    let (wire, user, _) = open(admin, command);
    let rows = admin.rows(command, &format!("--username {user}"));
    let port = wire.socket.local_addr().expect("an address").port().to_string();
    assert!(rows.len() == 1 && rows[0].contains(&user) && rows[0].iter().any(|word| word.contains(&port)), "{rows:?}");
    assert_eq!(admin.rows(command, "--username guest"), Vec::<Vec<String>>::new());
    wire.close();
}

fn list_channels(admin: &Admin, command: &str) {
    let (mut wire, _, connection) = open(admin, command);
    wire.confirm_select(1);
    wire.prefetch(1, 17);
    let first = connection.split(' ').next().expect("an address").to_owned();
    admin.lists(command, "", &[&first, "(1)", "/", "true"]);
    admin.lists(command, "--page 1 --page-size 500", &[&first, "(1)"]);
    wire.close();
}

fn list_consumers(admin: &Admin, command: &str) {
    let (mut wire, _, _) = open(admin, command);
    let queue = name(command);
    wire.declare(1, &queue, true);
    wire.prefetch(1, 23);
    wire.consume(1, &queue, false);
    admin.lists(command, "", &["/", &queue, "true", "23"]);
    wire.close();
}

fn close(admin: &Admin, command: &str) {
    let (mut wire, user, connection) = open(admin, command);
    let (host, port) = admin.http.authority.rsplit_once(':').expect("host:port");
    // Its name contains spaces.
    let (broker, name) = (["--host", host, "--port", port], ["--name", &connection]);
    admin.with(&broker, command, &name).unwrap_or_else(|error| panic!("{command}: {error}"));
    let (code, text) = wire.until_closed().expect("connection.close");
    assert!(code == 320 && text.contains("closed via rabbitmqadmin v2"), "{code} {text}");
    drop(wire);
    admin.fails(command, "--name nothing", "404");
    admin.run(command, "--name nothing --idempotently");
    gone(admin, &user);
}

fn close_of_user(admin: &Admin, command: &str) {
    let (mut wire, user, _) = open(admin, command);
    let (other, of_other, _) = open(admin, &format!("{command} other"));
    admin.run(command, &format!("--username {user}"));
    let (code, text) = wire.until_closed().expect("connection.close");
    assert!(code == 320 && text.contains("closed via rabbitmqadmin v2"), "{code} {text}");
    drop(wire);
    gone(admin, &user);
    assert_eq!(admin.get(&format!("connections/username/{of_other}")).as_array().map(Vec::len), Some(1));
    other.close();
    // It is no error if the user has no connection.
    admin.run(command, &format!("--username {user}"));
}

/// Waits until a user has no connection.
fn gone(admin: &Admin, user: &str) {
    let deadline = Instant::now() + PATIENCE;
    while admin.get(&format!("connections/username/{user}")) != json!([]) {
        assert!(Instant::now() < deadline, "the connection is still shown");
        thread::sleep(Duration::from_millis(10));
    }
}
