//! Management over AMQP 1.0: RabbitMQ's version 2 API, by requests on a [link pair](crate::pairs).
//!
//! A [`pair`] is attached; [`requests`] come in on one half, [`responses`] go out on the other, in order, each when the change it
//! reports is durable. [`route`] finds the module that serves a request: [`queues`], [`exchanges`], [`bindings`] or [`tokens`].

mod bindings;
mod changes;
mod exchanges;
mod left;
mod pair;
mod queues;
mod requests;
mod responses;
mod route;
mod tokens;
