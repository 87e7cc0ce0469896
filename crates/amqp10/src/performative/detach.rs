use crate::Error;
use crate::composite::composite;

composite! {
    /// Detaches a link from its session (2.7.7).
    Detach['a] = DETACH, "detach" {
        /// The link.
        handle "handle": mandatory u32,
        /// Whether the sending peer closed the link for good.
        closed "closed": default bool = false,
        /// The reason.
        error "error": optional Error<'a>,
    }
}
