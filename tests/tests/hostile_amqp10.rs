//! Hostile peers over AMQP 1.0. A peer that ignores windows, credit, limits or the encoding is refused with the right
//! frame or disconnected, other clients are not affected, and the node's memory stays bounded.
//!
//! A [`canary`](hostile_amqp10::canary) publishes and consumes during every attack. A [`peer`](hostile_amqp10::peer)
//! writes arbitrary bytes.

mod hostile_amqp10 {
    pub(crate) mod bytes;
    pub(crate) mod canary;
    mod credit;
    mod frames;
    mod links;
    mod login;
    mod management;
    pub(crate) mod peer;
    mod random;
    mod sessions;
    mod transactions;
    mod transfers;
    mod values;
}
