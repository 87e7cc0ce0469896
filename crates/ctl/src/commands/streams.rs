//! Streams and super streams.

use serde_json::{Map, Value, json};

use super::{Command, CommandGroup, STREAM_STATUS, STREAMS, alarms};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(STREAM_STATUS, "stream_status", CommandGroup::Monitoring, "<stream> [--tracking]", "Displays the replicas of a stream, and refuses other queues", status).in_vhost(),
    Command::new(STREAMS, "list_stream_tracking", CommandGroup::Monitoring, "<stream> [--all] [--offset] [--writer]", "Lists the offsets and sequences that a stream keeps for its clients", tracking).in_vhost(),
    Command::new(STREAMS, "add_super_stream", CommandGroup::Queues, "<name> [--partitions <partitions>] [--binding-keys <keys>] [--max-length-bytes <bytes>] [--max-age <duration>] [--stream-max-segment-size-bytes <bytes>] [--leader-locator <locator>] [--initial-cluster-size <size>]", "Adds an exchange with streams as its partitions: 3 of them, so many, or one for each of these keys", add).in_vhost(),
    Command::new(STREAMS, "restart_stream", CommandGroup::Operations, "<stream> [--preferred-leader-node <node>]", "Restarts a stream for its clients, which look for its leader again: the only node", restart).in_vhost(),
    Command::new(STREAMS, "delete_super_stream", CommandGroup::Queues, "<name>", "Deletes such an exchange with its partitions and all their messages", delete).in_vhost(),
];

/// The columns of a member.
const MEMBER: [&str; 9] = [
    "role",
    "node",
    "epoch",
    "offset",
    "committed_offset",
    "committed_chunk_id",
    "first_offset",
    "readers",
    "segments",
];

/// The queue as the HTTP API shows it.
fn find(call: &Call<'_>, queue: &str) -> Result<Option<Value>, Failure> {
    call.node()?.find(&format!("/api/queues/{}/{}", word(&call.vhost()), word(queue)))
}

fn is_stream(queue: &Value) -> bool {
    queue["type"] == "stream"
}

fn status(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (stream, name) = (call.word("stream").to_owned(), call.node()?.name());
    call.say(&format!("Status of stream {stream} on node {name} ..."));
    let absent = || Failure::Data("Object (queue, stream, exchange, etc) was not found".to_owned());
    let found = find(call, &stream)?.ok_or_else(absent)?;
    if !is_stream(&found) {
        let kind = found["type"].as_str().unwrap_or("classic");
        return Err(Failure::check(&format!("Cannot get stream status of a {kind} queue")));
    }
    if call.has("tracking") {
        return tracked(call, &stream, "");
    }
    let last = found["next_offset"].as_i64().unwrap_or(0) - 1;
    let is_empty = found["first_offset"] == found["next_offset"];
    let member = json!({
        "role": "writer",
        "node": name,
        "epoch": 1,
        "offset": last,
        "committed_offset": last,
        "committed_chunk_id": if is_empty { json!(-1) } else { found["last_chunk_offset"].clone() },
        "first_offset": found["first_offset"],
        "readers": found["consumers"],
        "segments": found["segments"],
    });
    Ok(Rows::pick(&MEMBER.map(str::to_owned), vec![member]).into())
}

fn restart(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (stream, name) = (call.word("stream").to_owned(), call.node()?.name());
    call.say(&format!("Restarting stream {stream}..."));
    let absent = || Failure::Data("Object (queue, stream, exchange, etc) was not found".to_owned());
    let found = find(call, &stream)?.ok_or_else(absent)?;
    if !is_stream(&found) {
        let kind = found["type"].as_str().unwrap_or("classic");
        return Err(Failure::check(&format!("{{:not_supported_for_type, :rabbit_{kind}_queue}}")));
    }
    let path = format!("/local/streams/{}/{}/restart", word(&call.vhost()), word(&stream));
    call.node()?.change("POST", &path, json!({}))?;
    Ok(CommandOutput::Text(format!("{name}\n")))
}

fn tracking(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let stream = call.word("stream").to_owned();
    if [call.has("all"), call.has("offset"), call.has("writer")].into_iter().filter(|given| *given).count() > 1 {
        return Err(invalid("Specify only one of --all, --offset, --writer."));
    }
    call.say(&format!("Listing tracking information for stream {stream} ..."));
    find(call, &stream)?.filter(is_stream).ok_or_else(|| Failure::check("The stream does not exist."))?;
    let only = match (call.has("offset"), call.has("writer")) {
        (true, false) => "?type=offset",
        (false, true) => "?type=writer",
        _ => "",
    };
    tracked(call, &stream, only)
}

fn tracked(call: &Call<'_>, stream: &str, query: &str) -> Result<CommandOutput, Failure> {
    let path = format!("/api/stream/{}/{}/tracking{query}", word(&call.vhost()), word(stream));
    let found = call.node()?.get(&path)?;
    let of = |kind: &'static str, key: &str| {
        let entries = found[key].as_object().cloned().unwrap_or_default();
        entries.into_iter().map(move |(name, value)| json!({"type": kind, "name": name, "tracking_value": value}))
    };
    let rows = of("writer", "writers").chain(of("offset", "offsets")).collect();
    Ok(Rows::pick(&["type", "name", "tracking_value"].map(str::to_owned), rows).into())
}

