//! Reads messages of AMQP 1.0 into the hub form: their own sections.

use leveret_amqp10::MapRef;
use leveret_amqp10::message::Sections;

use super::{BodyForm, Entries, Message, Properties, ReplyTo};
use crate::stored::StoredMessage;

/// The message with the sections of its bare message, or with as many of them as precede the body.
#[inline]
pub(super) fn read<'a>(stored: &StoredMessage<'a>, bare: &Sections<'a>) -> Message<'a> {
    let annotations = if stored.properties.is_empty() { None } else { annotations(stored.properties) };
    let properties = bare.properties.as_ref().map_or_else(Properties::default, |given| Properties {
        message_id: given.message_id,
        user_id: given.user_id,
        to: given.to,
        subject: given.subject,
        reply_to: given.reply_to.map(ReplyTo::Address),
        correlation_id: given.correlation_id,
        content_type: given.content_type,
        content_encoding: given.content_encoding,
        absolute_expiry_time: given.absolute_expiry_time,
        creation_time: given.creation_time,
        group_id: given.group_id,
        group_sequence: given.group_sequence,
        reply_to_group_id: given.reply_to_group_id,
    });
    Message {
        envelope: stored.envelope,
        overlay: stored.overlay,
        annotations: Entries::amqp10(annotations),
        properties,
        application_properties: Entries::amqp10(bare.application_properties),
        body: BodyForm::Sections,
        says_transient: false,
    }
}

fn annotations(section: &[u8]) -> Option<MapRef<'_>> {
    // They were checked when the message was received.
    Sections::parse(section).ok()?.message_annotations
}
