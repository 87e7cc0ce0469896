//! Tokens over all protocols: logins, grants, ends and renewals; keys of a provider that fails.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leveret_amqp10::OwnedValue;
use leveret_strict_client::amqp10::{ManagementRequest, Response as ManagementResponse};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::{Node, Options, new_directory};
use leveret_tests::tls::Authority;
use leveret_tests::wire::{Wire, Writer, method_frame, publish};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::service::{Service, ServiceReply};
use crate::stage::{amqp10, amqp091, mqtt, options, refused_declare, stream};

/// All that a program needs.
const ALL: &str = "rabbitmq.configure:*/* rabbitmq.write:*/*/* rabbitmq.read:*/*/*";

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// A key with its id.
struct Signer {
    kid: &'static str,
    pair: EcdsaKeyPair,
}

impl Signer {
    fn new(kid: &'static str) -> Arc<Self> {
        Arc::new(Self { kid, pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key") })
    }

    fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let part = |at: usize| URL_SAFE_NO_PAD.encode(&point[at..at + 32]);
        json!({"kid": self.kid, "kty": "EC", "crv": "P-256", "use": "sig", "x": part(1), "y": part(33)})
    }

    fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.kid, "typ": "JWT"}).to_string();
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("is signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// A token of `robot` with these scopes, which ends in so many seconds.
    fn token(&self, scopes: &str, seconds: u64) -> String {
        self.token_of("robot", scopes, seconds)
    }

    fn token_of(&self, user: &str, scopes: &str, seconds: u64) -> String {
        self.sign(&json!({"sub": user, "aud": "rabbitmq", "exp": now_s() + seconds, "scope": scopes}))
    }
}

/// Options of a node that knows a key by a file.
fn with_key(directory: &TempDir, signer: &Signer) -> Options {
    let file = directory.path().join("key.json");
    std::fs::write(&file, signer.jwk().to_string()).expect("is written");
    options()
        .set("auth_backends.1", "oauth2")
        .set("auth_backends.2", "internal")
        .set("auth_oauth2.resource_server_id", "rabbitmq")
        .set(&format!("auth_oauth2.signing_keys.{}", signer.kid), file.display())
}

fn declare(wire: &mut Wire, channel: u16, queue: &str) {
    wire.declare(channel, queue, false);
}

#[test]
fn a_token_is_a_password_in_every_protocol() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let mut node = Node::start(with_key(&directory, &signer));
    let token = signer.token(&format!("{ALL} rabbitmq.tag:management"), 60);
    let mut wire = amqp091(node.amqp(), "any name", &token).expect("is let in");
    declare(&mut wire, 1, "q");
    wire.close();
    amqp10(node.amqp(), "", &token).expect("is let in").close();
    stream(&node, "x", &token).expect("is let in").create("s");
    let mut client = mqtt(&node, "c", "x", &token).expect("is let in");
    client.subscribe_to("a/b", leveret_mqtt::QoS::AtLeastOnce);
    client.publish_once("a/b", b"hello");
    assert_eq!(client.receive().payload, b"hello");
    let whoami = node.http().as_user("x", &token).get("/api/whoami").expect("an answer");
    assert_eq!((whoami.status, &whoami.json()["name"]), (200, &json!("robot")));
    let queues = node.http().as_user("x", &token).get("/api/queues").expect("an answer");
    assert!(queues.status == 200 && queues.json().to_string().contains("\"q\""));
    let without = signer.token(ALL, 60);
    assert_eq!(node.http().as_user("x", &without).get("/api/whoami").expect("an answer").status, 401, "has no tag");
    amqp091(node.amqp(), "guest", "guest").expect("the next backend").close();
    let wrong = Signer::new("k1").token(ALL, 60);
    assert!(amqp091(node.amqp(), "robot", &wrong).is_err() && amqp10(node.amqp(), "robot", &wrong).is_none());
    assert!(stream(&node, "robot", &wrong).is_err() && mqtt(&node, "d", "robot", &wrong).is_none());
    assert!(node.wait_for_line("backend oauth2: the token's signature is wrong"));
    let log = node.log();
    assert!(!log.contains(token.rsplit('.').next().expect("a signature")), "no token is in the log");
}

#[test]
fn a_bearer_token_logs_in_over_http() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let node = Node::start(with_key(&directory, &signer));
    let token = signer.token("rabbitmq.tag:administrator", 60);
    assert_eq!(bearer(&node, &token), 200);
    assert_eq!(bearer(&node, &format!("{token}x")), 401);
}

