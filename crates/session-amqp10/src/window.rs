//! The session's windows: how many transfers each side may still send (specification 2.5.6).

use leveret_amqp10::{Serial, condition, performative::Flow};

use super::error::{Failure, Result};

/// The window that we announce as outgoing: nothing on our side limits it.
pub(crate) const OUTGOING_WINDOW: u32 = u32::MAX;

/// Both windows of a session. Ids here are transfer-ids: they count frames, not deliveries.
#[derive(Debug)]
pub(crate) struct Window {
    next_incoming_id: Serial,
    /// Transfers that the peer may still send; below zero only if an alarm closed the window while some were under way.
    incoming: i64,
    incoming_max: u32,
    /// Transfers beyond the window that were under way when an alarm closed it.
    excess_max: i64,
    shut: bool,
    next_outgoing_id: Serial,
    remote_incoming: u32,
    /// The outgoing window that the peer last announced; nothing depends on it.
    remote_outgoing: u32,
}

impl Window {
    /// The windows of a session whose `begin` came.
    pub(crate) fn new(next_incoming_id: Serial, remote_incoming: u32, incoming_max: u32) -> Self {
        Self {
            next_incoming_id,
            incoming: i64::from(incoming_max),
            incoming_max,
            excess_max: 0,
            shut: false,
            next_outgoing_id: Serial(0),
            remote_incoming,
            remote_outgoing: 0,
        }
    }

    /// Counts a transfer of the peer. True if the window opens again and the peer has to be sent a flow.
    ///
    /// # Errors
    /// The peer sent more than the window allows.
    pub(crate) fn received_transfer(&mut self) -> Result<bool> {
        self.next_incoming_id.advance();
        self.incoming -= 1;
        if self.incoming < -self.excess_max {
            return Err(Failure::session(
                condition::WINDOW_VIOLATION,
                format!("incoming window violation (tolerated excess transfers: {})", self.excess_max),
            ));
        }
        if self.shut || self.incoming > i64::from(self.incoming_max / 2) {
            return Ok(false);
        }
        self.incoming = i64::from(self.incoming_max);
        Ok(true)
    }

    /// The transfer that was received last is received again later.
    pub(crate) fn take_back_transfer(&mut self) {
        self.next_incoming_id = Serial(self.next_incoming_id.0.wrapping_sub(1));
        self.incoming += 1;
    }

    /// Closes the window in an alarm, or opens it after one. True if the peer has to be sent a flow.
    pub(crate) fn set_shut(&mut self, shut: bool) -> bool {
        if self.shut == shut {
            return false;
        }
        self.shut = shut;
        if shut {
            // Transfers that are under way already are allowed.
            self.excess_max = i64::from(self.incoming_max);
            self.incoming = 0;
        } else {
            self.excess_max = 0;
            self.incoming = i64::from(self.incoming_max);
        }
        true
    }

    /// Handles the session part of the peer's flow.
    ///
    /// # Errors
    /// The flow claims transfers that were never sent.
    pub(crate) fn received_flow(&mut self, flow: &Flow<'_>) -> Result<()> {
        // A peer that hasn't seen our begin yet doesn't know our first id, which is 0.
        let seen = flow.next_incoming_id.map_or(Serial(0), Serial);
        if seen > self.next_outgoing_id {
            return Err(Failure::session(
                condition::WINDOW_VIOLATION,
                format!("next-incoming-id from FLOW ({}) leads next-outgoing-id ({})", seen.0, self.next_outgoing_id.0),
            ));
        }
        let under_way = self.next_outgoing_id.since(seen);
        self.remote_incoming = flow.incoming_window.saturating_sub(under_way);
        self.next_incoming_id = Serial(flow.next_outgoing_id);
        self.remote_outgoing = flow.outgoing_window;
        Ok(())
    }

    /// Transfers that we may send now.
    pub(crate) fn room(&self) -> u32 {
        self.remote_incoming
    }

    /// The outgoing window that the peer last announced.
    pub(crate) fn remote_outgoing(&self) -> u32 {
        self.remote_outgoing
    }

    /// Sets the outgoing window that the peer announced.
    pub(crate) fn set_remote_outgoing(&mut self, transfers: u32) {
        self.remote_outgoing = transfers;
    }

    /// Counts a transfer that we sent.
    pub(crate) fn sent_transfer(&mut self) {
        self.next_outgoing_id.advance();
        self.remote_incoming = self.remote_incoming.saturating_sub(1);
    }

    /// Fills in the session's part of a flow of ours.
    pub(crate) fn flow<'a>(&self) -> Flow<'a> {
        Flow {
            next_incoming_id: Some(self.next_incoming_id.0),
            incoming_window: u32::try_from(self.incoming.max(0)).unwrap_or(u32::MAX),
            next_outgoing_id: self.next_outgoing_id.0,
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(next_incoming_id: Option<u32>, incoming_window: u32, next_outgoing_id: u32) -> Flow<'static> {
        Flow { next_incoming_id, incoming_window, next_outgoing_id, ..Flow::default() }
    }

    #[test]
    fn the_window_opens_again_at_half() {
        let mut window = Window::new(Serial(u32::MAX), 0, 400);
        for _ in 0..199 {
            assert_eq!(window.received_transfer(), Ok(false));
        }
        assert_eq!(window.received_transfer(), Ok(true));
        assert_eq!(window.flow().incoming_window, 400);
        assert_eq!(window.flow().next_incoming_id, Some(199));
    }

    #[test]
    fn an_alarm_tolerates_what_was_under_way_and_no_more() {
        let mut window = Window::new(Serial(0), 0, 10);
        assert!(window.set_shut(true));
        assert!(!window.set_shut(true));
        assert_eq!(window.flow().incoming_window, 0);
        for _ in 0..10 {
            assert_eq!(window.received_transfer(), Ok(false));
        }
        assert_eq!(window.received_transfer().unwrap_err().condition, condition::WINDOW_VIOLATION);
        assert!(window.set_shut(false));
        assert_eq!(window.flow().incoming_window, 10);
    }

    #[test]
    fn the_peers_window_counts_from_what_it_has_seen() {
        let mut window = Window::new(Serial(0), 5, 400);
        for _ in 0..5 {
            window.sent_transfer();
        }
        assert_eq!(window.room(), 0);
        window.received_flow(&flow(Some(3), 4, 0)).unwrap();
        assert_eq!(window.room(), 2);
        window.received_flow(&flow(None, 4, 0)).unwrap();
        assert_eq!(window.room(), 0);
        assert!(window.received_flow(&flow(Some(6), 4, 0)).is_err());
    }
}
