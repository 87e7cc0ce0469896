//! Exchanges and bindings: those that route messages to queues, and those that match nothing.

use crate::settings::{Exchange, Settings};

/// The headers of a message, or those that a binding asks for: name and value.
pub(crate) type Headers = Vec<(&'static str, String)>;

/// The names used by headers exchanges here.
pub(crate) const HEADER_NAMES: [&str; 3] = ["kind", "region", "for"];

/// A binding of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Number of the queue.
    pub(crate) queue: u32,
    pub(crate) key: String,
    /// Headers that must all match.
    pub(crate) headers: Headers,
}

/// The routing key of the messages for a queue.
fn key(settings: &Settings, queue: &str) -> String {
    match settings.exchange {
        Exchange::Default | Exchange::Direct => queue.to_owned(),
        Exchange::Topic => format!("orders.eu.{queue}"),
        Exchange::Fanout | Exchange::Headers => String::new(),
    }
}

/// The routing keys that the messages for a queue use in turn; at least one.
pub(crate) fn keys(settings: &Settings, queue: &str) -> Vec<String> {
    match settings.routing_keys {
        1 => vec![key(settings, queue)],
        many => (0..many).map(|number| format!("orders.eu-{number}.{queue}")).collect(),
    }
}

/// The headers of the messages for a queue.
pub(crate) fn headers(settings: &Settings, queue: &str) -> Headers {
    if settings.exchange != Exchange::Headers {
        return Headers::new();
    }
    HEADER_NAMES.into_iter().zip(["order".into(), "eu".into(), queue.into()]).collect()
}

/// All bindings of the exchange, beginning with one matching binding for each queue. The others, which belong to the
/// first queue, match nothing: a third have another last word, a third another word in the middle, and a third both
/// and a `#`.
pub(crate) fn bindings(settings: &Settings) -> impl Iterator<Item = Binding> + '_ {
    (0..settings.bindings).map(move |number| {
        if number < settings.queues {
            let queue = settings.queue(number);
            let key = match settings.exchange {
                Exchange::Topic => format!("orders.*.{queue}"),
                _ => key(settings, &queue),
            };
            return Binding { queue: number, key, headers: headers(settings, &queue) };
        }
        let (key, headers) = match settings.exchange {
            Exchange::Topic => (
                match number % 3 {
                    0 => format!("orders.*.other-{number}"),
                    1 => format!("orders.region-{number}.*"),
                    _ => format!("orders.region-{number}.#.other"),
                },
                Headers::new(),
            ),
            Exchange::Headers => {
                (String::new(), vec![("kind", "order".into()), ("region", format!("region-{number}"))])
            }
            _ => (format!("other-{number}"), Headers::new()),
        };
        Binding { queue: 0, key, headers }
    })
}
