//! The sentence of a reason: what waits, who causes it, and what to do. The page, the command line and other clients show the same one.

use serde_json::{Value, json};

use super::words::{bytes, count, rate, several, span};

/// The subject of a sentence.
#[derive(Debug, Clone, Copy)]
pub(super) enum About<'a> {
    Queue { vhost: &'a str, name: &'a str, ready: u64, unacknowledged: u64, failure: Option<&'a str> },
    Consumer { prefetch: u32, unacknowledged: u32 },
    Connection,
    Exchange { vhost: &'a str, name: &'a str },
}

/// A sentence, with the names in it that lead somewhere, and advice.
#[derive(Debug, Default)]
pub(super) struct Sentence {
    text: String,
    /// Texts, and names with what they lead to.
    parts: Vec<Value>,
    advice: &'static str,
}

impl Sentence {
    fn of(text: impl AsRef<str>) -> Self {
        Self::default().and(text)
    }

    fn and(mut self, text: impl AsRef<str>) -> Self {
        self.text.push_str(text.as_ref());
        self.parts.push(json!(text.as_ref()));
        self
    }

    fn name(mut self, name: &str, to: Value) -> Self {
        self.text.push_str(name);
        self.parts.push(json!({"name": name, "to": to}));
        self
    }

    fn queue(self, vhost: &str, name: &str) -> Self {
        self.name(name, json!({"kind": "queue", "vhost": vhost, "name": name}))
    }

    fn exchange(self, vhost: &str, name: &str) -> Self {
        let shown = if name.is_empty() { "(AMQP default)" } else { name };
        self.name(shown, json!({"kind": "exchange", "vhost": vhost, "name": name}))
    }

    fn node(self) -> Self {
        self.name("the node", json!({"kind": "node"}))
    }

    fn named_node(self, name: &str) -> Self {
        self.name(name, json!({"kind": "node", "name": name}))
    }

    /// The consumer of a cause, and its user.
    fn consumer(self, cause: &Value) -> Self {
        let text = |key: &str| cause[key].as_str().filter(|text| !text.is_empty());
        let tag = text("consumer_tag").or_else(|| text("channel")).unwrap_or("(no tag)");
        let named = self.name(tag, json!({"kind": "connection", "name": cause["connection"]}));
        match text("user") {
            Some(user) => named.and(" of user ").name(user, json!({"kind": "user", "name": user})),
            None => named,
        }
    }

    fn advising(mut self, advice: &'static str) -> Self {
        self.advice = advice;
        self
    }

    /// Adds it to the view of a reason.
    pub(super) fn add_to(self, view: &mut Value) {
        view["text"] = json!(self.text);
        view["parts"] = Value::Array(self.parts);
        view["advice"] = json!(self.advice);
    }
}

fn number(cause: &Value, key: &str) -> u64 {
    cause[key].as_u64().unwrap_or_default()
}

fn resources(cause: &Value) -> String {
    let names: Vec<&str> = cause["resources"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "memory or disk".to_owned() } else { names.join(" and ") }
}

fn sync_time(cause: &Value) -> Option<String> {
    cause["sync_ms"].as_f64().filter(|ms| *ms > 0.0).map(|ms| span(ms / 1000.0))
}

/// The sentence of a reason of this code.
pub(super) fn sentence(code: &str, cause: &Value, about: About<'_>) -> Sentence {
    match about {
        About::Queue { .. } => of_queue(code, cause, about),
        About::Consumer { prefetch, unacknowledged } => of_consumer(code, prefetch, unacknowledged),
        About::Connection => of_connection(code, cause),
        About::Exchange { vhost, name } => of_exchange(code, cause, vhost, name),
    }
}

const SPREAD: &str = "Make its work faster, or add consumers.";
const ROOM: &str = "Let consumers of that queue catch up, or raise its limit.";
const FREE: &str = "Free memory or disk space, or let consumers empty queues.";

