use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA512,
    RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leveret_config::{Config, OAuth2Settings};
use leveret_model::{Command, GrantQuestion, Grants, Identity, Model, Permit, Topology};
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "an-own-secret-of-40-bytes-for-both-sides";

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// A token, signed with [`SECRET`].
fn token_of(header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", encoded(signature))
}

fn token(claims: &Value) -> String {
    token_of(&json!({"alg": "HS256", "kid": "own", "typ": "JWT"}), claims)
}

fn claims() -> Value {
    json!({"aud": ["rabbitmq"], "sub": "robot", "exp": now_s() + 3600, "scope": "rabbitmq.read:*/* other.write:*/*"})
}

fn with(mut claims: Value, name: &str, value: impl Into<Value>) -> Value {
    claims[name] = value.into();
    claims
}

fn settings(text: &str) -> OAuth2Settings {
    let mut config = Config::default();
    config.read("file", text).expect("is right");
    config
        .backends
        .oauth2
        .provider
        .jwks
        .insert("own".to_owned(), json!({"kty": "oct", "k": encoded(SECRET)}).to_string());
    config.backends.oauth2
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

fn backend_of(settings: &OAuth2Settings) -> Result<OAuth2, String> {
    let no_tls = |_: &leveret_config::ClientTls| Err("no TLS here".to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    OAuth2::new(settings, &no_tls, runtime.handle())
}

fn backend(text: &str) -> OAuth2 {
    backend_of(&settings(&format!("auth_oauth2.resource_server_id = rabbitmq\n{text}"))).expect("is right")
}

fn check(backend: &OAuth2, token: &str) -> Result<Proof, String> {
    run(backend.check(token.as_bytes()))
}

fn topology() -> Topology {
    let mut model = Model::new();
    for vhost in ["/", "v-1"] {
        let vhost = Command::CreateVhost { name: vhost.into() };
        let _ = model.submit(Permit::system(), vhost).expect("is accepted");
    }
    model.topology().clone()
}

/// Whether the claims grant `right:VHOST|NAME[|KEY]`.
fn grants(backend: &OAuth2, claims: &Value, what: &str) -> bool {
    let proof = check(backend, &token(claims)).expect("is let in");
    let ProvenGrants::Scopes(scopes) = proof.grants else { panic!("no scopes") };
    let who = Identity::new("robot", Vec::new(), Grants::Scopes(scopes), "oauth2");
    let (right, place) = what.split_once(':').expect("a right");
    let parts: Vec<&str> = place.split('|').collect();
    let right = [leveret_model::Right::Configure, leveret_model::Right::Write, leveret_model::Right::Read]
        .into_iter()
        .find(|known| known.name() == right)
        .expect("a right");
    let question = match parts[..] {
        [vhost, name] => GrantQuestion::Resource { vhost: vhost.into(), is_queue: true, name: name.into(), right },
        _ => panic!("a queue"),
    };
    crate::direct::is_granted(&topology(), &who, &question)
}

#[test]
fn a_valid_token_names_the_user_and_its_end() {
    let backend = backend("");
    let ends_s = now_s() + 100;
    let proof = check(&backend, &token(&with(claims(), "exp", ends_s))).expect("is let in");
    assert_eq!((&*proof.name, proof.ends_ms), ("robot", Some(ends_s * 1000)));
    let named = with(claims(), "client_id", "program");
    assert_eq!(&*check(&backend, &token(&with(named.clone(), "sub", Value::Null))).expect("is let in").name, "program");
    let text = "auth_oauth2.preferred_username_claims.1 = email\nauth_oauth2.preferred_username_claims.2 = client_id";
    assert_eq!(&*check(&self::backend(text), &token(&named)).expect("is let in").name, "program");
}

#[test]
fn every_mistake_is_named() {
    let backend = backend("auth_oauth2.issuer = https://issuer");
    let claims = with(claims(), "iss", "https://issuer");
    assert!(check(&backend, &token(&claims)).is_ok());
    for (wrong, reason) in [
        (with(claims.clone(), "exp", now_s() - 5), "the token ended at"),
        (with(claims.clone(), "exp", Value::Null), "the token has no end"),
        (with(claims.clone(), "exp", "soon"), "claim exp is no time"),
        (with(claims.clone(), "nbf", now_s() + 60), "the token begins at"),
        (with(claims.clone(), "aud", "other"), "audience 'other' doesn't name 'rabbitmq'"),
        (with(claims.clone(), "aud", Value::Null), "audience '' doesn't name 'rabbitmq'"),
        (with(claims.clone(), "iss", "https://other"), "issuer is 'https://other', not 'https://issuer'"),
        (with(claims.clone(), "iss", Value::Null), "issuer is ''"),
    ] {
        let error = check(&backend, &token(&wrong)).expect_err("is refused");
        assert!(error.contains(reason), "{error}");
    }
    assert!(check(&backend, &token(&with(claims, "nbf", now_s() + 20))).is_ok(), "30 s of other clocks");
}

#[test]
fn headers_are_taken_strictly() {
    let backend = backend("");
    for (header, reason) in [
        (json!({"alg": "none", "kid": "own"}), "the algorithm 'none'"),
        (json!({"kid": "own"}), "the algorithm ''"),
        (json!({"alg": "RS256", "kid": "own"}), "the algorithm RS256, its key is for HS256"),
        (json!({"alg": "HS384", "kid": "own"}), "algorithm HS384, its key is for HS256"),
        (json!({"alg": "HS256", "kid": "own", "crit": ["exp"]}), "crit"),
        (json!({"alg": "HS256", "kid": "own", "typ": "JWE"}), "a token of the type 'JWE'"),
        (json!({"alg": "HS256", "kid": 7}), "a kid that is no text"),
        (json!({"alg": "HS256", "kid": "none"}), "the key 'none' isn't known, only 'own'"),
        (json!({"alg": "HS256"}), "names no key, and auth_oauth2.default_key isn't set"),
    ] {
        let error = check(&backend, &token_of(&header, &claims())).expect_err("is refused");
        assert!(error.contains(reason), "{error}");
    }
    let taken = json!({"alg": "HS256", "typ": "at+JWT", "jku": "https://evil", "x5u": "https://evil"});
    assert!(check(&self::backend("auth_oauth2.default_key = own"), &token_of(&taken, &claims())).is_ok());
    let only = self::backend("auth_oauth2.algorithms.1 = RS256");
    assert!(check(&only, &token(&claims())).expect_err("is refused").contains("isn't in auth_oauth2.algorithms"));
}

#[test]
fn bytes_that_are_no_token_are_refused() {
    let backend = backend("");
    let right = token(&claims());
    for wrong in [
        "",
        "guest",
        "a.b",
        "a.b.c",
        "a.b.c.d.e",
        "\u{fc}",
        &right[..right.len() - 1],
        &format!("{right}A"),
        &right[1..],
    ] {
        assert!(check(&backend, wrong).is_err(), "{wrong}");
    }
    let mut other = right.clone().into_bytes();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    assert!(run(backend.check(&other)).is_err());
    let large = with(claims(), "extra", "x".repeat(TOKEN_BYTES_MAX));
    assert!(check(&backend, &token(&large)).expect_err("is refused").contains("the largest has 65536"));
}

#[test]
fn scopes_are_found_wherever_they_may_be() {
    let text = "auth_oauth2.additional_scopes_key = roles realm.access\n\
                auth_oauth2.resource_server_type = broker\n\
                auth_oauth2.scope_aliases.admin = rabbitmq.read:*/a rabbitmq.write:*/a\n\
                auth_oauth2.scope_aliases.1.alias = api://x\n\
                auth_oauth2.scope_aliases.1.scope = rabbitmq.read:*/b";
    let backend = backend(text);
    let bare = with(claims(), "scope", Value::Null);
    let detail = |locations: Value| {
        json!([{"type": "broker", "locations": locations, "actions": ["read", "administrator", "fly"]},
               {"type": "other", "locations": ["cluster:rabbitmq"], "actions": ["write"]}])
    };
    for (claims, granted, refused) in [
        (with(bare.clone(), "scope", "rabbitmq.read:*/q"), "read:/|q", "read:/|p"),
        (with(bare.clone(), "scope", json!(["rabbitmq.read:*/q"])), "read:v-1|q", "write:v-1|q"),
        (with(bare.clone(), "scope", "rabbitmq.read:%2F/q%2A"), "read:/|q*", "read:v-1|q*"),
        (with(bare.clone(), "scope", "rabbitmq.configure:v-*/*-x*"), "configure:v-1|a-xy", "configure:/|a-xy"),
        (with(bare.clone(), "scope", "rabbitmq.read:{vhost}/{sub}-*"), "read:/|robot-1", "read:/|other-1"),
        (with(bare.clone(), "scope", "rabbitmq.read:*/{vhost}-q"), "read:v-1|v-1-q", "read:v-1|/-q"),
        (with(with(bare.clone(), "scope", "rabbitmq.read:*/{team}"), "team", "a/*"), "read:/|a/*", "read:/|a/b"),
        (with(bare.clone(), "roles", "rabbitmq.read:*/q x"), "read:/|q", "write:/|q"),
        (
            with(bare.clone(), "realm", json!({"access": {"rabbitmq": ["read:*/q"], "x": ["write:*/q"]}})),
            "read:/|q",
            "write:/|q",
        ),
        (with(bare.clone(), "realm", json!([{"access": ["rabbitmq.read:*/q"]}, 7])), "read:/|q", "write:/|q"),
        (
            with(bare.clone(), "authorization", json!({"permissions": [{"scopes": ["rabbitmq.read:*/q"]}, {}]})),
            "read:/|q",
            "write:/|q",
        ),
        (with(bare.clone(), "scope", "admin"), "write:/|a", "write:/|b"),
        (with(bare.clone(), "scope", "api://x"), "read:/|b", "read:/|a"),
        (
            with(bare.clone(), "authorization_details", detail(json!(["cluster:rabbit*/vhost:v-1/queue:q"]))),
            "read:v-1|q",
            "read:/|q",
        ),
        (with(bare.clone(), "authorization_details", detail(json!("cluster:rabbitmq"))), "read:/|q", "write:/|q"),
    ] {
        assert!(grants(&backend, &claims, granted), "{granted} of {claims}");
        assert!(!grants(&backend, &claims, refused), "{refused} of {claims}");
    }
    let other = with(bare.clone(), "authorization_details", detail(json!(["cluster:x"])));
    assert!(!grants(&backend, &other, "read:/|q"));
    let tags = |claims: &Value| check(&backend, &token(claims)).expect("is let in").tags.clone();
    assert_eq!(
        tags(&with(bare.clone(), "scope", "rabbitmq.tag:administrator tag:monitoring")),
        ["administrator".into()]
    );
    assert_eq!(
        tags(&with(bare.clone(), "authorization_details", detail(json!("cluster:*")))),
        ["administrator".into()]
    );
    let many: Vec<String> = (0..2_049).map(|number| format!("rabbitmq.read:*/{number}")).collect();
    let error = check(&backend, &token(&with(bare, "scope", json!(many)))).expect_err("is refused");
    assert!(error.contains("has 2049 scopes, the most are 2048"), "{error}");
}

#[test]
fn the_prefix_may_be_another_one_or_empty() {
    let empty = backend("auth_oauth2.scope_prefix = ''");
    assert!(grants(&empty, &with(claims(), "scope", "read:*/q"), "read:/|q"));
    let api = backend("auth_oauth2.scope_prefix = api://");
    assert!(grants(&api, &with(claims(), "scope", "api://read:*/q rabbitmq.write:*/q"), "read:/|q"));
    assert!(!grants(&api, &with(claims(), "scope", "api://read:*/q rabbitmq.write:*/q"), "write:/|q"));
}

#[test]
fn the_audience_chooses_between_servers() {
    let servers = settings(
        "auth_oauth2.resource_servers.a.id = rabbit-a\n\
         auth_oauth2.resource_servers.b.scope_prefix = x.\n\
         auth_oauth2.resource_servers.b.verify_aud = false",
    );
    let backend = backend_of(&servers).expect("is right");
    let scope = with(claims(), "scope", "rabbit-a.read:*/a x.read:*/b");
    assert!(grants(&backend, &with(scope.clone(), "aud", "rabbit-a other"), "read:/|a"));
    for audience in [json!(["b"]), json!("neither"), Value::Null] {
        assert!(grants(&backend, &with(scope.clone(), "aud", audience), "read:/|b"));
    }
    let both = check(&backend, &token(&with(scope, "aud", json!(["rabbit-a", "b"]))));
    assert!(both.expect_err("is refused").contains("several resource servers"));
    assert!(backend_of(&OAuth2Settings::default()).is_err_and(|error| error.contains("resource_server_id isn't set")));
    let mut none = servers;
    none.provider.jwks.clear();
    assert!(backend_of(&none).is_err_and(|error| error.contains("has no keys")));
}

#[test]
fn a_renewal_is_of_the_same_user() {
    let backend = backend("");
    let renew = |claims: &Value| run(backend.renew("robot", token(claims).as_bytes()));
    assert!(renew(&claims()).is_ok());
    let refused = |outcome: Result<Proof, NotRenewed>| outcome.expect_err("is refused").text();
    const REFUSED: &str = "New secret was refused by one of the backends";
    assert_eq!(refused(renew(&with(claims(), "sub", "other"))), REFUSED);
    assert_eq!(refused(renew(&with(claims(), "exp", now_s() - 1))), REFUSED);
    assert_eq!(refused(run(backend.renew("robot", b"garbage"))), "Secret update failed");
}

#[test]
fn keys_of_every_kind_verify_their_signatures() {
    let directory = tempfile::tempdir().expect("a directory");
    let random = SystemRandom::new();
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let curve = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let edwards = Ed25519KeyPair::generate().expect("a key");
    let point = curve.public_key().as_ref();
    let jwk_curve = json!({"kty": "EC", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..])});
    let jwk_edwards = json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(edwards.public_key())});
    let public: &[u8] = rsa.public_key().as_ref();
    let lines: Vec<String> = base64::engine::general_purpose::STANDARD
        .encode(public)
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let pem = format!("-----BEGIN RSA PUBLIC KEY-----\n{}\n-----END RSA PUBLIC KEY-----\n", lines.join("\n"));
    // A sequence of two integers: 256 bytes behind a zero, and 65537.
    let (modulus, exponent) = (&public[9..265], [1, 0, 1]);
    let jwk_rsa = json!({"kty": "RSA", "n": encoded(modulus), "e": encoded(exponent), "use": "sig", "alg": "RS256"});
    let mut text = "auth_oauth2.resource_server_id = rabbitmq\n".to_owned();
    for (name, contents) in [
        ("pem", pem),
        ("rsa", jwk_rsa.to_string()),
        ("curve", jwk_curve.to_string()),
        ("edwards", jwk_edwards.to_string()),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, contents).expect("is written");
        text.push_str(&format!("auth_oauth2.signing_keys.{name} = {}\n", file.display()));
    }
    let backend = backend_of(&settings(&text)).expect("is right");
    let signed = |kid: &str, algorithm: &str| {
        let header = json!({"alg": algorithm, "kid": kid});
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims().to_string()));
        let message = signed.as_bytes();
        let mut signature = vec![0; rsa.public_modulus_len()];
        let signature = match algorithm {
            "RS256" => rsa.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map(|()| signature),
            "PS512" => rsa.sign(&RSA_PSS_SHA512, &random, message, &mut signature).map(|()| signature),
            "ES256" => curve.sign(&random, message).map(|signature| signature.as_ref().to_vec()),
            _ => Ok(edwards.sign(message).as_ref().to_vec()),
        };
        format!("{signed}.{}", encoded(signature.expect("is signed")))
    };
    for (kid, algorithm) in
        [("pem", "RS256"), ("pem", "PS512"), ("rsa", "RS256"), ("curve", "ES256"), ("edwards", "EdDSA")]
    {
        assert!(check(&backend, &signed(kid, algorithm)).is_ok(), "{kid} {algorithm}");
    }
    for (kid, algorithm) in [("rsa", "PS512"), ("curve", "RS256"), ("edwards", "ES256"), ("pem", "EdDSA")] {
        assert!(check(&backend, &signed(kid, algorithm)).is_err(), "{kid} {algorithm}");
    }
    // The rate on one processor.
    let token = signed("pem", "RS256");
    let before = std::time::Instant::now();
    for _ in 0..2_000 {
        assert!(check_now(&backend, &token));
    }
    println!("{:.0} checks of tokens (RS256, 2048 bits) per second", 2_000.0 / before.elapsed().as_secs_f64());
}