/// The text of RabbitMQ for an option that has no meaning.
fn invalid(reason: &str) -> Failure {
    Failure::Usage(format!("Error (argument validation): {reason}"))
}

fn add(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (name, vhost) = (call.word("name").to_owned(), call.vhost());
    let mut body = Map::new();
    match (call.given("partitions"), call.given("binding-keys")) {
        (Some(_), Some(_)) => return Err(invalid("Specify --partitions or --binding-keys, not both.")),
        (None, Some(keys)) => body.insert("binding-keys".to_owned(), json!(keys)),
        (count, None) => match count.map_or(Ok(3), str::parse::<u64>) {
            Ok(0) => return Err(invalid("The partition number must be greater than 0")),
            Ok(count) => body.insert("partitions".to_owned(), json!(count)),
            Err(_) => return Err(invalid("Invalid value for --partitions, the value must be a number.")),
        },
    };
    body.insert("arguments".to_owned(), Value::Object(arguments(call)?));
    call.say("Adding a super stream...");
    let path = format!("/api/stream/super-streams/{}/{}", word(&vhost), word(&name));
    call.node()?.change("PUT", &path, Value::Object(body))?;
    Ok(CommandOutput::Text(format!("Super stream {name} has been created\n")))
}

/// The arguments of the partitions.
fn arguments(call: &Call<'_>) -> Result<Map<String, Value>, Failure> {
    let mut arguments = Map::new();
    for option in ["max-length-bytes", "stream-max-segment-size-bytes"] {
        if let Some(given) = call.given(option) {
            let wrong = || invalid(&format!("Invalid value for --{option}, valid example values: 100gb, 50mb."));
            arguments.insert(option.to_owned(), json!(alarms::bytes(given).ok_or_else(wrong)?));
        }
    }
    if let Some(given) = call.given("max-age") {
        let wrong = "Invalid value for --max-age, the value must be a ISO 8601 duration, e.g. PT10M30S for 10 minutes 30 \
                     seconds, P5DT8H for 5 days 8 hours.";
        let seconds = seconds(given).ok_or_else(|| invalid(wrong))?;
        arguments.insert("max-age".to_owned(), json!(format!("{seconds}s")));
    }
    match call.given("leader-locator") {
        None => {}
        Some(locator @ ("client-local" | "balanced")) => {
            arguments.insert("queue-leader-locator".to_owned(), json!(locator));
        }
        Some(_) => {
            return Err(invalid("Invalid value for --leader-locator, valid values are client-local, balanced."));
        }
    }
    if let Some(given) = call.given("initial-cluster-size") {
        let size = given.parse::<u64>().ok().filter(|size| *size > 0);
        let size = size.ok_or_else(|| {
            invalid("Invalid value for --initial-cluster-size, the value must be a positive integer.")
        })?;
        arguments.insert("initial-cluster-size".to_owned(), json!(size));
    }
    Ok(arguments)
}

/// The seconds of a duration of ISO 8601: a year has 365 days, and a month 30, as in RabbitMQ.
fn seconds(text: &str) -> Option<u64> {
    let (date, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((date, time)) => (date, time),
        None => (text.strip_prefix('P')?, ""),
    };
    const DAY: u64 = 86_400;
    let of_date = part(date, &[('Y', 365 * DAY), ('M', 30 * DAY), ('W', 7 * DAY), ('D', DAY)])?;
    let sum = of_date.checked_add(part(time, &[('H', 3600), ('M', 60), ('S', 1)])?)?;
    (sum > 0).then_some(sum)
}

/// The sum of numbers with these units.
fn part(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut sum = 0u64;
    while let Some(end) = text.find(|letter: char| !letter.is_ascii_digit()) {
        let (number, rest) = text.split_at(end);
        let mut letters = rest.chars();
        let unit = letters.next()?;
        let (_, seconds) = units.iter().find(|(letter, _)| *letter == unit)?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
        text = letters.as_str();
    }
    text.is_empty().then_some(sum)
}

fn delete(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (name, vhost) = (call.word("name").to_owned(), call.vhost());
    call.say("Deleting a super stream...");
    let path = format!("/api/stream/super-streams/{}/{}", word(&vhost), word(&name));
    let response = call.node()?.request("DELETE", &path, None)?;
    match response.status {
        200..=299 => Ok(CommandOutput::Text(format!("Super stream {name} has been deleted\n"))),
        404 => Err(Failure::refused("stream_not_found")),
        _ => Err(Failure::refused(&response.reason())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_rabbitmq() {
        let read = ["PT10M30S", "P1Y2M3DT4H", "P5DT8H", "P1W"].map(seconds);
        assert_eq!(read, [Some(630), Some(36_993_600), Some(460_800), Some(604_800)]);
        assert_eq!(["1h", "P", "PT", "PT0S", "P1H", "PT1D", "PT1", "P1.5D", "P-1D"].map(seconds), [None; 9]);
    }
}
