//! Outgoing performatives. None is larger than the client's frames (2.7.1), however much of the client's data it
//! repeats.

use leveret_amqp10::{Error, Performative, condition, encode_performative, performative::Attach};

use super::connection::Connection;
use super::error::{Failure, Result};

/// Number of bytes by which a frame is too large for the client. It wasn't sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge(usize);

impl Connection {
    /// Sends a performative.
    ///
    /// # Errors
    /// The frame doesn't fit into the client's frames.
    pub(crate) fn send(&mut self, channel: u16, performative: &Performative<'_>) -> Result<(), TooLarge> {
        let most = self.opened.frame_max_out() as usize;
        let out = self.client.output.buffer();
        let before = out.len();
        encode_performative(out, channel, performative);
        let size = out.len() - before;
        if size <= most {
            return Ok(());
        }
        out.truncate(before);
        Err(TooLarge(size - most))
    }

    /// Sends the answer to an attach, most of which it repeats.
    ///
    /// # Errors
    /// The frame doesn't fit. Without an answer there is no link, so the session ends.
    pub(crate) fn send_attach(&mut self, channel: u16, attach: Attach<'_>) -> Result<()> {
        self.send(channel, &Performative::Attach(attach)).map_err(|TooLarge(excess)| {
            Failure::session(condition::FRAME_SIZE_TOO_SMALL, format!("Frame size is too small by {excess} bytes"))
        })
    }

    /// Sends a performative with an error, shortened to what fits.
    pub(crate) fn send_error<'e>(
        &mut self,
        channel: u16,
        error: Error<'e>,
        performative: impl Fn(Error<'e>) -> Performative<'e>,
    ) {
        let Err(TooLarge(excess)) = self.send(channel, &performative(error)) else { return };
        let text = error.description.unwrap_or_default();
        let kept = text.floor_char_boundary(text.len().saturating_sub(excess));
        let shorter = Error { description: Some(&text[..kept]), info: None, ..error };
        if self.send(channel, &performative(shorter)).is_err() {
            let shortest = Error { description: None, info: None, ..error };
            // A condition fits into the smallest frame that there may be.
            let _ = self.send(channel, &performative(shortest));
        }
    }
}
