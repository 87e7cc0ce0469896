//! Filters on messages: SQL filter expressions with RabbitMQ's grammar and limits, JMS selectors, property filters.
//!
//! A [`Selector`] is compiled once and evaluated against the [`Fields`] of each message. Fields are borrowed and asked
//! for one by one, so that a message is decoded no further than an expression needs. Evaluation allocates nothing, and
//! pays for its steps from a [`Budget`].
//!
//! | filter | type | specification |
//! |---|---|---|
//! | `amqp:sql-filter` | [`Selector`] in [`Dialect::Amqp`] | AMQP Filter Expressions 1.0, section 6 |
//! | `apache.org:selector-filter:string` | [`Selector`] in [`Dialect::Jms`] | JMS 2.0, section 3.8.1 |
//! | `amqp:properties-filter`, `amqp:application-properties-filter` | [`PropertyFilter`] | AMQP Filter Expressions 1.0, section 4 |
//!
//! Rules that neither text decides are those of RabbitMQ 4.3.6, whose answers are recorded in this crate's tests.
//!
//! This crate must not know any protocol, messages, queues or clocks.
#![forbid(unsafe_code)]

mod budget;
mod error;
mod evaluate;
mod expression;
mod field;
mod lexer;
mod like;
mod parser;
mod properties;
mod property_bytes;
mod selector;
mod value;

pub use budget::{Budget, Verdict};
pub use error::{ParseError, ParseErrorKind};
pub use field::{Dialect, Fields, MessageField};
pub use properties::{FIELDS_MAX, PropertyFilter, PropertyFilterError, Reference};
pub use selector::{CHARACTERS_MAX, Selector, TOKENS_MAX};
pub use value::FilterValue;
