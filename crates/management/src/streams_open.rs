//! Limits on responses that don't end by themselves.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most responses of a kind at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamLimits {
    /// To one user.
    pub(crate) of_user: usize,
    /// To all users.
    pub(crate) all: usize,
}

/// The limits of watchers; a browser shares one between all tabs.
pub(crate) const WATCHERS: StreamLimits = StreamLimits { of_user: 16, all: 256 };
/// The limits of taps, each of which holds some messages.
pub(crate) const TAPS: StreamLimits = StreamLimits { of_user: 4, all: 16 };

/// The responses of a kind that are being sent, by user.
#[derive(Clone)]
pub(crate) struct OpenStreams {
    limits: StreamLimits,
    by_user: Arc<Mutex<HashMap<Arc<str>, usize>>>,
}

/// The place of one of them, which is free again when this is dropped.
pub(crate) struct StreamPlace {
    open: OpenStreams,
    user: Arc<str>,
}

impl OpenStreams {
    pub(crate) fn new(limits: StreamLimits) -> Self {
        Self { limits, by_user: Arc::default() }
    }

    /// A place for one more response to this user.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn place(&self, user: &Arc<str>) -> Result<StreamPlace, StreamLimits> {
        let mut by_user = self.by_user.lock();
        let StreamLimits { of_user, all } = self.limits;
        if by_user.values().sum::<usize>() >= all || by_user.get(user).is_some_and(|own| *own >= of_user) {
            return Err(self.limits);
        }
        *by_user.entry(user.clone()).or_default() += 1;
        Ok(StreamPlace { open: self.clone(), user: user.clone() })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut by_user = self.open.by_user.lock();
        if let Some(own) = by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_the_node_have_a_limit_that_ended_responses_free() {
        let (of_user, all) = (16, 256);
        let open = OpenStreams::new(StreamLimits { of_user, all });
        let user = |at: usize| -> Arc<str> { format!("user {at}").into() };
        let mut own: Vec<_> = (0..of_user).map(|_| open.place(&user(0)).expect("a place")).collect();
        assert!(open.place(&user(0)).is_err());
        let others: Vec<_> = (of_user..all).map(|at| open.place(&user(at)).expect("a place")).collect();
        assert!(open.place(&user(all)).is_err());
        own.pop();
        drop(open.place(&user(0)).expect("a place"));
        drop((own, others));
        assert!(open.by_user.lock().is_empty());
    }
}
