//! The filters of a source (3.5.8): those that its queue has become the consumer's options, and are named in the answer.

use std::fmt::Display;
use std::sync::Arc;

use leveret_amqp10::filter::{Filter, NamedFilter, filters};
use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::{EncodedMap, MapRef};
use leveret_amqp10::{SenderSettleMode, Source, Symbol, Value, condition};
use leveret_model::{Arguments, Queue, QueueType, Value as Argument};
use leveret_queue::{MessageFilter, StreamFilter, StreamOptions, StreamStart, TRACKING_NAME_BYTES_MAX};
use leveret_selector::{Dialect, PropertyFilter, Reference, Selector};
use leveret_session::stream_start;

use super::error::{Failure, Result};

/// Capabilities of a source whose filters look at properties, and at expressions (AMQP Filter Expressions 1.0).
pub(super) const CAPABILITIES: [Symbol<'static>; 2] =
    [Symbol::new("AMQP_FILTEX_PROP_V1_0"), Symbol::new("AMQP_FILTEX_SQL_V1_0")];

/// Property of a link whose receiver's offset the stream keeps.
const TRACKING: &str = "rabbitmq:stream-offset-tracking";

/// Capability of a source whose filters are message selectors.
pub(super) const SELECTOR: Symbol<'static> = Symbol::new("APACHE.ORG:SELECTOR");

/// The filters of a source that are in effect.
#[derive(Default)]
pub(super) struct InEffect {
    /// For the answer, as the client sent them.
    pub named: EncodedMap,
    /// For the queue, if it isn't a stream.
    pub messages: Option<Arc<MessageFilter>>,
    /// For the queue, if it is a stream.
    pub stream: Option<Box<StreamOptions>>,
    /// For lists of consumers, by the names that AMQP 0-9-1 has for the same.
    pub shown: Arguments,
}

/// The filters that a queue of this type has. Others are left out of the answer.
///
/// # Errors
/// A filter that can't be left out, because the receiver would get messages that it asked not to get: one that can't be understood, a
/// JMS selector of a stream, or a position in a stream that doesn't exist.
pub(super) fn in_effect(source: &Source<'_>, attach: &Attach<'_>, queue: &Queue, now_ms: u64) -> Result<InEffect> {
    match queue.queue_type() {
        QueueType::Stream => {
            let mut all = source.filter.into_iter().flat_map(filters);
            let mut streams = StreamFilters {
                queue,
                now_ms,
                named: EncodedMap::new(),
                start: None,
                shown: Vec::new(),
                filter: StreamFilter::default(),
                has_expression: all.clone().any(|filter| is_expression(&filter)),
                has_properties: false,
                has_application_properties: false,
            };
            all.try_for_each(|filter| streams.take(&filter))?;
            let mut in_effect = streams.finish();
            if let Some(stream) = &mut in_effect.stream {
                stream.tracking = tracking(attach)?;
            }
            Ok(in_effect)
        }
        QueueType::Classic | QueueType::Quorum => of_queue(source),
    }
}

/// The filters of a queue's consumer. RabbitMQ has none there and ignores them; here, those that can't be in effect are refused.
fn of_queue(source: &Source<'_>) -> Result<InEffect> {
    let mut in_effect = InEffect::default();
    let (mut filter, mut shown) = (MessageFilter::default(), Vec::new());
    for named in source.filter.into_iter().flat_map(filters) {
        let wrong = |text: &dyn Display| wrong(&named, text);
        let expression = match named.filter {
            Filter::JmsSelector(text) => Some((text, Dialect::Jms, "jms-selector")),
            Filter::Sql(text) => Some((text, Dialect::Amqp, "sql-filter")),
            Filter::Properties(map) => {
                let fields = PropertyFilter::properties(references(map)).map_err(|error| wrong(&error))?;
                filter.fields.push(fields);
                None
            }
            Filter::ApplicationProperties(map) => {
                let fields = PropertyFilter::application_properties(references(map)).map_err(|error| wrong(&error))?;
                filter.fields.push(fields);
                None
            }
            _ if SELECTORS.contains(&named.name) => {
                return Err(wrong(&format!("expected a string described as {}", SELECTORS[1])));
            }
            _ => continue,
        };
        if let Some((text, dialect, name)) = expression {
            if filter.expression.is_some() {
                return Err(wrong(&ONE_EXPRESSION));
            }
            shown.push((name, Argument::from(text)));
            // JMS has no selector as an empty one.
            if dialect == Dialect::Amqp || !text.trim().is_empty() {
                filter.expression = Some(Selector::parse(text, dialect).map_err(|error| wrong(&error))?);
            }
        }
        answer(&mut in_effect.named, &named);
    }
    in_effect.messages = Some(filter).filter(|filter| !filter.is_empty()).map(Arc::new);
    in_effect.shown = shown.into_iter().collect();
    Ok(in_effect)
}

/// The name by which the stream keeps the receiver's offset, if the properties of its link ask for that: a string, or true for the
/// name of the link.
fn tracking(attach: &Attach<'_>) -> Result<Option<Arc<str>>> {
    let Some(value) = attach.properties.and_then(|properties| properties.lookup(TRACKING)) else { return Ok(None) };
    if attach.snd_settle_mode == SenderSettleMode::Settled {
        let text = format!(
            "Attach refused: property {TRACKING}: an offset is kept by what the receiver settles, and this link's deliveries are settled when they are sent"
        );
        return Err(Failure::link(condition::INVALID_FIELD, text));
    }
    let name = match value {
        Value::Bool(false) => return Ok(None),
        Value::Bool(true) => Some(attach.name),
        value => value.as_text(),
    };
    match name.filter(|name| (1..=TRACKING_NAME_BYTES_MAX).contains(&name.len())) {
        Some(name) => Ok(Some(name.into())),
        None => Err(Failure::link(
            condition::INVALID_FIELD,
            format!(
                "Attach refused: property {TRACKING}: expected a name of 1 to {TRACKING_NAME_BYTES_MAX} bytes, or true for that of \
                 the link, received {value:?}"
            ),
        )),
    }
}

/// Names a filter in the answer.
fn answer(answers: &mut EncodedMap, named: &NamedFilter<'_>) {
    match named.name.is_ascii() {
        true => answers.push_symbol(named.name, named.value),
        // A name has to be a symbol (3.5.8), but nothing else depends on that.
        false => answers.push(named.name, named.value),
    };
}

fn wrong(named: &NamedFilter<'_>, text: &dyn Display) -> Failure {
    Failure::link(condition::INVALID_FIELD, format!("Attach refused: filter {}: {text}", named.name))
}

/// Why a second expression is refused.
const ONE_EXPRESSION: &str = "a source has one expression at most, SQL or a selector";

/// JMS selectors, by the names that clients use for the filter.
const SELECTORS: [&str; 2] = ["jms-selector", "apache.org:selector-filter:string"];

/// The filters of a stream's reader as they are found.
struct StreamFilters<'a> {
    queue: &'a Queue,
    now_ms: u64,
    named: EncodedMap,
    start: Option<StreamStart>,
    shown: Vec<(&'static str, Argument)>,
    filter: StreamFilter,
    /// Whether there is an expression among the filters.
    has_expression: bool,
    has_properties: bool,
    has_application_properties: bool,
}

impl StreamFilters<'_> {
    /// Takes a filter, if it is the first of its kind.
    fn take(&mut self, named: &NamedFilter<'_>) -> Result<()> {
        let is_in_effect = match named.filter {
            Filter::StreamOffset(value) => self.take_start(value)?,
            Filter::StreamFilter(value) => match values_of(value) {
                Some(values) => {
                    if self.filter.values.is_empty() {
                        self.shown.push((stream_start::FILTER, shown_values(value, &values)));
                        self.filter.values = values;
                    }
                    true
                }
                None => false,
            },
            Filter::StreamMatchUnfiltered(matches) => {
                self.shown.push((stream_start::MATCH_UNFILTERED, Argument::Bool(matches)));
                self.filter.match_unfiltered = matches;
                true
            }
            // An expression says all that fields could.
            Filter::Properties(_) | Filter::ApplicationProperties(_) if self.has_expression => false,
            Filter::Properties(map) => {
                let compiled = PropertyFilter::properties(references(map)).ok().filter(|_| !self.has_properties);
                self.has_properties |= compiled.is_some();
                self.keep(compiled)
            }
            Filter::ApplicationProperties(map) => {
                let compiled = PropertyFilter::application_properties(references(map)).ok();
                let compiled = compiled.filter(|_| !self.has_application_properties);
                self.has_application_properties |= compiled.is_some();
                self.keep(compiled)
            }
            Filter::Sql(text) if is_expression(named) && self.filter.messages.expression.is_none() => {
                self.filter.messages.expression = Selector::parse(text, Dialect::Amqp).ok();
                self.filter.messages.expression.is_some()
            }
            // RabbitMQ leaves it out. A client of JMS doesn't look whether its selector is in effect.
            Filter::JmsSelector(text) if !text.trim().is_empty() => {
                if self.filter.messages.expression.is_some() {
                    return Err(wrong(named, &ONE_EXPRESSION));
                }
                let expression = Selector::parse(text, Dialect::Jms).map_err(|error| wrong(named, &error))?;
                self.filter.messages.expression = Some(expression);
                true
            }
            _ => false,
        };
        if is_in_effect {
            answer(&mut self.named, named);
        }
        Ok(())
    }

    /// Takes a position. A value of a type that no position has is left out.
    fn take_start(&mut self, value: Value<'_>) -> Result<bool> {
        let start = match (start_of(value, self.now_ms), value.as_text()) {
            (Some(start), _) => start,
            (None, Some(text)) => {
                let text = format!(
                    "failed consuming from stream queue '{}' in vhost '{}': invalid_max_age: rabbitmq:stream-offset-spec is \
                     '{text}', expected first, last, next, an offset, a timestamp, or an interval such as 10m",
                    self.queue.name, self.queue.vhost
                );
                return Err(Failure::link(condition::PRECONDITION_FAILED, text));
            }
            (None, None) => return Ok(false),
        };
        if self.start.is_none() {
            self.start = Some(start);
            self.shown.push((stream_start::OFFSET, shown_start(value)));
        }
        Ok(true)
    }

    fn keep(&mut self, compiled: Option<PropertyFilter>) -> bool {
        let is_there = compiled.is_some();
        self.filter.messages.fields.extend(compiled);
        is_there
    }

    fn finish(self) -> InEffect {
        let is_filtered = !self.filter.values.is_empty() || self.filter.looks_at_messages();
        let filter = is_filtered.then(|| Arc::new(self.filter));
        InEffect {
            named: self.named,
            messages: None,
            stream: Some(Box::new(StreamOptions {
                start: self.start.unwrap_or_default(),
                filter,
                ..StreamOptions::default()
            })),
            shown: self.shown.into_iter().collect(),
        }
    }
}

