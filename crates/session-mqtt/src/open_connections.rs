//! The number of open connections, for `mqtt.max_connections`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts open connections: each holds a [`OpenConnection`] from its login until its session is gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenConnections(Arc<AtomicUsize>);

/// One of them.
#[derive(Debug)]
pub(crate) struct OpenConnection(OpenConnections);

impl OpenConnections {
    /// Counts one more.
    ///
    /// # Errors
    /// There are `limit` already: the text for the log.
    pub(crate) fn enter(&self, limit: Option<usize>) -> Result<OpenConnection, String> {
        let limit = limit.unwrap_or(usize::MAX);
        let more = |count: usize| (count < limit).then_some(count + 1);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(OpenConnection(self.clone())),
            Err(_) => Err(format!(
                "connection refused: the limit of MQTT connections ({limit}) is reached; raise mqtt.max_connections"
            )),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_ends_makes_room() {
        let open = OpenConnections::default();
        let only = open.enter(Some(1)).expect("there is room");
        assert!(open.enter(Some(1)).expect_err("is full").contains("(1)"));
        drop(only);
        assert!(open.enter(Some(1)).is_ok());
    }
}
