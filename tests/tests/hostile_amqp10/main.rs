//! Hostile peers over AMQP 1.0. A peer that ignores windows, credit, limits or the encoding is refused with the right
//! frame or disconnected, other clients are not affected, and the node's memory stays bounded.
//!
//! A [`canary`](canary) publishes and consumes during every attack. A [`peer`](peer)
//! writes arbitrary bytes.

mod bytes;
mod canary;
mod credit;
mod frames;
mod links;
mod login;
mod management;
mod peer;
mod random;
mod sessions;
mod transactions;
mod transfers;
mod values;
