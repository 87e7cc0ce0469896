//! Link pairs of management over AMQP 1.0, and what comes and goes on them: HTTP requests and responses as messages (HTTP over AMQP,
//! working draft 06; link pair, committee specification 01).
//!
//! A pair is two links of one name, its [`halves`]. A [`request`] has a [`path`] and [`fields`] in its body; it is [`served`] or refused
//! with a [`refusal`], and that becomes a [`response`].

pub(crate) mod arguments;
mod described;
pub(crate) mod fields;
mod halves;
pub(crate) mod location;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod response;
mod served;

pub(crate) use described::describe;
pub(crate) use halves::{PairName, Requests, ResponseGrant, Responses, UNANSWERED_MAX, Waiting};
pub(crate) use served::{Changing, Served};

/// The address of the management node.
pub(crate) const ADDRESS: &str = "/management";
