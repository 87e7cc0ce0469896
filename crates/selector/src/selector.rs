//! Compiled expressions, as their users see them.

use crate::evaluate::{Evaluation, Truth};
use crate::expression::{Comparison, Constant, Expression};
use crate::{Budget, Dialect, Fields, MessageField, ParseError, Verdict, parser};

/// The largest number of characters of an expression (AMQP Filter Expressions 1.0, 7.1).
pub const CHARACTERS_MAX: usize = 4096;
/// The largest number of tokens of an expression.
pub const TOKENS_MAX: usize = 200;

/// A compiled expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    dialect: Dialect,
    text: Box<str>,
    root: Expression,
    /// The number of its operators, operands and fields.
    size: u64,
}

impl Selector {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`ParseError`] if it isn't one of the dialect or is over a limit.
    pub fn parse(expression: &str, dialect: Dialect) -> Result<Self, ParseError> {
        let root = parser::parse(expression, dialect)?;
        let size = root.size();
        Ok(Self { dialect, text: expression.into(), root, size })
    }

    /// Its dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The expression as its client wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates the expression for a message with these fields. `now_ms` is the present time in milliseconds since
    /// the Unix epoch.
    pub fn evaluate(&self, fields: &impl Fields, now_ms: u64, budget: &mut Budget) -> Verdict {
        if budget.is_spent() {
            return Verdict::OutOfBudget;
        }
        budget.pay(self.size);
        let mut evaluation = Evaluation { fields, dialect: self.dialect, now_ms, budget };
        Verdict::of(evaluation.truth(&self.root) == Truth::True)
    }

    /// A field and the bytes that it has in each message that matches, if the expression says so at its top level:
    /// it is `field = 'text'`, or such a comparison joined to others by AND. An index of consumers by this pair needs
    /// to evaluate only those whose bytes are the message's.
    pub fn equality(&self) -> Option<(&MessageField, &[u8])> {
        let mut rest = vec![&self.root];
        while let Some(node) = rest.pop() {
            match node {
                // The right one first, so that the first equality of the text is found first.
                Expression::And(operands) => rest.extend(operands.iter().rev()),
                Expression::Compare(Comparison::Equal, operands) => match &**operands {
                    // Its values are words that only this crate makes of a boolean.
                    [Expression::Field(MessageField::Durable), _] | [_, Expression::Field(MessageField::Durable)] => {}
                    [Expression::Field(field), Expression::Constant(Constant::Bytes(bytes))]
                    | [Expression::Constant(Constant::Bytes(bytes)), Expression::Field(field)] => {
                        return Some((field, bytes));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        None
    }
}
