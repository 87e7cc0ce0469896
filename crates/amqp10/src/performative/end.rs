use crate::Error;
use crate::composite::composite;

composite! {
    /// Ends a session (2.7.8).
    End['a] = END, "end" {
        /// The reason.
        error "error": optional Error<'a>,
    }
}
