//! Management over AMQP 1.0: RabbitMQ's version 2 API, HTTP requests and responses as messages of a link pair
//! (HTTP over AMQP, working draft 06; link pair, committee specification 01).
//!
//! A [`pair`] is two links of one name: [`requests`] come in on one, [`responses`] go out on the other, in order, each
//! when the change it reports is durable. A [`request`] has a [`path`]; [`route`] finds the module that serves it:
//! [`queues`], [`exchanges`], [`bindings`] or [`tokens`], which take their [`fields`] and [`arguments`] out of its body.

mod arguments;
mod bindings;
mod changes;
mod exchanges;
mod fields;
mod left;
mod location;
mod names;
mod pair;
mod path;
mod queues;
mod refusal;
mod request;
mod requests;
mod response;
mod responses;
mod route;
mod tokens;

pub(super) use arguments::shown;
pub(crate) use pair::ADDRESS;
pub(crate) use requests::Requests;
pub(crate) use responses::{ResponseGrant, Responses, Waiting};