/// The status of a request with `Authorization: Bearer`.
fn bearer(node: &Node, token: &str) -> u16 {
    use std::io::{Read, Write};
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", node.ports().http)).expect("connect");
    let request = format!(
        "GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).expect("is sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

#[test]
fn scopes_decide_what_is_allowed() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let node = Node::start(with_key(&directory, &signer));
    let scopes = "rabbitmq.configure:%2F/mine-* rabbitmq.write:*/amq.topic/a.* rabbitmq.write:*/amq.default";
    let mut wire = amqp091(node.amqp(), "", &signer.token(scopes, 60)).expect("is let in");
    declare(&mut wire, 1, "mine-1");
    assert_eq!(
        refused_declare(&mut wire, 1, "other"),
        (403, "ACCESS_REFUSED - configure access to queue 'other' in vhost '/' refused for user 'robot'".to_owned())
    );
    let mut wire = amqp091(node.amqp(), "", &signer.token(scopes, 60)).expect("is let in");
    wire.send(&publish(1, "amq.topic", "a.b", b"x", false, false));
    declare(&mut wire, 1, "mine-2");
    wire.send(&publish(1, "amq.topic", "b.b", b"x", false, false));
    let refused = wire.next_frame().expect("a frame").reason().expect("a reason");
    assert!(
        refused.1.starts_with("ACCESS_REFUSED - write access to topic 'b.b' in exchange 'amq.topic'"),
        "{refused:?}"
    );
    assert!(amqp091(node.amqp(), "", &signer.token("rabbitmq.read:elsewhere/*", 60)).is_err(), "enters no vhost");
}

#[test]
fn a_token_of_64_kb_logs_in() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let mut node = Node::start(with_key(&directory, &signer));
    let large = |bytes: usize| {
        let claims =
            json!({"sub": "robot", "aud": "rabbitmq", "exp": now_s() + 60, "scope": ALL, "pad": "x".repeat(bytes)});
        signer.sign(&claims)
    };
    let fits = large(48_500);
    assert!(fits.len() > 64_000 && fits.len() <= 65_536, "{}", fits.len());
    amqp091(node.amqp(), "", &fits).expect("is let in").close();
    amqp10(node.amqp(), "", &fits).expect("is let in").close();
    assert!(stream(&node, "", &fits).is_ok());
    assert!(amqp091(node.amqp(), "", &large(50_000)).is_err());
    assert!(node.wait_for_line("the largest has 65536"));
}

#[test]
fn a_connection_ends_with_its_token() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let node = Node::start(with_key(&directory, &signer));
    let token = signer.token(ALL, 3);
    let mut wire = amqp091(node.amqp(), "", &token).expect("is let in");
    let mut client = amqp10(node.amqp(), "", &token).expect("is let in");
    let mut streams = stream(&node, "", &token).expect("is let in");
    let mut packets = mqtt(&node, "c", "", &token).expect("is let in");
    let before = Instant::now();
    assert_eq!(wire.until_closed(), Some((320, "CONNECTION_FORCED - credential expired".to_owned())));
    let error = client.error();
    assert_eq!((&*error.condition, &*error.description), ("amqp:unauthorized-access", "credential expired"));
    streams.until_closed();
    packets.disconnected();
    assert!(before.elapsed() < Duration::from_millis(4500), "{:?}", before.elapsed());
    assert!(amqp091(node.amqp(), "", &token).is_err());
}

fn update_secret(wire: &mut Wire, secret: &str) {
    let mut arguments = Writer::new();
    arguments.put_long_string(secret.as_bytes()).put_short_string("renewed");
    wire.send(&method_frame(0, (10, 70), &arguments));
}

