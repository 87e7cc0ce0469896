//! AMQP 1.0 sessions: frames in, calls on queues and the control plane, frames out.
//!
//! [`steps`] says in which order a connection works and where its frames go, [`connection`] is its state. [`sasl`] and [`open`] bring it
//! up, [`closing`] takes links, sessions and the connection down. A [`session`] has a [`window`] and links: a [`publisher`] gets
//! credit by [`grant`] and its messages' outcomes from [`unconfirmed`], a [`consumer`]'s credit lives in its queue.
//! [`attach`] makes links out of [`address`]es, [`transfer`] publishes, by the short way of [`plain`] what it can,
//! [`deliver`] sends, [`disposition`] settles. [`management`] serves requests that declare, bind and delete.
//!
//! The parts of a connection stand below it, with their own fields: [`sessions`] with their [`link`]s, [`publishing`] links, open
//! [`transactions`], [`settlements`], [`endings`] that take several turns, [`questions`] that are answered later, link [`pairs`] of
//! management with the responses that wait.

mod address;
mod answers;
mod asked;
mod assembly;
mod attach;
mod attach_pair;
mod attached;
mod attaching;
mod closing;
mod confirming;
mod connection;
mod consumer;
mod coordinator;
mod credit_loop;
mod declaring;
mod deferral;
mod deliver;
mod discharging;
mod disposition;
mod durable;
mod dynamic;
mod endings;
mod ends;
mod error;
mod failing;
mod filters;
mod flow;
mod flows;
mod grant;
mod held;
mod large;
mod leave;
mod leave_link;
mod leaving;
mod link;
mod link_state;
mod management;
mod on_link;
mod open;
mod opened;
mod overdue;
mod pairs;
mod pending;
mod plain;
mod protocol;
mod publish_waits;
mod publisher;
mod publishing;
mod questions;
mod rejection;
mod replies;
mod requester;
mod responses;
mod runs;
mod sasl;
mod send;
mod session;
mod sessions;
mod settlements;
mod settling;
mod steps;
mod transacted;
mod transactions;
mod transfer;
mod unanswered;
mod unconfirmed;
mod unsettled;
mod view;
mod waking;
mod window;

pub use protocol::Amqp10Protocol;
