//! The headers and annotations that describe a message's deaths (dead-lettering).

use crate::annotations::{
    DEATH_SUMMARY, FIRST_DEATH_EXCHANGE, FIRST_DEATH_QUEUE, FIRST_DEATH_REASON, LAST_DEATH_QUEUE, LAST_DEATH_REASON,
};
use crate::deaths::Deaths;

/// The value of a header of [`DEATH_SUMMARY`]; `None` for other names.
pub(crate) fn header<'a>(deaths: &Deaths<'a>, name: &str) -> Option<&'a [u8]> {
    if !DEATH_SUMMARY.contains(&name) {
        return None;
    }
    let first = || deaths.iter().find(|death| death.is_first);
    let last = || deaths.iter().next();
    match name {
        FIRST_DEATH_REASON => first().map(|death| death.reason.as_str().as_bytes()),
        FIRST_DEATH_QUEUE => first().map(|death| death.queue),
        FIRST_DEATH_EXCHANGE => first().map(|death| death.exchange),
        LAST_DEATH_REASON => last().map(|death| death.reason.as_str().as_bytes()),
        LAST_DEATH_QUEUE => last().map(|death| death.queue),
        _ => Some(deaths.last_exchange()),
    }
}
