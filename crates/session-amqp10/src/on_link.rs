//! A link that is taken out of its session while it works.

use super::session::Session;

/// A link with its session and handle.
pub(super) struct OnLink<'a, L> {
    pub session: &'a mut Session,
    pub handle: u32,
    pub link: &'a mut L,
}
