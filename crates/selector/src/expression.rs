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
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
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
