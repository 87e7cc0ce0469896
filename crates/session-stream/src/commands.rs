//! Commands with many fields.

use std::sync::Arc;

use leveret_queue::{StreamFilter, StreamStart};
use leveret_stream_protocol::{OffsetSpec, Pairs, Strings};

/// A command to subscribe.
pub(crate) struct Subscribe<'a> {
    pub correlation: u32,
    pub id: u8,
    pub stream: &'a str,
    pub start: OffsetSpec,
    pub credit: u16,
    pub properties: Pairs<'a>,
}

/// A command to create a super stream.
pub(crate) struct CreateSuperStream<'a> {
    pub correlation: u32,
    pub name: &'a str,
    pub partitions: Strings<'a>,
    pub binding_keys: Strings<'a>,
    pub arguments: Pairs<'a>,
}

/// Where a reader begins.
pub(crate) fn start_of(spec: OffsetSpec) -> StreamStart {
    match spec {
        OffsetSpec::First => StreamStart::First,
        OffsetSpec::Last => StreamStart::Last,
        OffsetSpec::None | OffsetSpec::Next => StreamStart::Next,
        OffsetSpec::Offset(offset) => StreamStart::Offset(offset),
        OffsetSpec::Timestamp(ms) => StreamStart::Timestamp(u64::try_from(ms).unwrap_or(0)),
    }
}

/// The filter that properties ask for: `filter.0`, `filter.1` and so on, and `match-unfiltered`.
pub(crate) fn filter_of(properties: Pairs<'_>) -> Option<Arc<StreamFilter>> {
    let values: Vec<Box<str>> =
        properties.iter().filter(|(name, _)| name.starts_with("filter.")).map(|(_, value)| value.into()).collect();
    let match_unfiltered = properties.get("match-unfiltered") == Some("true");
    let filter = || Arc::new(StreamFilter { values: values.clone(), match_unfiltered, ..StreamFilter::default() });
    (!values.is_empty()).then(filter)
}
