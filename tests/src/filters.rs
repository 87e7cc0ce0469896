//! Receivers with filters, over AMQP 1.0.

use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::{OwnedDescribed, OwnedDescriptor, OwnedMap};
use leveret_amqp10::{OwnedValue, Role, SenderSettleMode, Source, Target, TargetArchetype, Value};

use crate::amqp10::{Amqp10, CHANNEL, Seen};

/// A filter by its descriptor.
pub fn filter(descriptor: &str, value: OwnedValue) -> OwnedValue {
    let descriptor = OwnedDescriptor::Symbol(descriptor.into());
    OwnedValue::Described(Box::new(OwnedDescribed { descriptor, value }))
}

/// A map whose keys are symbols, or strings if they can't be.
pub fn map_of(pairs: &[(&str, OwnedValue)]) -> OwnedValue {
    let key = |key: &str| match key.is_ascii() {
        true => OwnedValue::Symbol(key.into()),
        false => OwnedValue::String(key.into()),
    };
    let pairs = pairs.iter().map(|(name, value)| (key(name), value.clone()));
    OwnedValue::Map(OwnedMap(pairs.collect()))
}

/// Attaches a receiver with filters, and returns the broker's attach.
pub fn attach(client: &mut Amqp10, handle: u32, queue: &str, filters: &[(&str, OwnedValue)]) -> Seen {
    attach_as(client, handle, queue, filters, SenderSettleMode::Unsettled)
}

/// As [`attach`], with a settle mode.
pub fn attach_as(
    client: &mut Amqp10,
    handle: u32,
    queue: &str,
    filters: &[(&str, OwnedValue)],
    snd_settle_mode: SenderSettleMode,
) -> Seen {
    let address = format!("/queues/{queue}");
    let name = format!("receiver {handle}");
    let encoded = map_of(filters).encoded();
    let Value::Map(filter) = encoded.as_value() else { unreachable!("it is a map") };
    let attach = Attach {
        name: &name,
        handle,
        role: Role::Receiver,
        snd_settle_mode,
        source: Some(Source { address: Some(&address), filter: Some(filter), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    client.attach(CHANNEL, &attach)
}

/// The filters in the source of the broker's attach, in the order of their names.
pub fn echoed(attach: &Seen) -> Vec<(String, OwnedValue)> {
    let attach = attach.attach();
    let map = attach.source.as_ref().and_then(|source| source.filter).expect("a map of filters");
    let pair = |(key, value): (Value<'_>, Value<'_>)| (key.as_text().expect("a symbol").to_owned(), value.into());
    let mut filters: Vec<_> = map.iter().map(pair).collect();
    filters.sort_by(|(a, _), (b, _)| a.cmp(b));
    filters
}