/// The behaviour of a consumer that takes nothing more, behind its name.
fn busy(sentence: Sentence, code: &str, prefetch: u64, unacknowledged: u64) -> Sentence {
    match code {
        "link_credit" => sentence
            .and(" has granted no link credit: it asks for no further messages.")
            .advising("Let the receiver grant credit, or look whether it hangs."),
        "window" => sentence
            .and(" leaves the incoming window of its session shut.")
            .advising("Its client has to read and settle what it has."),
        "room" => sentence
            .and(" reads its socket more slowly than messages come.")
            .advising("Its client may be busy, stopped, or behind a slow network."),
        "overdue" => sentence
            .and(" left deliveries unsettled beyond its timeout, and gets nothing until it settles them.")
            .advising("Raise the consumer timeout if such long work is expected."),
        _ => {
            let of = match prefetch {
                0 => String::new(),
                prefetch => format!(" of the {} that its prefetch allows", count(prefetch)),
            };
            let held = several(unacknowledged, "message");
            sentence.and(format!(" holds {held}{of} and has to acknowledge before it gets more.")).advising(SPREAD)
        }
    }
}

fn of_queue(code: &str, cause: &Value, about: About<'_>) -> Sentence {
    let About::Queue { vhost, name, ready, unacknowledged, failure } = about else { return Sentence::default() };
    let is_named = cause["kind"] == "consumer";
    let waiting = several(ready, "ready message");
    let them = if ready == 1 { "it" } else { "them" };
    match code {
        "no_consumers" => Sentence::of(format!("{waiting}, and no consumer to take {them}."))
            .advising("Start a consumer, or look why it lost its connection."),
        "slow_consumer" | "consumers_busy" | "link_credit" | "window" | "room" | "overdue" if is_named => {
            let reason = cause["reason"].as_str().unwrap_or(code);
            let begun = Sentence::of(format!("{waiting}. Consumer ")).consumer(cause);
            busy(begun, reason, number(cause, "prefetch_count"), number(cause, "unacknowledged"))
        }
        "slow_consumer" | "consumers_busy" | "link_credit" | "window" | "room" | "overdue" => {
            Sentence::of("None of its consumers has credit or room for a message.")
                .advising("Make consumers faster, or add some.")
        }
        "small_prefetch" => Sentence::of("Consumer ")
            .consumer(cause)
            .and(format!(
                " has a prefetch of {}: after each acknowledgement it waits for the way there and back before it has work again.",
                count(number(cause, "prefetch_count").max(1))
            ))
            .advising("A prefetch of some dozens hides that time."),
        "unacknowledged" => {
            let are = if unacknowledged == 1 { "is" } else { "are" };
            let said =
                Sentence::of(format!("{} {are} delivered and not acknowledged", several(unacknowledged, "message")));
            let said = match is_named {
                true => said
                    .and(format!(", {} of them with consumer ", count(number(cause, "unacknowledged"))))
                    .consumer(cause),
                false => said,
            };
            said.and(".").advising(
                "They stay with the consumer until it acknowledges them or ends. A lower prefetch would leave them to others.",
            )
        }
        "redelivery_loop" => {
            let said = Sentence::of("The same messages come back again and again");
            let said = if is_named { said.and("; consumer ").consumer(cause).and(" returns them") } else { said };
            said.and(".").advising("Reject without requeue, and give the queue a delivery limit and a dead-letter exchange.")
        }
        "dropping" | "full" => at_limit(code, cause, vhost),
        "failed" => Sentence::of(format!("It stopped: {}", failure.unwrap_or("see the log of the node")))
            .advising("Its messages are untouched on the disk. The log says what is damaged and what to do."),
        "pacing" => Sentence::of("Its publishers are held to the pace of its consumers, so that it stays short."),
        "parked" => {
            let parked = number(cause, "messages");
            let (their, are) = if parked == 1 { ("its", "is") } else { ("their", "are") };
            Sentence::default()
                .name(
                    &several(parked, "message"),
                    json!({"kind": "queue", "vhost": vhost, "name": name, "tab": "parked"}),
                )
                .and(format!(" reached {their} delivery limit and {are} kept aside."))
                .advising("Look at them, mend the consumer, and move them back.")
        }
        "delayed" => {
            let delayed = number(cause, "messages");
            let wait = if delayed == 1 { "waits" } else { "wait" };
            Sentence::default()
                .name(
                    &several(delayed, "message"),
                    json!({"kind": "queue", "vhost": vhost, "name": name, "tab": "delayed"}),
                )
                .and(format!(" came back from a consumer and {wait} for a time before the next delivery."))
        }
        "waits_to_retry" | "expiring" | "dead_letter_loop" | "dead_letters_lost" | "dead_letters_wait" => {
            of_dead_letters(code, cause, vhost, &waiting)
        }
        "log_full" => Sentence::of("What is published to it waits for room in the log of ")
            .node()
            .and(".")
            .advising("Publishers are faster than the disk."),
        "disk" => Sentence::of("Its next messages are being read from the disk: it is longer than what is kept in memory."),
        _ => of_node(code, cause, "What is published waits"),
    }
}

