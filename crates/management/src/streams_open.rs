//! Limits on responses that don't end by themselves.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most such responses to one user; a browser shares one between all tabs.
pub(crate) const OF_USER_MAX: usize = 16;
/// Most such responses to all users.
pub(crate) const ALL_MAX: usize = 256;

/// The responses that are being sent, by user.
#[derive(Default, Clone)]
pub(crate) struct OpenStreams {
    by_user: Arc<Mutex<HashMap<Arc<str>, usize>>>,
}

/// The place of one of them, which is free again when this is dropped.
pub(crate) struct StreamPlace {
    open: OpenStreams,
    user: Arc<str>,
}

impl OpenStreams {
    /// A place for one more response to this user; `None` if a limit is reached.
    pub(crate) fn place(&self, user: &Arc<str>) -> Option<StreamPlace> {
        let mut by_user = self.by_user.lock();
        if by_user.values().sum::<usize>() >= ALL_MAX || by_user.get(user).is_some_and(|own| *own >= OF_USER_MAX) {
            return None;
        }
        *by_user.entry(user.clone()).or_default() += 1;
        Some(StreamPlace { open: self.clone(), user: user.clone() })
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
        let open = OpenStreams::default();
        let user = |at: usize| -> Arc<str> { format!("user {at}").into() };
        let mut own: Vec<_> = (0..OF_USER_MAX).map(|_| open.place(&user(0)).expect("a place")).collect();
        assert!(open.place(&user(0)).is_none());
        let others: Vec<_> = (OF_USER_MAX..ALL_MAX).map(|at| open.place(&user(at)).expect("a place")).collect();
        assert!(open.place(&user(ALL_MAX)).is_none());
        own.pop();
        drop(open.place(&user(0)).expect("a place"));
        drop((own, others));
        assert!(open.by_user.lock().is_empty());
    }
}
