//! The outputs that follow from `log.*` and RabbitMQ's variables.

use leveret_config::{Config, Levels, LogCategory, LogLevel, LogPlaces, Period, Target};

fn config(text: &str) -> Config {
    let mut config = Config::default();
    config.read("rabbitmq.conf", text).expect("is right");
    config
}

fn outputs_of(config: &Config, is_installed: bool) -> Vec<String> {
    let places = LogPlaces { directory: "/var/log/rabbitmq".into(), file: "rabbit@here.log".into(), is_installed };
    let show = |levels: &Levels| {
        let usual = levels.of(LogCategory::Default);
        let others = LogCategory::ALL.into_iter().filter(|category| levels.of(*category) != usual);
        let others = others.map(|category| format!(" {}={}", category.name(), levels.of(category).name()));
        format!("{}{}", usual.name(), others.collect::<String>())
    };
    let outputs = config.log.outputs(&places);
    let place = |target: &Target| match target {
        Target::Stdout { .. } => "stdout".to_owned(),
        Target::Stderr { .. } => "stderr".to_owned(),
        Target::File { path, .. } => path.clone(),
        Target::Syslog(server) => format!("syslog:{}:{}", server.host, server.port()),
        Target::Journald(_) => "journald".to_owned(),
        Target::Exchange => "exchange".to_owned(),
    };
    outputs.iter().map(|output| format!("{} {}", place(&output.target), show(&output.levels))).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(outputs_of(&config(text), true), expected, "{text}");
}

#[test]
fn an_output_is_on_if_it_or_its_level_is_named() {
    check("", &["/var/log/rabbitmq/rabbit@here.log info"]);
    assert_eq!(outputs_of(&config(""), false), ["stdout info"]);
    assert_eq!(outputs_of(&config("log.console = false\n"), false), [""; 0]);
    check("log.console = true\n", &["stdout info"]);
    check("log.console.level = debug\n", &["stdout debug"]);
    check("log.console.level = none\n", &["/var/log/rabbitmq/rabbit@here.log info"]);
    check("log.console = true\nlog.console.stdio = stderr\nlog.level = error\n", &["stderr error"]);
    check(
        "log.console = true\nlog.file.level = warning\n",
        &["stdout info", "/var/log/rabbitmq/rabbit@here.log warning"],
    );
    check("log.file = false\n", &[]);
    check("log.file = a.log\nlog.dir = /x/\nlog.default.level = critical\n", &["/x/a.log critical"]);
    check("log.file = /y/a.log\nlog.dir = /x\nlog.level = notice\n", &["/y/a.log warning"]);
    check("log.syslog = true\nlog.syslog.transport = tls\nlog.syslog.host = h\n", &["syslog:h:6514 info"]);
    check("log.journald.level = info\nlog.syslog.level = none\n", &["journald info"]);
    check("log.exchange = true\n", &["/var/log/rabbitmq/rabbit@here.log info", "exchange info"]);
    check("log.console = true\nlog.exchange.level = error\n", &["stdout info", "exchange error"]);
}

#[test]
fn a_category_has_a_level_in_every_output_or_a_file_of_its_own() {
    check(
        "log.console = true\nlog.console.level = error\nlog.connection.level = debug\nlog.queue.level = none\n",
        &["stdout error connection=debug queue=none"],
    );
    check(
        "log.console = true\nlog.user.file = user.log\nlog.user.level = debug\n",
        &["stdout info user=none", "/var/log/rabbitmq/user.log none user=debug"],
    );
    check(
        "log.console = true\nlog.file = all.log\nlog.user.file = all.log\n",
        &["stdout info user=none", "/var/log/rabbitmq/all.log info"],
    );
    let mistake = Config::default().set("log.connections.level=debug").expect_err("no category").text;
    assert!(mistake.contains("'connections' is no category of lines"), "{mistake}");
}

#[test]
fn variables_of_rabbitmq_win() {
    let with = |text: &str, variables: &[(&str, &str)]| {
        let mut config = config(text);
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let warnings = config.read_environment(variables).expect("are right");
        let mut told = outputs_of(&config, true);
        told.extend(warnings.iter().map(|warning| warning.text.clone()));
        told
    };
    assert_eq!(with("log.file = x.log\nlog.console.level = debug\n", &[("RABBITMQ_LOGS", "-")]), ["stdout debug"]);
    assert_eq!(with("", &[("RABBITMQ_LOGS", "-stderr")]), ["stderr info"]);
    assert_eq!(
        with("log.console = true\n", &[("RABBITMQ_LOGS", "b.log"), ("RABBITMQ_LOG_BASE", "/logs")]),
        ["/logs/b.log info"]
    );
    assert_eq!(
        with("log.console = true\n", &[("RABBITMQ_LOG", "error,connection=debug,+json,-color")]),
        ["stdout error connection=debug"]
    );
    let exchange = with("", &[("RABBITMQ_LOGS", "exchange:x")]);
    assert_eq!(exchange[1], "RABBITMQ_LOGS=exchange:x isn't built yet and has no effect");
    let wrong = Config::default().read_environment([("RABBITMQ_LOG".to_owned(), "+sound".to_owned())]);
    assert!(wrong.expect_err("no switch")[0].text.contains("'+sound'"));
}

#[test]
fn other_keys_are_read_and_contradictions_are_refused() {
    let config = config(
        "log.file = a\nlog.file.rotation.size = 10MB\nlog.file.rotation.count = 7\nlog.file.rotation.date = $W1D3\n\
         log.file.rotation.compress = true\n",
    );
    let rotation = config.log.file.rotation;
    assert_eq!((rotation.size, rotation.count, rotation.compress), (Some(10_000_000), 7, true));
    assert_eq!(rotation.date.map(|date| (date.period, date.hour)), Some((Period::Week(1), 3)));
    assert_eq!(LogLevel::named("alert"), Some(LogLevel::Critical));
    for (text, said) in [
        ("log.syslog.transport = tls\nlog.syslog.protocol = rfc3164\n", "rfc3164 doesn't go with TLS"),
        ("log.syslog.protocol = rfc3164\nlog.syslog.transport = tls\n", "rfc3164 doesn't go with TLS"),
        ("log.syslog.ssl_options.verify = verify_none\n", "'verify_none' isn't safe"),
        ("log.syslog.facility = local8\n", "'local8' is no facility"),
        ("log.syslog.ip = here\n", "'here' is no address"),
        ("log.file.rotation.date = daily\n", "'daily' is no date of a rotation"),
        ("log.console.formatter = xml\n", "'xml' is neither plaintext nor json"),
        ("log.file.formatter.time_format = iso\n", "'iso' is none of rfc3339_space"),
    ] {
        let errors = Config::default().read("rabbitmq.conf", text).expect_err(text);
        assert!(errors[0].text.contains(said), "{errors:?}");
    }
}
