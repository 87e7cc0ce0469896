//! Class 90: transactions.

use super::fields::method;

method! {
    /// Makes the channel transactional.
    Select = 90, 10, "tx.select" {}
}

method! {
    /// The channel is transactional.
    SelectOk = 90, 11, "tx.select-ok" {}
}

method! {
    /// Commits.
    Commit = 90, 20, "tx.commit" {}
}

method! {
    /// Committed.
    CommitOk = 90, 21, "tx.commit-ok" {}
}

method! {
    /// Rolls back.
    Rollback = 90, 30, "tx.rollback" {}
}

method! {
    /// Rolled back.
    RollbackOk = 90, 31, "tx.rollback-ok" {}
}
