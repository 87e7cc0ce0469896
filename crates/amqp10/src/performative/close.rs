use crate::Error;
use crate::composite::composite;

composite! {
    /// Closes a connection (2.7.9).
    Close['a] = CLOSE, "close" {
        /// The reason.
        error "error": optional Error<'a>,
    }
}