/// The effect of the disk and of alarms on publishers; `waits` says in words that something waits.
fn of_node(code: &str, cause: &Value, waits: &str) -> Sentence {
    match code {
        "alarm" => Sentence::of(format!("An alarm for {} of ", resources(cause)))
            .node()
            .and(" is raised: publishers are not read until it clears.")
            .advising(FREE),
        "disk_full" => Sentence::of("The disk of ")
            .node()
            .and(" is full: the log could not make a file, and nothing can be published.")
            .advising("Free disk space. Consumers and acknowledgements go on."),
        "sync" => {
            let time = sync_time(cause).map_or_else(|| ".".to_owned(), |time| format!(", where a sync takes {time}."));
            Sentence::of(format!("{waits} for the disk of ")).node().and(time).advising(
                "Something else keeps the disk busy, or it is slow. A faster disk helps, and so do more messages in flight per publisher.",
            )
        }
        "body_file" => Sentence::of("Large messages come, of which more than 1 MiB is not written yet."),
        other => Sentence::of(format!("{waits}: {}.", other.replace('_', " "))),
    }
}

fn at_limit(code: &str, cause: &Value, vhost: &str) -> Sentence {
    let value = number(cause, "value");
    let size = if cause["argument"] == "max-length-bytes" { bytes(value) } else { several(value, "message") };
    let said = Sentence::of(format!("It has reached its limit of {size}"));
    let said = match (cause["policy"].as_str(), cause["source"] == "operator_policy") {
        (Some(policy), true) => said
            .and(" (operator policy ")
            .name(policy, json!({"kind": "operator_policy", "vhost": vhost, "name": policy}))
            .and(")"),
        (Some(policy), false) => {
            said.and(" (policy ").name(policy, json!({"kind": "policy", "vhost": vhost, "name": policy})).and(")")
        }
        (None, _) => said.and(" (argument of the queue)"),
    };
    if code == "full" {
        return said.and(", and refuses what is published.").advising("Let consumers catch up, or raise the limit.");
    }
    let so_far = match number(cause, "dropped") {
        0 => String::new(),
        dropped => format!(": {} so far", count(dropped)),
    };
    said.and(format!(", and its oldest messages are dropped{so_far}."))
        .advising("Consume faster, raise the limit, or give it a dead-letter exchange.")
}

