//! The work that evaluations may do.

/// Bytes of a comparison that count as one step.
pub(crate) const BYTES_PER_STEP: usize = 64;

/// The steps that are left for evaluations, for example in one turn of a queue.
///
/// A step is an operator, operand or field of the expression, whether or not the evaluation gets to it, 64 bytes of a
/// plain comparison, or a byte that a `LIKE` pattern with several wildcards looks at. An evaluation that has begun is finished, so that each turn makes progress: at most one
/// evaluation goes over the budget. Its cost is bounded by the size of the expression and by the length of the strings
/// that it compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    steps: u64,
}

impl Budget {
    /// A budget of this many steps.
    pub const fn new(steps: u64) -> Self {
        Self { steps }
    }

    /// The steps that are left.
    pub const fn steps(self) -> u64 {
        self.steps
    }

    /// Whether no step is left.
    pub const fn is_spent(self) -> bool {
        self.steps == 0
    }

    /// Pays for steps that are done.
    #[inline]
    pub(crate) fn pay(&mut self, steps: u64) {
        self.steps = self.steps.saturating_sub(steps);
    }

    /// Pays for a comparison of so many bytes.
    #[inline]
    pub(crate) fn pay_for_bytes(&mut self, bytes: usize) {
        self.pay((bytes / BYTES_PER_STEP) as u64);
    }
}

/// The outcome of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The filter evaluates to true.
    Match,
    /// It evaluates to false or unknown.
    NoMatch,
    /// The budget was spent before the evaluation began: go on with this message in the next turn.
    OutOfBudget,
}

impl Verdict {
    pub(crate) fn of(is_match: bool) -> Self {
        if is_match { Self::Match } else { Self::NoMatch }
    }
}