#[test]
fn a_new_token_goes_on_over_amqp_0_9_1() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let mut node = Node::start(with_key(&directory, &signer));
    let mut wire = amqp091(node.amqp(), "", &signer.token(ALL, 3)).expect("is let in");
    declare(&mut wire, 1, "kept");
    declare(&mut wire, 1, "lost");
    wire.consume(1, "kept", true);
    wire.open_channel(2);
    wire.consume(2, "lost", true);
    update_secret(&mut wire, &signer.token("rabbitmq.configure:*/* rabbitmq.read:*/kept", 60));
    assert!(wire.next_method((10, 71)).is_ok());
    assert_eq!(wire.next_frame().expect("a frame").method(), Some((60, 30)), "the consumer of 'lost' is cancelled");
    std::thread::sleep(Duration::from_secs(4));
    declare(&mut wire, 1, "after the first token's end");
    for (secret, text) in [
        (signer.token_of("other", ALL, 60), "NOT_ALLOWED - New secret was refused by one of the backends"),
        (signer.token(ALL, 0), "NOT_ALLOWED - New secret was refused by one of the backends"),
        ("garbage".to_owned(), "NOT_ALLOWED - Secret update failed"),
        (signer.token("rabbitmq.read:x/*", 60), "NOT_ALLOWED - access to vhost '/' refused for user 'robot'"),
    ] {
        let mut wire = amqp091(node.amqp(), "", &signer.token(ALL, 60)).expect("is let in");
        update_secret(&mut wire, &secret);
        assert_eq!(wire.until_closed(), Some((530, text.to_owned())));
    }
    assert!(node.wait_for_line("secret update was refused for user 'robot': the token is of the user 'other'"));
}

fn renew(client: &mut Amqp10, token: &str) -> u16 {
    let body = OwnedValue::Binary(token.as_bytes().to_vec());
    let request = ManagementRequest { id: 1, method: "PUT", path: "/auth/tokens", body: &body };
    client.client.request(0, 7, &request).expect("there is credit");
    client.flush();
    let response = client.receive(8);
    ManagementResponse::parse(&response.bytes).expect("a response").status
}

#[test]
fn a_new_token_goes_on_over_amqp_1_0() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let node = Node::start(with_key(&directory, &signer));
    let connect = |seconds| {
        let mut client = amqp10(node.amqp(), "", &signer.token(ALL, seconds)).expect("is let in");
        client.begin(0, leveret_strict_client::amqp10::SessionOptions::default());
        client.client.attach_management(0, 7);
        client.flush();
        client.wait_credit(0, 7);
        client
    };
    let mut client = connect(3);
    assert_eq!(renew(&mut client, &signer.token(ALL, 60)), 204);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(renew(&mut client, &signer.token(ALL, 60)), 204, "after the first token's end");
    for secret in [signer.token_of("other", ALL, 60), signer.token(ALL, 0), "garbage".to_owned()] {
        let mut client = connect(60);
        renew(&mut client, &secret);
        assert_eq!(client.error().condition, "amqp:unauthorized-access");
    }
}

#[test]
fn a_new_token_goes_on_over_the_stream_protocol() {
    let (directory, signer) = (new_directory(), Signer::new("k1"));
    let node = Node::start(with_key(&directory, &signer));
    let mut client = stream(&node, "", &signer.token(ALL, 3)).expect("is let in");
    let again = |client: &mut leveret_tests::stream::StreamClient, token: &str| {
        let response = format!("\0\0{token}");
        client.call(
            |out, correlation| {
                leveret_stream_protocol::client::request::sasl_authenticate(
                    out,
                    correlation,
                    "PLAIN",
                    response.as_bytes(),
                );
            },
            |answer| match answer {
                leveret_stream_protocol::client::ServerCommand::SaslAuthenticated { code, .. } => code,
                other => panic!("{other:?}"),
            },
        )
    };
    assert_eq!(again(&mut client, &signer.token(ALL, 60)), 1);
    std::thread::sleep(Duration::from_secs(4));
    client.create("s");
    assert_ne!(again(&mut client, &signer.token_of("other", ALL, 60)), 1);
}

/// A provider over HTTPS, and the options of a node that asks it.
struct ProviderStage {
    service: Service,
    authority: Authority,
    directory: TempDir,
}

impl ProviderStage {
    fn new(signer: &Signer) -> Self {
        let authority = Authority::new("authority");
        let service = Service::start_tls(&authority.issue("provider", 2099), |_| ServiceReply::Status(404, ""));
        let this = Self { service, authority, directory: new_directory() };
        this.publish(&[signer.jwk()]);
        this
    }

    fn publish(&self, keys: &[Value]) {
        let (keys, port) = (json!({"keys": keys}).to_string(), self.service.port);
        self.service.answer(move |asked| match &*asked.path {
            "/realm/.well-known/openid-configuration" => ServiceReply::Body(
                json!({"issuer": format!("https://localhost:{port}/realm"), "jwks_uri": format!("https://localhost:{port}/keys")})
                    .to_string(),
            ),
            "/keys" => ServiceReply::Body(keys.clone()),
            _ => ServiceReply::Status(404, ""),
        });
    }

