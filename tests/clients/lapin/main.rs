//! The scenarios of the client table, with lapin. See tests/src/cell.rs for the lines it speaks.

mod errors;
mod replies;
mod scenarios;
mod session;

use std::env;
use std::process::ExitCode;

use session::{Outcome, Session};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let [_, uri, _http, _control, scenario] = arguments.as_slice() else {
        eprintln!("usage: lapin-client URI HTTP_URI CONTROL SCENARIO");
        return ExitCode::from(2);
    };
    match run(Session::new(uri, scenario), scenario).await {
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

async fn run(session: Session, scenario: &str) -> Outcome {
    match scenario {
        "declare" => scenarios::declare(&session).await,
        "publish_confirm" => scenarios::publish_confirm(&session).await,
        "mandatory_return" => scenarios::mandatory_return(&session).await,
        "direct_reply_to" => replies::direct_reply_to(&session).await,
        "ack" => scenarios::ack(&session).await,
        "nack_requeue" => scenarios::nack_requeue(&session).await,
        "reject" => scenarios::reject(&session).await,
        "prefetch" => scenarios::prefetch(&session).await,
        "get" => scenarios::get(&session).await,
        "big_body" => scenarios::big_body(&session).await,
        "headers" => scenarios::headers(&session).await,
        "exclusive" => scenarios::exclusive(&session).await,
        "reconnect" => scenarios::reconnect(&session).await,
        "heartbeat_loss" => scenarios::heartbeat_loss(&session).await,
        _ => errors::run(&session, scenario).await,
    }
}
