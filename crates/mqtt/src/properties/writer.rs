//! Writing properties.

use super::id::Form;
use super::{Property, PropertyId, PropertyValue};
use crate::wire::{put_length_before, put_sized, put_variable};

/// Appends properties to a packet: their length is known when it is [ended](PropertyWriter::end).
pub struct PropertyWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> PropertyWriter<'a> {
    /// Begins properties at the end of `out`.
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start }
    }

    /// Appends a number, in the form that its property has.
    ///
    /// # Panics
    /// If the property isn't a number.
    pub fn number(&mut self, id: PropertyId, value: u32) {
        self.out.push(id as u8);
        match id.form() {
            Form::Byte => self.out.push(value as u8),
            Form::Two => self.out.extend_from_slice(&(value as u16).to_be_bytes()),
            Form::Four => self.out.extend_from_slice(&value.to_be_bytes()),
            Form::Variable => put_variable(self.out, value),
            Form::Text | Form::Binary | Form::Pair => panic!("{id} isn't a number"),
        }
    }

    /// Appends a string.
    pub fn text(&mut self, id: PropertyId, value: &str) {
        debug_assert!(id.form() == Form::Text, "{id} isn't a string");
        self.out.push(id as u8);
        put_sized(self.out, value.as_bytes());
    }

    /// Appends binary data.
    pub fn binary(&mut self, id: PropertyId, value: &[u8]) {
        debug_assert!(id.form() == Form::Binary, "{id} isn't binary data");
        self.out.push(id as u8);
        put_sized(self.out, value);
    }

    /// Appends a user property.
    pub fn user(&mut self, name: &str, value: &str) {
        self.out.push(PropertyId::UserProperty as u8);
        put_sized(self.out, name.as_bytes());
        put_sized(self.out, value.as_bytes());
    }

    /// Appends a property as it was read.
    pub fn property(&mut self, property: &Property<'_>) {
        match property.value {
            PropertyValue::Number(value) => self.number(property.id, value),
            PropertyValue::Text(value) => self.text(property.id, value),
            PropertyValue::Binary(value) => self.binary(property.id, value),
            PropertyValue::Pair(name, value) => self.user(name, value),
        }
    }

    /// Appends encoded properties.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Number of bytes so far, without the length.
    pub fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Whether there are none so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the properties: inserts their length before them.
    pub fn end(self) {
        put_length_before(self.out, self.start);
    }
}
