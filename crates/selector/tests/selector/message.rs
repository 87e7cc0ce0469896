//! Messages of tests.

use std::collections::HashMap;

use leveret_selector::{Fields, FilterValue, MessageField};

/// A value that a message owns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Owned {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Bytes(Vec<u8>),
    Uuid([u8; 16]),
}

/// The fields of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message(pub(crate) HashMap<MessageField, Owned>);

impl Message {
    pub(crate) fn with(mut self, field: MessageField, value: Owned) -> Self {
        self.0.insert(field, value);
        self
    }

    pub(crate) fn application(self, name: &str, value: Owned) -> Self {
        self.with(MessageField::Application(name.into()), value)
    }
}

impl Owned {
    pub(crate) fn value(&self) -> FilterValue<'_> {
        match self {
            Self::Null => FilterValue::Null,
            Self::Bool(value) => FilterValue::Bool(*value),
            Self::Int(value) => FilterValue::Int(*value),
            Self::Float(value) => FilterValue::float(*value),
            Self::Bytes(bytes) => FilterValue::Bytes(bytes),
            Self::Uuid(bytes) => FilterValue::Uuid(*bytes),
        }
    }
}

impl Fields for Message {
    fn field(&self, field: &MessageField) -> FilterValue<'_> {
        self.0.get(field).map_or(FilterValue::Null, Owned::value)
    }

    fn has(&self, field: &MessageField) -> bool {
        self.0.contains_key(field)
    }
}
