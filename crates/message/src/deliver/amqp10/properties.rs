//! Properties (AMQP 1.0, 3.2.4).

use leveret_amqp10::message;

use crate::hub::{Properties, ReplyTo};

/// Appends the section, unless it is empty.
#[inline(always)]
pub(super) fn write(given: &Properties<'_>, out: &mut Vec<u8>) {
    let reply_to = given.reply_to.map(ReplyTo::address);
    let properties = message::Properties {
        message_id: given.message_id,
        user_id: given.user_id,
        to: given.to,
        subject: given.subject,
        reply_to: reply_to.as_deref(),
        correlation_id: given.correlation_id,
        content_type: given.content_type,
        content_encoding: given.content_encoding,
        absolute_expiry_time: given.absolute_expiry_time,
        creation_time: given.creation_time,
        group_id: given.group_id,
        group_sequence: given.group_sequence,
        reply_to_group_id: given.reply_to_group_id,
    };
    if properties != message::Properties::default() {
        properties.encode(out);
    }
}