/// Whether it is a valid expression under the name that RabbitMQ takes.
fn is_expression(named: &NamedFilter<'_>) -> bool {
    matches!(named.filter, Filter::Sql(text) if named.name == "sql-filter" && Selector::parse(text, Dialect::Amqp).is_ok())
}

/// The position that a filter names.
fn start_of(value: Value<'_>, now_ms: u64) -> Option<StreamStart> {
    match value {
        Value::Timestamp(ms) => Some(StreamStart::Timestamp(u64::try_from(ms).unwrap_or(0))),
        Value::Ulong(offset) => Some(StreamStart::Offset(offset)),
        value => match value.as_text() {
            Some(text) => StreamStart::of_text(text, now_ms),
            None => value.as_i64().map(StreamStart::of_number),
        },
    }
}

/// The position as a list of consumers shows it. Times are seconds, as in AMQP 0-9-1.
fn shown_start(value: Value<'_>) -> Argument {
    match value {
        Value::Timestamp(ms) => Argument::Int(ms.div_euclid(1000)),
        Value::Ulong(offset) => i64::try_from(offset).map_or(Argument::UInt(offset), Argument::Int),
        value => match value.as_text() {
            Some(text) => text.into(),
            None => value.as_i64().map_or(Argument::Void, Argument::Int),
        },
    }
}

