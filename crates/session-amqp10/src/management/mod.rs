//! Management over AMQP 1.0: RabbitMQ's version 2 API, by requests on a [link pair](crate::pairs).
//!
//! [Requests](requests) come in on one half of a pair that is [attached](crate::attach_pair); [responses](crate::responses) go out on
//! the other, in order, each when the change it reports is durable. [`route`] finds the module that serves a request: [`queues`],
//! [`exchanges`], [`bindings`] or [`tokens`].

mod bindings;
mod changes;
mod exchanges;
mod left;
mod queues;
mod requests;
mod route;
mod tokens;
