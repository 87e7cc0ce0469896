//! Hostile peers over AMQP 1.0: whoever ignores windows, credit, limits or the encoding is told so in the right frame or
//! is cut off, nobody else notices, and the node's memory stays bounded.
//!
//! A [`canary`](hostile_amqp10::canary) publishes and consumes beside every attack. A [`peer`](hostile_amqp10::peer)
//! writes what it likes.

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
