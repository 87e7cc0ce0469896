//! Codec of the links between nodes of a cluster: how two nodes prove to each other that they have the same cookie, and the frames that
//! they exchange afterwards. Bytes in, bytes out.
//!
//! A link begins with a [`Handshake`]: the preamble, a HELLO of both sides, a proof of both sides, and a verdict of both sides. Afterwards
//! it carries [`PeerMessage`]s, cut into parts of at most 256 KiB so that a long body doesn't hold up the others ([`Outgoing`],
//! [`Assembler`]). All integers are little endian. Decoders take any bytes and never panic.
//!
//! It must not know: queues, Raft, sockets, threads, clocks, randomness.

mod assembler;
mod foreign;
mod forwarded;
mod frame;
mod gossip;
mod handshake;
mod hello;
mod outgoing;
mod proof;
mod wire;

pub use assembler::Assembler;
pub use foreign::describe;
pub use forwarded::{FORWARDED_BYTES_MAX, ForwardedIdentity, ForwardedRequest, ForwardedResponse};
pub use frame::{BodyPart, FrameError, HEAD_BYTES, PART_BYTES_MAX, PeerMessage, decode};
pub use gossip::{
    Gossip, GossipAddress, GossipCount, GossipEndedSession, GossipLed, GossipListener, GossipReplica, GossipSetting,
};
pub use handshake::{Handshake, HandshakeError, HandshakeStep, PREAMBLE, UNPROVEN_BYTES_MAX, Verdict, refusal};
pub use hello::{Hello, LinkKind, Versions};
pub use outgoing::Outgoing;
pub use proof::{Cookie, TokenKey};
pub use wire::FieldReader;
