//! The AMQP 1.0 scenarios of the client table, with fe2o3-amqp. See tests/clients/AMQP10.md.

mod content;
mod errors;
mod receiving;
mod replies;
mod sending;
mod session;

use std::env;
use std::process::ExitCode;

use session::{Cell, Outcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let [_, uri, _http, _control, scenario] = arguments.as_slice() else {
        eprintln!("usage: fe2o3-client URI HTTP_URI CONTROL SCENARIO");
        return ExitCode::from(2);
    };
    match run(&Cell::new(uri, scenario), scenario).await {
        Ok(()) => {
            println!("ok {scenario}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("fail {scenario}: {}", reason.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

async fn run(cell: &Cell, scenario: &str) -> Outcome {
    match scenario {
        "login" => errors::login(cell).await,
        "vhost" => errors::vhost(cell).await,
        "heartbeat_loss" => errors::heartbeat_loss(cell).await,
        "shutdown" => errors::shutdown(cell).await,
        "reconnect" => errors::reconnect(cell).await,
        "sessions" => sending::sessions(cell).await,
        "many_links" => sending::many_links(cell).await,
        "publish" => sending::publish(cell).await,
        "settled_publish" => sending::settled_publish(cell).await,
        "exchange_target" => sending::exchange_target(cell).await,
        "anonymous_terminus" => sending::anonymous_terminus(cell).await,
        "unroutable" => sending::unroutable(cell).await,
        "rejected" => sending::rejected(cell).await,
        "big_message" => content::big_message(cell).await,
        "sections" => content::sections(cell).await,
        "message_ids" => content::message_ids(cell).await,
        "bodies" => content::bodies(cell).await,
        "from_091" => content::from_091(cell).await,
        "to_091" => content::to_091(cell).await,
        "outcomes" => receiving::outcomes(cell).await,
        "ttl" => receiving::ttl(cell).await,
        "detach_requeues" => receiving::detach_requeues(cell).await,
        "credit" => receiving::credit(cell).await,
        "settled_receive" => receiving::settled_receive(cell).await,
        "two_receivers" => receiving::two_receivers(cell).await,
        "consumer_priority" => receiving::consumer_priority(cell).await,
        "backlog" => receiving::backlog(cell).await,
        "dynamic_node" => replies::dynamic_node(cell).await,
        "request_reply" => replies::request_reply(cell).await,
        "direct_reply_to" => replies::direct_reply_to(cell).await,
        "browse" => replies::browse(cell).await,
        "transactions" => replies::transactions(cell).await,
        _ => errors::run(cell, scenario).await,
    }
}