fn of_dead_letters(code: &str, cause: &Value, vhost: &str, waiting: &str) -> Sentence {
    let exchange = cause["exchange"].as_str().unwrap_or_default();
    let ttl = cause["ttl_ms"].as_u64().map(|ms| span(ms as f64 / 1000.0));
    let after =
        ttl.as_ref().map_or_else(|| "at the end of its own time to live".to_owned(), |ttl| format!("after {ttl}"));
    let within = ttl.map_or_else(|| "before the end of its own time to live".to_owned(), |ttl| format!("within {ttl}"));
    match (code, cause["queue"].as_str()) {
        ("waits_to_retry", Some(queue)) => {
            Sentence::of(format!("{waiting}. It has no consumer on purpose: {after} a message goes on to "))
                .queue(vhost, queue)
                .and(".")
        }
        ("waits_to_retry", None) => Sentence::of(format!(
            "{waiting}. It has no consumer on purpose: {after} a message goes on to exchange "
        ))
        .exchange(vhost, exchange)
        .and("."),
        ("expiring", Some(first)) => {
            let said = Sentence::of(format!("{waiting}, and no consumer: a message that nobody takes {within} "));
            let said = match cause["is_own"] == true {
                true => said.and("is deleted, since its dead-letter exchange leads back to this queue"),
                false => said.and("goes on to ").queue(vhost, first).and(", and is deleted where it would come back"),
            };
            said.and(": a message stays in such a circle only if somebody rejects it.")
                .advising("Start a consumer, or let dead letters go to a queue from which they do not come back.")
        }
        ("expiring", None) => Sentence::of(format!(
            "{waiting}, and no consumer: a message that nobody takes {within} is deleted, since the queue has no dead-letter exchange that leads on."
        ))
        .advising("Start a consumer, or give the queue a dead-letter exchange."),
        ("dead_letter_loop", via) => {
            let said = Sentence::of("Its messages are rejected and come back again and again");
            let said = match via {
                Some(via) => said.and(" by way of ").queue(vhost, via),
                None => said,
            };
            said.and(format!(
                "; hardly any is acknowledged: {} dead-lettered so far.",
                count(number(cause, "dead_lettered"))
            ))
            .advising("Let the consumer look at x-death and acknowledge or put away what failed too often, or give a quorum queue a delivery limit.")
        }
        ("dead_letters_wait", Some(full)) => Sentence::of(format!(
            "Kept until a queue takes them: {}. Queue ",
            several(number(cause, "messages"), "dead letter")
        ))
        .queue(vhost, full)
        .and(", to which they go, takes none at the moment.")
        .advising(ROOM),
        ("dead_letters_wait", None) => Sentence::of(format!(
            "Kept until a queue takes them: {}. Exchange ",
            several(number(cause, "messages"), "dead letter")
        ))
        .exchange(vhost, exchange)
        .and(" leads to none that does.")
        .advising("Bind a queue to that exchange."),
        (_, Some(full)) => Sentence::of("Messages that die here are lost: queue ")
            .queue(vhost, full)
            .and(", to which they go, takes none at the moment.")
            .advising(ROOM),
        _ => {
            let said = Sentence::of("Messages that die here are lost: their dead-letter exchange ");
            let said = said.exchange(vhost, exchange);
            match cause["missing"].as_str() {
                Some("exchange") => said.and(" does not exist.").advising("Declare the exchange, and bind a queue to it."),
                _ => said.and(" leads to no queue with their routing key.").advising("Bind a queue to the exchange."),
            }
        }
    }
}

fn of_consumer(code: &str, prefetch: u32, unacknowledged: u32) -> Sentence {
    match code {
        "inactive" => Sentence::of("Another consumer is the single active one; this one takes over when that ends."),
        "replaced" => {
            Sentence::of("A consumer of a higher priority takes over once this one has settled what it holds.")
        }
        "disk" => Sentence::of("Its next messages are being read from the disk."),
        "small_prefetch" => Sentence::of(format!("Its prefetch is {prefetch}, and it holds a message."))
            .advising("A prefetch of some dozens hides the time of the round trip."),
        "unacknowledged" => Sentence::of(format!(
            "It holds {} and has acknowledged none of them.",
            several(u64::from(unacknowledged), "message")
        ))
        .advising("It has to acknowledge; a prefetch would leave messages to others."),
        _ => busy(Sentence::of("It"), code, u64::from(prefetch), u64::from(unacknowledged)),
    }
}

