//! A run only counts if every message arrived once, in order and unchanged: tested against a broker that fails on
//! demand.

mod support;

use clap::Parser;
use leveret_bench::{BenchArgs, measure};
use support::{FakeBroker, Fault};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

fn run(scenario: &str, messages: u64, size: u32, fault: Fault) -> Result<(), String> {
    let (address, join): (_, Box<dyn FnOnce()>) = if scenario.ends_with("amqp10") {
        let broker = support::amqp10::FakeBroker::start(fault);
        (broker.address, Box::new(|| broker.join()))
    } else {
        let broker = FakeBroker::start(fault);
        (broker.address, Box::new(|| broker.join()))
    };
    let uri = format!("amqp://{address}");
    let (messages, size) = (messages.to_string(), size.to_string());
    let line = ["bench", scenario, "--uri", &uri, "--messages", &messages, "--size", &size, "--silence-max-s", "1"];
    let result = measure(&Cli::parse_from(line).bench).map_err(|error| error.to_string());
    join();
    result
}

#[test]
fn every_scenario_passes_on_a_broker_that_works() {
    for scenario in ["classic-amqp091", "classic-amqp091-3000", "memory", "classic-amqp10", "memory-amqp10"] {
        assert_eq!(run(scenario, 20_000, 12, Fault::None), Ok(()), "{scenario}");
    }
    assert_eq!(run("classic-amqp091", 300, 200_000, Fault::None), Ok(()), "bodies of two frames");
    assert_eq!(run("classic-amqp091", 1, 12, Fault::None), Ok(()), "one message");
}

#[test]
fn each_fault_voids_the_run_and_is_named() {
    for (fault, expected) in [
        (Fault::Lose(4_000), "of 5000 messages 1 lost; first: message 4001 arrived where 4000 was due"),
        (Fault::Lose(4_999), "of 5000 messages 1 lost"),
        (Fault::Duplicate(7), "of 5000 messages 1 duplicated; first: message 7 arrived a second time"),
        (Fault::Swap(7), "of 5000 messages 1 reordered; first: message 8 arrived where 7 was due"),
        (Fault::Corrupt(7), "1 lost, 1 changed; first: a message with another body than sent"),
    ] {
        for scenario in ["memory", "memory-amqp10"] {
            let error = run(scenario, 5_000, 12, fault).unwrap_err();
            assert!(error.starts_with("the run is void: ") && error.contains(expected), "{fault:?}: {error}");
        }
    }
}

#[test]
fn a_duplicate_after_the_last_message_is_found() {
    // Prefetch delays the copy until the original was acknowledged, when all messages have arrived.
    for scenario in ["classic-amqp091", "classic-amqp10"] {
        let error = run(scenario, 200, 12, Fault::Duplicate(199)).unwrap_err();
        assert_eq!(error, "the run is void: of 200 messages 1 duplicated: there were more after all had come");
    }
}

#[test]
fn refusals_and_broken_rules_void_the_run() {
    for (fault, expected) in [
        (Fault::Return(30), "returned a message with code 312"),
        (Fault::CloseChannel(30), "closed the channel: 406 PRECONDITION_FAILED - planted"),
        (Fault::ConfirmTwice, "a confirm covers only tags that were published and not confirmed yet"),
    ] {
        let error = run("classic-amqp091", 5_000, 12, fault).unwrap_err();
        assert!(error.contains(expected), "{fault:?}: {error}");
    }
}

#[test]
fn refusals_and_broken_rules_of_amqp_1_0_void_the_run_too() {
    for (fault, expected) in [
        (Fault::Return(30), "the broker answered message 30 with Some(Released)"),
        (Fault::CloseChannel(30), "ended the session: amqp:precondition-failed planted"),
        (Fault::ConfirmTwice, "a delivery is settled once"),
    ] {
        let error = run("classic-amqp10", 5_000, 12, fault).unwrap_err();
        assert!(error.contains(expected), "{fault:?}: {error}");
    }
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("amqp://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = measure(&Cli::parse_from(["bench", "--uri", &uri]).bench).unwrap_err().to_string();
    assert!(error.contains("connect") && error.contains("127.0.0.1"), "{error}");
    let error = measure(&Cli::parse_from(["bench", "--pid", "4194305"]).bench).unwrap_err().to_string();
    assert_eq!(error, "no process 4194305 to measure");
}
