//! Large bodies on their way to the client: read from their files in pieces, as the socket takes them.
//!
//! A content's frames follow each other on their channel (specification 4.2.6); only frames of other channels may be
//! sent between them. Further frames of its own channel wait behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_queue::Taken;

use leveret_broker::bodies::{BodyReader, Pieces};
use leveret_broker::output::Output;
use leveret_broker::queue_handle::QueueRef;

/// The method before a content.
pub(crate) enum Lead {
    /// `basic.deliver` to the consumer with this tag.
    Deliver { consumer_tag: Arc<[u8]> },
    /// `basic.get-ok`, with the number of messages that are left.
    GetOk { left: u64 },
}

/// One message whose body is in a file.
pub(crate) struct Content {
    channel: u16,
    /// Method, tag and message; none once they were sent.
    lead: Option<(Lead, u64, Taken)>,
    queue: QueueRef,
    /// The reader of the body, from when the content is the first of its connection.
    reader: Option<BodyReader>,
    /// Frames of its channel that are sent after it.
    behind: Vec<u8>,
    /// Consumers that continue after it.
    parked: Vec<u64>,
}

/// The large contents of one connection, sent one after the other.
#[derive(Default)]
pub(crate) struct Contents {
    queue: VecDeque<Content>,
}

impl Contents {
    /// Adds a message whose body is in a file: the only one of the `Taken`.
    pub(super) fn begin(&mut self, channel: u16, (lead, tag, taken): (Lead, u64, Taken), queue: &QueueRef) {
        self.queue.push_back(Content {
            channel,
            lead: Some((lead, tag, taken)),
            queue: queue.clone(),
            reader: None,
            behind: Vec::new(),
            parked: Vec::new(),
        });
    }

    /// Takes out the first one, which is being sent.
    pub(super) fn take_first(&mut self) -> Option<Content> {
        self.queue.pop_front()
    }

    /// Puts the first one back.
    pub(super) fn put_first(&mut self, content: Content) {
        self.queue.push_front(content);
    }

    /// Whether there is one on this channel.
    pub(crate) fn is_on(&self, channel: u16) -> bool {
        self.queue.iter().any(|content| content.channel == channel)
    }

    /// The buffer that frames for this channel are written to.
    pub(crate) fn out<'a>(&'a mut self, output: &'a mut Output, channel: u16) -> &'a mut Vec<u8> {
        match self.queue.iter_mut().rfind(|content| content.channel == channel) {
            Some(content) => &mut content.behind,
            None => output.buffer(),
        }
    }

    /// Bytes of frames that wait behind contents.
    #[inline]
    pub(crate) fn behind_bytes(&self) -> usize {
        // This runs for every frame, and mostly there is no content.
        if self.queue.is_empty() { 0 } else { self.queue.iter().map(|content| content.behind.len()).sum() }
    }

    /// Parks a consumer until its channel's content is sent.
    pub(crate) fn park(&mut self, channel: u16, key: u64) {
        if let Some(content) = self.queue.iter_mut().rfind(|content| content.channel == channel) {
            content.parked.push(key);
        }
    }

    /// Handles the client's close of this channel: the client drops all further frames.
    pub(crate) fn forget(&mut self, channel: u16) {
        self.queue.retain(|content| content.channel != channel);
    }

    /// Channels and delivery-tags of those of which nothing was sent; of this channel, if one is given.
    pub(super) fn unsent(&self, channel: Option<u16>) -> Vec<(u16, u64)> {
        let of_channel = self.queue.iter().filter(|content| channel.is_none_or(|channel| content.channel == channel));
        of_channel.filter_map(|content| content.lead.as_ref().map(|(_, tag, _)| (content.channel, *tag))).collect()
    }

    /// Takes out all contents of a channel.
    pub(super) fn take(&mut self, channel: u16) -> VecDeque<Content> {
        let (taken, left) = std::mem::take(&mut self.queue).into_iter().partition(|content| content.channel == channel);
        self.queue = left;
        taken
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Whether any content isn't sent as a whole.
    pub(crate) fn are_under_way(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether something can be sent.
    pub(crate) fn is_ready(&self) -> bool {
        self.queue.front().is_some_and(Content::is_ready)
    }
}

impl Content {
    /// The channel that it is sent on.
    pub(super) fn channel(&self) -> u16 {
        self.channel
    }

    /// The queue that its message is in.
    pub(super) fn queue(&self) -> &QueueRef {
        &self.queue
    }

    /// Takes out method, tag and message, which are sent now. None once they were sent.
    pub(super) fn take_lead(&mut self) -> Option<(Lead, u64, Taken)> {
        self.lead.take()
    }

    /// Method, tag and message weren't sent.
    pub(super) fn put_lead_back(&mut self, lead: (Lead, u64, Taken)) {
        self.lead = Some(lead);
    }

    /// Whether something of it was sent.
    pub(super) fn is_begun(&self) -> bool {
        self.lead.is_none()
    }

    /// Whether it answers a get, and nothing of it was sent.
    pub(super) fn is_unsent_get(&self) -> bool {
        matches!(self.lead, Some((Lead::GetOk { .. }, ..)))
    }

    /// The reader of its body, which is begun by `read` if there is none.
    pub(super) fn reader(&mut self, read: impl FnOnce(&QueueRef) -> BodyReader) -> &mut BodyReader {
        self.reader.get_or_insert_with(|| read(&self.queue))
    }

    /// The reader of a body that is sent in pieces.
    pub(super) fn pieces(&mut self) -> Option<&mut Pieces> {
        match &mut self.reader {
            Some(BodyReader::Pieces(pieces)) => Some(pieces),
            Some(BodyReader::Whole(_)) | None => None,
        }
    }

    /// Frames of its channel that are sent after it.
    pub(super) fn behind(&self) -> &[u8] {
        &self.behind
    }

    /// The keys of consumers that continue after it.
    pub(super) fn parked(&self) -> &[u64] {
        &self.parked
    }

    fn is_ready(&self) -> bool {
        match &self.reader {
            None => true,
            Some(BodyReader::Pieces(pieces)) => pieces.has_news(),
            Some(BodyReader::Whole(whole)) => whole.has_news(),
        }
    }
}
