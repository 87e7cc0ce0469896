//! Topic names and topic filters (MQTT 5, 4.7 and 4.8).

use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;

/// The beginning of a shared subscription (4.8.2).
pub const SHARE_PREFIX: &str = "$share/";

/// Checks the topic name of a message.
pub(crate) fn check_name(kind: PacketKind, name: &str) -> Decoded<()> {
    if name.is_empty() {
        return Err(DecodeError::EmptyTopic { kind });
    }
    match name.bytes().any(|byte| matches!(byte, b'#' | b'+')) {
        true => Err(DecodeError::WildcardInTopic { kind }),
        false => Ok(()),
    }
}

/// Checks a topic filter.
///
/// # Errors
/// The rule that it breaks.
pub fn check_filter(filter: &str) -> Result<(), &'static str> {
    let filter = match filter.strip_prefix(SHARE_PREFIX) {
        None => filter,
        Some(rest) => {
            let (name, filter) = rest.split_once('/').ok_or("a share name without a filter [MQTT-4.8.2-2]")?;
            if name.is_empty() || name.contains(['#', '+']) {
                return Err("a share name is empty or has a wildcard [MQTT-4.8.2-1]");
            }
            filter
        }
    };
    if filter.is_empty() {
        return Err("it is empty [MQTT-4.7.3-1]");
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        match level {
            "#" if levels.peek().is_some() => return Err("# isn't its last level [MQTT-4.7.1-1]"),
            "#" | "+" => {}
            level if level.contains('#') => return Err("# isn't a level by itself [MQTT-4.7.1-1]"),
            level if level.contains('+') => return Err("+ isn't a level by itself [MQTT-4.7.1-2]"),
            _ => {}
        }
    }
    Ok(())
}

/// The name of a shared subscription, and the filter behind it; `None` if the filter isn't a shared one.
pub fn shared(filter: &str) -> Option<(&str, &str)> {
    filter.strip_prefix(SHARE_PREFIX)?.split_once('/')
}

/// Whether a valid filter has wildcards.
pub fn has_wildcard(filter: &str) -> bool {
    filter.bytes().any(|byte| matches!(byte, b'#' | b'+'))
}

/// Whether a topic name matches a valid filter that isn't shared (4.7.1). Filters that begin with a wildcard leave topics that begin
/// with `$` alone [MQTT-4.7.2-1].
#[inline]
pub fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['#', '+']) {
        return false;
    }
    let mut topic = Some(topic);
    for level in filter.split('/') {
        if level == "#" {
            // It matches the parent, too (4.7.1.2).
            return true;
        }
        let Some(rest) = topic else { return false };
        let (first, behind) = match rest.split_once('/') {
            Some((first, behind)) => (first, Some(behind)),
            None => (rest, None),
        };
        if level != "+" && level != first {
            return false;
        }
        topic = behind;
    }
    topic.is_none()
}
