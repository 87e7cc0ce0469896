//! Descriptors of the specification's types (2.7, 3.2, 3.4, 3.5, 4.5, 5.3).

macro_rules! descriptors {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $symbol:literal;)*) => {
        $($(#[$doc])* pub const $name: u64 = $code;)*

        const NAMES: &[(u64, &str)] = &[$(($code, $symbol),)*];
    };
}

descriptors! {
    /// `open`
    OPEN = 0x10, "amqp:open:list";
    /// `begin`
    BEGIN = 0x11, "amqp:begin:list";
    /// `attach`
    ATTACH = 0x12, "amqp:attach:list";
    /// `flow`
    FLOW = 0x13, "amqp:flow:list";
    /// `transfer`
    TRANSFER = 0x14, "amqp:transfer:list";
    /// `disposition`
    DISPOSITION = 0x15, "amqp:disposition:list";
    /// `detach`
    DETACH = 0x16, "amqp:detach:list";
    /// `end`
    END = 0x17, "amqp:end:list";
    /// `close`
    CLOSE = 0x18, "amqp:close:list";
    /// `error`
    ERROR = 0x1D, "amqp:error:list";
    /// `received`
    RECEIVED = 0x23, "amqp:received:list";
    /// `accepted`
    ACCEPTED = 0x24, "amqp:accepted:list";
    /// `rejected`
    REJECTED = 0x25, "amqp:rejected:list";
    /// `released`
    RELEASED = 0x26, "amqp:released:list";
    /// `modified`
    MODIFIED = 0x27, "amqp:modified:list";
    /// `source`
    SOURCE = 0x28, "amqp:source:list";
    /// `target`
    TARGET = 0x29, "amqp:target:list";
    /// `delete-on-close`
    DELETE_ON_CLOSE = 0x2B, "amqp:delete-on-close:list";
    /// `delete-on-no-links`
    DELETE_ON_NO_LINKS = 0x2C, "amqp:delete-on-no-links:list";
    /// `delete-on-no-messages`
    DELETE_ON_NO_MESSAGES = 0x2D, "amqp:delete-on-no-messages:list";
    /// `delete-on-no-links-or-messages`
    DELETE_ON_NO_LINKS_OR_MESSAGES = 0x2E, "amqp:delete-on-no-links-or-messages:list";
    /// `coordinator`
    COORDINATOR = 0x30, "amqp:coordinator:list";
    /// `declare`
    DECLARE = 0x31, "amqp:declare:list";
    /// `discharge`
    DISCHARGE = 0x32, "amqp:discharge:list";
    /// `declared`
    DECLARED = 0x33, "amqp:declared:list";
    /// `transactional-state`
    TRANSACTIONAL_STATE = 0x34, "amqp:transactional-state:list";
    /// `sasl-mechanisms`
    SASL_MECHANISMS = 0x40, "amqp:sasl-mechanisms:list";
    /// `sasl-init`
    SASL_INIT = 0x41, "amqp:sasl-init:list";
    /// `sasl-challenge`
    SASL_CHALLENGE = 0x42, "amqp:sasl-challenge:list";
    /// `sasl-response`
    SASL_RESPONSE = 0x43, "amqp:sasl-response:list";
    /// `sasl-outcome`
    SASL_OUTCOME = 0x44, "amqp:sasl-outcome:list";
    /// `header`
    HEADER = 0x70, "amqp:header:list";
    /// `delivery-annotations`
    DELIVERY_ANNOTATIONS = 0x71, "amqp:delivery-annotations:map";
    /// `message-annotations`
    MESSAGE_ANNOTATIONS = 0x72, "amqp:message-annotations:map";
    /// `properties`
    PROPERTIES = 0x73, "amqp:properties:list";
    /// `application-properties`
    APPLICATION_PROPERTIES = 0x74, "amqp:application-properties:map";
    /// `data`
    DATA = 0x75, "amqp:data:binary";
    /// `amqp-sequence`
    AMQP_SEQUENCE = 0x76, "amqp:amqp-sequence:list";
    /// `amqp-value`
    AMQP_VALUE = 0x77, "amqp:amqp-value:*";
    /// `footer`
    FOOTER = 0x78, "amqp:footer:map";
}

/// The code of a descriptor's name.
#[must_use]
pub fn code_of(symbol: &str) -> Option<u64> {
    NAMES.iter().find(|(_, name)| *name == symbol).map(|(code, _)| *code)
}

/// The name of a descriptor's code, such as `amqp:open:list`.
#[must_use]
pub fn name_of(code: u64) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}
