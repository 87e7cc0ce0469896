//! A message whose body is read from its file.

use leveret_broker::bodies::BodyReader;
use leveret_queue::Taken;

use super::subscriptions::Level;

/// A message whose body is read from its file. Others wait behind it.
pub(crate) struct LargeDelivery {
    pub level: Level,
    /// The message, the only one of these.
    pub taken: Taken,
    pub reader: BodyReader,
}
