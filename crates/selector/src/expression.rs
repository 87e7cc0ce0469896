//! Compiled expressions.

use crate::MessageField;
use crate::like::Pattern;

/// A node of a compiled expression. The limit on tokens bounds the depth of the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Constant(Constant),
    Field(MessageField),
    /// The present time in milliseconds since the Unix epoch.
    Utc,
    Not(Box<Expression>),
    /// All of these, of which there are two or more.
    And(Vec<Expression>),
    /// One of these, of which there are two or more.
    Or(Vec<Expression>),
    Compare(Comparison, Box<[Expression; 2]>),
    Arithmetic(Arithmetic, Box<[Expression; 2]>),
    /// The operand, if it is a number.
    Plus(Box<Expression>),
    Minus(Box<Expression>),
    In(Box<Expression>, Box<[Expression]>),
    Between(Box<[Expression; 3]>),
    Like(Box<Expression>, Pattern),
    IsNull(MessageField),
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Constant {
    Bool(bool),
    Int(i128),
    Float(f64),
    Bytes(Box<[u8]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Expression {
    /// The number of its operators, operands and fields.
    pub(crate) fn size(&self) -> u64 {
        1 + match self {
            Self::Constant(_) | Self::Field(_) | Self::Utc | Self::IsNull(_) => 0,
            Self::Not(operand) | Self::Plus(operand) | Self::Minus(operand) | Self::Like(operand, _) => operand.size(),
            Self::And(operands) | Self::Or(operands) => operands.iter().map(Self::size).sum(),
            Self::Compare(_, operands) | Self::Arithmetic(_, operands) => operands.iter().map(Self::size).sum(),
            Self::In(operand, list) => operand.size() + list.iter().map(Self::size).sum::<u64>(),
            Self::Between(operands) => operands.iter().map(Self::size).sum(),
        }
    }
}
