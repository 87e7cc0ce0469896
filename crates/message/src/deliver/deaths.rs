//! The headers and annotations that describe a message's deaths (dead-lettering).

use crate::annotations::{X_DEATH, X_OPT_DEATHS};
use crate::deaths::Deaths;

const FIRST_REASON: &str = "x-first-death-reason";
const FIRST_QUEUE: &str = "x-first-death-queue";
const FIRST_EXCHANGE: &str = "x-first-death-exchange";
const LAST_REASON: &str = "x-last-death-reason";
const LAST_QUEUE: &str = "x-last-death-queue";
const LAST_EXCHANGE: &str = "x-last-death-exchange";
/// The headers about the first and last death.
pub(super) const SUMMARY: [&str; 6] =
    [FIRST_REASON, FIRST_QUEUE, FIRST_EXCHANGE, LAST_REASON, LAST_QUEUE, LAST_EXCHANGE];

/// Whether a header or annotation of this name is part of the history of deaths. The broker's value then replaces the
/// publisher's.
pub(super) fn is_name(name: &str) -> bool {
    name == X_OPT_DEATHS || SUMMARY.contains(&name)
}

/// Whether only a broker's history of deaths sets an annotation of this name.
pub(crate) fn is_death_annotation(name: &str) -> bool {
    name == X_DEATH || is_name(name)
}

/// The value of a header of [`SUMMARY`]; `None` for other names.
pub(crate) fn header<'a>(deaths: &Deaths<'a>, name: &str) -> Option<&'a [u8]> {
    if !SUMMARY.contains(&name) {
        return None;
    }
    let first = || deaths.iter().find(|death| death.is_first);
    let last = || deaths.iter().next();
    match name {
        FIRST_REASON => first().map(|death| death.reason.as_str().as_bytes()),
        FIRST_QUEUE => first().map(|death| death.queue),
        FIRST_EXCHANGE => first().map(|death| death.exchange),
        LAST_REASON => last().map(|death| death.reason.as_str().as_bytes()),
        LAST_QUEUE => last().map(|death| death.queue),
        _ => Some(deaths.last_exchange()),
    }
}