/// The values as a list of consumers shows them: a list only if there was one.
fn shown_values(value: Value<'_>, values: &[Box<str>]) -> Argument {
    match (value, values) {
        (Value::List(_), values) => Argument::Array(values.iter().map(|value| (&**value).into()).collect()),
        (_, values) => values.first().map_or(Argument::Void, |value| (&**value).into()),
    }
}

/// The values of a filter on chunks: a string, or the strings of a list, if there are any.
fn values_of(value: Value<'_>) -> Option<Vec<Box<str>>> {
    let string = |value: Value<'_>| match value {
        Value::String(text) => Some(Box::from(text)),
        _ => None,
    };
    match value {
        Value::List(list) => {
            Some(list.iter().filter_map(string).collect()).filter(|values: &Vec<_>| !values.is_empty())
        }
        value => Some(vec![string(value)?]),
    }
}

/// The pairs of a property filter. Keys that are no text match nothing.
fn references(map: MapRef<'_>) -> impl Iterator<Item = (&str, Reference<'_>)> {
    map.iter().map(|(key, value)| (key.as_text().unwrap_or_default(), reference(value)))
}

fn reference(value: Value<'_>) -> Reference<'_> {
    match value {
        Value::Null => Reference::Null,
        Value::Bool(value) => Reference::Bool(value),
        Value::String(text) => Reference::String(text),
        Value::Symbol(symbol) => Reference::Symbol(symbol.as_str()),
        Value::Binary(bytes) => Reference::Binary(bytes),
        Value::Uuid(bytes) => Reference::Uuid(bytes),
        Value::Uint(value) => Reference::Uint(value),
        Value::Ulong(value) => Reference::Ulong(value),
        Value::Timestamp(ms) => Reference::Timestamp(ms),
        Value::Float(value) => Reference::Float(value.into()),
        Value::Double(value) => Reference::Float(value),
        value => value.as_i64().map_or(Reference::Other, Reference::Int),
    }
}
