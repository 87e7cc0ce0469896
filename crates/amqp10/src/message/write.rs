//! Encodes the sections of a message (3.2).

use crate::descriptor;
use crate::field::Field;
use crate::value::{MapRef, Value, code, write_binary};

/// The sections that are maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MapSection {
    /// `delivery-annotations`
    DeliveryAnnotations = descriptor::DELIVERY_ANNOTATIONS as u8,
    /// `message-annotations`
    MessageAnnotations = descriptor::MESSAGE_ANNOTATIONS as u8,
    /// `application-properties`
    ApplicationProperties = descriptor::APPLICATION_PROPERTIES as u8,
    /// `footer`
    Footer = descriptor::FOOTER as u8,
}

/// Appends a section that is a map.
pub fn write_map_section(out: &mut Vec<u8>, section: MapSection, map: MapRef<'_>) {
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, section as u8]);
    map.write(out);
}

/// Appends a `data` section.
///
/// # Panics
/// If `bytes` has 4 GiB or more.
#[inline]
pub fn write_data(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor::DATA as u8]);
    write_binary(out, bytes);
}

/// Appends the beginning of a `data` section of `length` bytes, which the caller appends afterwards.
pub fn write_data_start(out: &mut Vec<u8>, length: u32) {
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor::DATA as u8, code::BINARY_32]);
    out.extend_from_slice(&length.to_be_bytes());
}

/// Appends an `amqp-value` section.
pub fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor::AMQP_VALUE as u8]);
    value.encode(out);
}

/// Appends an `amqp-value` section. `write` appends its value, for example a described list of a higher-level protocol.
pub fn write_value_raw(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor::AMQP_VALUE as u8]);
    write(out);
}

/// Appends an `amqp-sequence` section.
pub fn write_sequence(out: &mut Vec<u8>, list: crate::value::ListRef<'_>) {
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor::AMQP_SEQUENCE as u8]);
    Value::List(list).encode(out);
}