fn of_connection(code: &str, cause: &Value) -> Sentence {
    match code {
        "alarm" => Sentence::of(format!("It publishes while an alarm for {} of ", resources(cause)))
            .node()
            .and(" is raised: it is not read until that clears.")
            .advising(FREE),
        "pacing" => {
            let said = Sentence::of("It is held to the pace of the consumers of ");
            let said = match (cause["vhost"].as_str(), cause["name"].as_str()) {
                (Some(vhost), Some(name)) => said.queue(vhost, name),
                _ => said.and("a queue"),
            };
            said.and(", so that the queue stays short.")
        }
        "log_full" => {
            let time = sync_time(cause).map_or_else(String::new, |time| format!("; a sync takes {time}"));
            Sentence::of(format!(
                "What it published is on its way to the disk, and its share of the log is used up{time}."
            ))
            .advising("It publishes as fast as the disk takes it.")
        }
        "link" => {
            let names: Vec<&str> = cause["names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let said = match names[..] {
                [] => Sentence::of("It publishes to a queue of another node"),
                [name] => Sentence::of("It publishes to a queue of ").named_node(name),
                [first, ref others @ ..] => {
                    let said = Sentence::of("It publishes to a queue of ").named_node(first);
                    others.iter().fold(said, |said, name| said.and(" or ").named_node(name))
                }
            };
            said.and(", which takes no more at the moment.")
                .advising("The link to that node is full, or the node has an alarm.")
        }
        "body_file" => Sentence::of("It sends large messages, of which more than 1 MiB is not written yet."),
        "room" | "window" | "link_credit" => busy(Sentence::of("Its client"), code, 0, 0),
        _ => of_node(code, cause, "It waits"),
    }
}

fn of_exchange(code: &str, cause: &Value, vhost: &str, name: &str) -> Sentence {
    let came = rate(cause["per_second"].as_f64().unwrap_or_default());
    let bindings = number(cause, "bindings");
    let (leads, whose) = match bindings {
        1 => ("does not", "its binding".to_owned()),
        _ => ("", format!("none of its {} bindings", count(bindings))),
    };
    let verb = |many: &str, one: &str| if leads.is_empty() { many.to_owned() } else { format!("{leads} {one}") };
    let why = match (name, bindings) {
        ("", _) => "no queue has the name of their routing key".to_owned(),
        (_, 0) => "it has no binding".to_owned(),
        _ if cause["to_queues"] == false => format!("{whose} {} to a queue", verb("leads", "lead")),
        _ if cause["to_exchanges"] == true => format!("{whose} {} them to a queue", verb("leads", "lead")),
        _ => format!("{whose} {}", verb("matches", "match")),
    };
    let lost = count(number(cause, "dropped") + number(cause, "returned"));
    let said = match cause["all"] == true {
        true => {
            let said = Sentence::of(format!("{came} messages a second come, and none reaches a queue: {why}"));
            let said = match cause["alternate"].as_str() {
                Some(alternate) => said.and(", and its alternate exchange ").exchange(vhost, alternate).and(
                    match cause["alternate_exists"] == true {
                        true => " leads to none either",
                        false => " does not exist",
                    },
                ),
                None => said,
            };
            said.and(".")
        }
        false => Sentence::of(format!("Some messages reach no queue, {lost} of them so far.")),
    };
    match code {
        "returned" => said
            .and(" They are returned to their publishers, which asked for that (mandatory).")
            .advising("Bind a queue for their routing keys."),
        _ => said.and(" They are dropped, and their publishers are not told.").advising(
            "Bind a queue for their routing keys, give the exchange an alternate exchange, or publish with mandatory.",
        ),
    }
}