/// Whether a token is accepted at once, as on a core.
fn check_now(backend: &OAuth2, token: &str) -> bool {
    let mut work = std::pin::pin!(backend.check(token.as_bytes()));
    let polled = work.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    matches!(polled, std::task::Poll::Ready(Ok(_)))
}

#[test]
fn keys_that_would_let_anybody_sign_are_refused() {
    let of =
        |jwk: Value, is_own| key::Key::of_jwk(jwk.as_object().expect("an object"), is_own).err().unwrap_or_default();
    assert!(of(json!({"kty": "oct", "k": encoded(SECRET)}), false).contains("a secret in a public document"));
    assert!(of(json!({"kty": "oct", "k": encoded("-----BEGIN PUBLIC KEY-----\nAAAA")}), true).contains("PEM"));
    assert!(of(json!({"kty": "oct", "k": encoded("short")}), true).contains("the shortest has 32"));
    assert!(of(json!({"kty": "RSA", "n": encoded([255_u8; 64]), "e": "AQAB"}), true).len() > 3, "512 bits");
    assert!(of(json!({"kty": "RSA", "use": "enc"}), true).contains("isn't for signatures"));
    let private = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB\n-----END PRIVATE KEY-----\n";
    assert!(key::Key::of_file(private.as_bytes()).err().unwrap_or_default().contains("private key"));
}
