//! How queues and exchanges drop duplicates: by an id that publishers put into a header, compared with those of the last messages, or by
//! the publisher's name and a number that it counts up.

use std::sync::Arc;

use crate::{Arguments, ExchangeType, Refused, Value};

/// The argument that turns it on.
pub(crate) const DEDUPLICATES: &str = "x-message-deduplication";
/// The argument by which a queue drops what publishers send again that number their messages.
pub(crate) const PUBLISHERS: &str = "x-publisher-deduplication";
/// The argument with the number of ids that are compared.
pub(crate) const CACHE_SIZE: &str = "x-cache-size";
/// The argument with the time for which an id is compared, in milliseconds.
pub(crate) const CACHE_TTL: &str = "x-cache-ttl";
/// The argument with the name of the header, and the name of that header if the argument isn't given.
pub(crate) const HEADER: &str = "x-deduplication-header";
/// All of them.
pub(crate) const ARGUMENTS: [&str; 4] = [DEDUPLICATES, CACHE_SIZE, CACHE_TTL, HEADER];

/// The rules by which messages are duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deduplication {
    /// Number of messages whose ids are compared, the last ones.
    pub size: u32,
    /// Milliseconds for which they are compared; `None` if there is no end.
    pub ttl_ms: Option<u64>,
    /// The header with the id.
    pub header: Arc<str>,
}

impl Deduplication {
    /// Most messages whose ids can be compared. Each takes about 100 bytes of memory.
    pub const SIZE_MAX: u32 = 100_000;
    /// That number if it isn't given, as in LavinMQ.
    const SIZE_DEFAULT: u32 = 128;

    /// The rules that these arguments give, which were checked; `None` if they don't ask for it.
    pub(crate) fn of(arguments: &Arguments) -> Option<Arc<Self>> {
        (arguments.get(DEDUPLICATES) == Some(&Value::Bool(true))).then(|| Arc::new(Self::with(arguments)))
    }

    /// The rules of an exchange of this type with these arguments; `None` if it lets duplicates through.
    pub(crate) fn of_exchange(kind: ExchangeType, arguments: &Arguments) -> Option<Arc<Self>> {
        match kind {
            ExchangeType::Deduplication => Some(Arc::new(Self::with(arguments))),
            _ => Self::of(arguments),
        }
    }

    /// The rules, whether the arguments ask for it or not.
    fn with(arguments: &Arguments) -> Self {
        let number = |key| arguments.get(key).and_then(Value::as_int);
        Self {
            size: number(CACHE_SIZE).and_then(|size| size.try_into().ok()).unwrap_or(Self::SIZE_DEFAULT),
            ttl_ms: number(CACHE_TTL).and_then(|ttl_ms| ttl_ms.try_into().ok()),
            header: arguments.get(HEADER).and_then(Value::as_str).unwrap_or(HEADER).into(),
        }
    }
}

/// Whether a queue with these arguments, which were checked, drops what publishers send again that number their messages.
pub(crate) fn numbers_publishers(arguments: &Arguments) -> bool {
    arguments.get(PUBLISHERS) == Some(&Value::Bool(true))
}

/// Checks the arguments of a new exchange of this type. Whether it drops duplicates.
///
/// # Errors
/// One of them has a wrong value, or the type has no room for it.
pub(crate) fn check_exchange(kind: ExchangeType, arguments: &Arguments) -> Result<bool, Refused> {
    let refused = |text: String| Err(Refused::precondition(text));
    match arguments.get(DEDUPLICATES) {
        None | Some(Value::Bool(_)) => {}
        Some(other) => {
            return refused(format!("Invalid argument, '{DEDUPLICATES}' must be a boolean; received '{other}'"));
        }
    }
    if Deduplication::of_exchange(kind, arguments).is_none() {
        return Ok(false);
    }
    // These have a queue of their own already.
    if matches!(kind, ExchangeType::Delayed | ExchangeType::RecentHistory) {
        return refused(format!("Invalid argument, '{DEDUPLICATES}' can't be used with '{kind}'"));
    }
    for (key, max) in [(CACHE_SIZE, i64::from(Deduplication::SIZE_MAX)), (CACHE_TTL, i64::MAX)] {
        match arguments.get(key).map(|value| (value, value.as_int())) {
            None => {}
            Some((_, Some(number))) if number > max => {
                return refused(format!("Invalid argument, '{key}' is at most {max}; received '{number}'"));
            }
            Some((_, Some(1..))) => {}
            Some((value, _)) => {
                return refused(format!(
                    "Invalid argument, '{key}' must be an integer greater than 0; received '{value}'"
                ));
            }
        }
    }
    match arguments.get(HEADER) {
        Some(value) if value.as_str().is_none_or(|name| name.is_empty() || name.len() > 255) => {
            refused(format!("Invalid argument, '{HEADER}' must be the name of a header, of at most 255 bytes"))
        }
        _ => Ok(true),
    }
}
