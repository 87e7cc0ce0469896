use serde::{Deserialize, Serialize};

/// The priorities of messages that came before their queue was converted. The queue had other ones then, and a replay of its log has
/// to find the same as the conversion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierPriorities {
    /// They came before the message with this number.
    pub below: u64,
    /// The priority that counts as none.
    pub default: u8,
    /// The highest priority. Those of messages with a higher one are this.
    pub max: u8,
}

impl EarlierPriorities {
    /// The priority of a message with this number; `None` if it has the default one.
    pub fn of(&self, number: u64, priority: u8) -> Option<u8> {
        match number < self.below {
            true => Some(priority.min(self.max)).filter(|priority| *priority != self.default),
            false => Some(priority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_of_earlier_messages_are_those_of_their_queue() {
        let without = EarlierPriorities { below: 5, default: 0, max: 0 };
        assert_eq!((without.of(4, 9), without.of(4, 0), without.of(5, 9)), (None, None, Some(9)));
        let classic = EarlierPriorities { below: 5, default: 0, max: 3 };
        assert_eq!((classic.of(4, 9), classic.of(4, 0), classic.of(4, 2)), (Some(3), None, Some(2)));
        let quorum = EarlierPriorities { below: 5, default: 4, max: 31 };
        assert_eq!((quorum.of(4, 4), quorum.of(4, 0), quorum.of(4, 200)), (None, Some(0), Some(31)));
    }
}
