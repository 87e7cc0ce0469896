//! Filters of consumers: the fields of messages that they look at, and the filter of a message and of a stream.

mod filter_fields;
mod message_filter;
mod stream_filter;

pub use filter_fields::FilterFields;
pub use message_filter::MessageFilter;
pub use stream_filter::StreamFilter;