    fn roots(&self) -> PathBuf {
        let roots = self.directory.path().join("roots.pem");
        std::fs::write(&roots, self.authority.pem()).expect("is written");
        roots
    }

    fn options(&self) -> Options {
        options()
            .set("auth_backends.1", "oauth2")
            .set("auth_oauth2.resource_server_id", "rabbitmq")
            .set("auth_oauth2.https.cacertfile", self.roots().display())
    }

    fn by_uri(&self) -> Options {
        self.options().set("auth_oauth2.jwks_uri", format!("https://localhost:{}/keys", self.service.port))
    }
}

#[test]
fn keys_are_fetched_once_and_survive_a_provider_that_is_down() {
    let signer = Signer::new("k1");
    let stage = ProviderStage::new(&signer);
    let mut node = Node::start(stage.by_uri());
    assert_eq!(stage.service.asked().len(), 0, "nothing is fetched before it is needed");
    let logins: Vec<_> = (0..20)
        .map(|_| {
            let (address, token) = (node.amqp(), signer.token(ALL, 60));
            std::thread::spawn(move || amqp091(address, "", &token).is_ok())
        })
        .collect();
    assert!(logins.into_iter().all(|login| login.join().expect("no panic")));
    assert_eq!(stage.service.count("/keys"), 1, "all share one request");
    stage.service.answer(|_| ServiceReply::Status(500, "down"));
    amqp091(node.amqp(), "", &signer.token(ALL, 60)).expect("its key is known").close();
    let other = Signer::new("k2");
    for _ in 0..5 {
        assert!(amqp091(node.amqp(), "", &other.token(ALL, 60)).is_err());
    }
    assert_eq!(stage.service.count("/keys"), 1, "not asked again within 10 s");
    assert!(node.wait_for_line("the key 'k2' isn't known, only 'k1'"));
    stage.publish(&[other.jwk()]);
    std::thread::sleep(Duration::from_secs(10));
    amqp091(node.amqp(), "", &other.token(ALL, 60)).expect("it is fetched now").close();
    assert!(amqp091(node.amqp(), "", &signer.token(ALL, 60)).is_err(), "keys are replaced as a whole");
}

#[test]
fn the_issuer_says_where_its_keys_are() {
    let signer = Signer::new("k1");
    let stage = ProviderStage::new(&signer);
    let issuer = format!("https://localhost:{}/realm", stage.service.port);
    let node = Node::start(stage.options().set("auth_oauth2.issuer", &issuer));
    let token = |issuer: &str| {
        signer.sign(&json!({"sub": "robot", "aud": "rabbitmq", "exp": now_s() + 60, "scope": ALL, "iss": issuer}))
    };
    amqp091(node.amqp(), "", &token(&issuer)).expect("is let in").close();
    assert!(amqp091(node.amqp(), "", &token("https://other")).is_err());
    assert_eq!((stage.service.count("/realm/.well-known/openid-configuration"), stage.service.count("/keys")), (1, 1));
}

#[test]
fn a_provider_that_misbehaves_is_named_in_the_log() {
    let signer = Signer::new("k1");
    let stage = ProviderStage::new(&signer);
    type Reply = fn() -> ServiceReply;
    let cases: [(Reply, &str); 6] = [
        (|| ServiceReply::Status(302, ""), "status 302"),
        (|| ServiceReply::Text("<html>"), "no JSON object"),
        (|| ServiceReply::Text("{}"), "it has no keys"),
        (|| ServiceReply::Cut, "the answer was cut"),
        (|| ServiceReply::Body(format!("{{\"keys\": [\"{}\"]}}", "x".repeat(1 << 20))), "too long"),
        (|| ServiceReply::Silence, "hasn't answered within 5s"),
    ];
    for (reply, text) in cases {
        stage.service.answer(move |_| reply());
        let mut node = Node::start(stage.by_uri());
        let before = Instant::now();
        assert!(amqp091(node.amqp(), "", &signer.token(ALL, 60)).is_err(), "{text}");
        assert!(before.elapsed() < Duration::from_secs(8), "{text}");
        assert!(node.wait_for_line(text), "{text}");
    }
    stage.publish(&[signer.jwk()]);
    let mut node = Node::start(stage.by_uri().without("auth_oauth2.https.cacertfile"));
    assert!(amqp091(node.amqp(), "", &signer.token(ALL, 60)).is_err(), "nobody vouches for it");
    assert!(node.wait_for_line("cannot fetch the keys of tokens"));
}
