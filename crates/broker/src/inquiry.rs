//! Questions to connections, which answer on their own cores.

use std::fmt;
use std::sync::Arc;

use crate::views::ConnectionView;

/// A question to a connection, and the function that gets its answer.
#[derive(Clone)]
pub struct Inquiry {
    answer: Arc<dyn Fn(ConnectionView) + Send + Sync>,
    is_brief: bool,
}

impl Inquiry {
    /// `answer` is called on the connection's core, outside every lock; never if the connection ends first.
    pub fn new(answer: impl Fn(ConnectionView) + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), is_brief: false }
    }

    /// The same, but the answer omits the client properties: these are most of its cost, and thousands of connections are asked
    /// for their numbers at a time.
    pub fn brief(answer: impl Fn(ConnectionView) + Send + Sync + 'static) -> Self {
        Self { is_brief: true, ..Self::new(answer) }
    }

    /// Whether the answer omits the client properties.
    pub fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Passes on the answer.
    pub fn answer(&self, view: ConnectionView) {
        (self.answer)(view);
    }
}

impl fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inquiry")
    }
}

impl PartialEq for Inquiry {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.answer, &other.answer)
    }
}

impl Eq for Inquiry {}
