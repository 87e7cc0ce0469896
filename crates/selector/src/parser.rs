//! A Pratt parser: each operator binds as tightly as its rank says.
//!
//! Recursion is bounded by the limit on tokens.

use crate::error::ParseErrorKind;
use crate::expression::{Arithmetic, Constant, Expression};
use crate::lexer::{self, Keyword, Kind, Token, error_at};
use crate::like::Pattern;
use crate::{CHARACTERS_MAX, Dialect, ParseError};

/// How tightly an operator binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Or,
    And,
    Not,
    /// Comparisons, LIKE, IN, BETWEEN and IS NULL, of which none follows another.
    Comparison,
    Sum,
    Product,
    /// The operand of a sign, which has no operator of its own outside of parentheses.
    Operand,
}

impl Rank {
    /// The rank of the operators that may be in the right operand of a left-associative operator.
    fn tighter(self) -> Self {
        match self {
            Self::Or => Self::And,
            Self::And => Self::Not,
            Self::Not => Self::Comparison,
            Self::Comparison => Self::Sum,
            Self::Sum => Self::Product,
            Self::Product | Self::Operand => Self::Operand,
        }
    }
}

const OPERAND: &str = "a field, a value or (";
const OPERATOR: &str = "an operator or the end";

/// Compiles an expression.
pub(crate) fn parse(expression: &str, dialect: Dialect) -> Result<Expression, ParseError> {
    let characters = expression.chars().count();
    if characters > CHARACTERS_MAX {
        return Err(ParseError { kind: ParseErrorKind::TooLong { characters }, at: CHARACTERS_MAX + 1 });
    }
    let tokens = lexer::tokens(expression, dialect)?;
    let mut parser = Parser { expression, dialect, tokens, next: 0 };
    let node = parser.expression(Rank::Or)?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.unexpected(OPERATOR)),
    }
}

struct Parser<'t> {
    expression: &'t str,
    dialect: Dialect,
    tokens: Vec<Token<'t>>,
    next: usize,
}

impl Parser<'_> {
    /// An expression whose operators bind at least as tightly as `rank`.
    fn expression(&mut self, rank: Rank) -> Result<Expression, ParseError> {
        let mut left = self.prefix(rank)?;
        let mut is_comparison = false;
        loop {
            let Some(operator) = self.operator_rank() else { return Ok(left) };
            if operator < rank {
                return Ok(left);
            }
            // A truth value is no operand of these, unless it is in parentheses.
            if is_comparison && operator >= Rank::Comparison {
                return Err(self.unexpected("AND, OR or the end"));
            }
            is_comparison = operator == Rank::Comparison;
            left = self.infix(left, operator)?;
        }
    }

    /// The rank of the next token, if it is an infix operator.
    fn operator_rank(&self) -> Option<Rank> {
        Some(match self.peek()? {
            Kind::Keyword(Keyword::Or) => Rank::Or,
            Kind::Keyword(Keyword::And) => Rank::And,
            Kind::Comparison(_) => Rank::Comparison,
            Kind::Keyword(Keyword::Not | Keyword::Like | Keyword::In | Keyword::Is | Keyword::Between) => {
                Rank::Comparison
            }
            Kind::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => Rank::Sum,
            Kind::Arithmetic(_) => Rank::Product,
            _ => return None,
        })
    }

    /// An operand with the operators before it.
    fn prefix(&mut self, rank: Rank) -> Result<Expression, ParseError> {
        match self.peek() {
            Some(Kind::Keyword(Keyword::Not)) if rank <= Rank::Not => {
                self.next += 1;
                Ok(Expression::Not(Box::new(self.expression(Rank::Not)?)))
            }
            Some(Kind::Arithmetic(Arithmetic::Add)) => {
                self.next += 1;
                Ok(Expression::Plus(Box::new(self.operand()?)))
            }
            Some(Kind::Arithmetic(Arithmetic::Subtract)) => {
                self.next += 1;
                Ok(Expression::Minus(Box::new(self.operand()?)))
            }
            _ => self.operand(),
        }
    }

    fn operand(&mut self) -> Result<Expression, ParseError> {
        let node = match self.peek() {
            Some(Kind::Literal(constant)) => Expression::Constant(constant.clone()),
            Some(Kind::Text(text)) => Expression::Constant(Constant::Bytes(text.as_bytes().into())),
            Some(Kind::Field(field)) => Expression::Field(field.clone()),
            Some(Kind::Open) => {
                self.next += 1;
                let node = self.expression(Rank::Or)?;
                self.take(&Kind::Close, "an operator or )")?;
                return Ok(node);
            }
            Some(Kind::Keyword(Keyword::Utc)) => {
                self.next += 1;
                self.take(&Kind::Open, "( of UTC()")?;
                self.take(&Kind::Close, ") of UTC()")?;
                return Ok(Expression::Utc);
            }
            Some(Kind::Keyword(Keyword::Null)) => {
                return Err(self.unexpected("a value, because comparisons with NULL are unknown: write field IS NULL"));
            }
            _ => return Err(self.unexpected(OPERAND)),
        };
        self.next += 1;
        Ok(node)
    }

    /// The rest of an operator's expression, behind its left operand.
    fn infix(&mut self, left: Expression, rank: Rank) -> Result<Expression, ParseError> {
        let operator = self.tokens[self.next].kind.clone();
        self.next += 1;
        if rank == Rank::Comparison && !matches!(operator, Kind::Comparison(_)) {
            return self.predicate(left, operator);
        }
        let right = self.expression(rank.tighter())?;
        Ok(match (operator, left) {
            (Kind::Keyword(Keyword::Or), Expression::Or(mut operands)) => {
                operands.push(right);
                Expression::Or(operands)
            }
            (Kind::Keyword(Keyword::Or), left) => Expression::Or(vec![left, right]),
            (Kind::Comparison(comparison), left) => Expression::Compare(comparison, Box::new([left, right])),
            (Kind::Arithmetic(arithmetic), left) => Expression::Arithmetic(arithmetic, Box::new([left, right])),
            (_, Expression::And(mut operands)) => {
                operands.push(right);
                Expression::And(operands)
            }
            (_, left) => Expression::And(vec![left, right]),
        })
    }

    /// LIKE, IN, BETWEEN, these with NOT before them, or IS.
    fn predicate(&mut self, left: Expression, operator: Kind) -> Result<Expression, ParseError> {
        if operator == Kind::Keyword(Keyword::Is) {
            return self.is_null(left);
        }
        let is_negated = operator == Kind::Keyword(Keyword::Not);
        if is_negated {
            self.next += 1;
        }
        let node = match self.tokens.get(self.next - 1).map(|token| &token.kind) {
            Some(Kind::Keyword(Keyword::Like)) => self.like(left)?,
            Some(Kind::Keyword(Keyword::In)) => self.list(left)?,
            Some(Kind::Keyword(Keyword::Between)) => self.between(left)?,
            _ => {
                self.next -= 1;
                return Err(self.unexpected(match self.dialect {
                    Dialect::Amqp => "LIKE or IN",
                    Dialect::Jms => "LIKE, IN or BETWEEN",
                }));
            }
        };
        Ok(if is_negated { Expression::Not(Box::new(node)) } else { node })
    }

    fn is_null(&mut self, left: Expression) -> Result<Expression, ParseError> {
        let is_negated = self.peek() == Some(&Kind::Keyword(Keyword::Not));
        if is_negated {
            self.next += 1;
        }
        // A field in parentheses is an expression.
        let is_bare = self.tokens[self.next - 2 - usize::from(is_negated)].kind != Kind::Close;
        let Expression::Field(field) = left else { return Err(self.not_a_field(is_negated)) };
        if !is_bare {
            return Err(self.not_a_field(is_negated));
        }
        self.take(&Kind::Keyword(Keyword::Null), if is_negated { "NULL" } else { "NULL or NOT NULL" })?;
        let node = Expression::IsNull(field);
        Ok(if is_negated { Expression::Not(Box::new(node)) } else { node })
    }

    fn not_a_field(&mut self, is_negated: bool) -> ParseError {
        self.next -= 1 + usize::from(is_negated);
        self.unexpected("the end or AND or OR, because only the name of a field stands before IS NULL")
    }

    fn like(&mut self, left: Expression) -> Result<Expression, ParseError> {
        let at = self.next;
        let Some(Kind::Text(pattern)) = self.peek().cloned() else {
            return Err(self.unexpected("the pattern, a string,"));
        };
        self.next += 1;
        let mut escape = None;
        if self.peek() == Some(&Kind::Keyword(Keyword::Escape)) {
            self.next += 1;
            let Some(Kind::Text(text)) = self.peek().cloned() else {
                return Err(self.unexpected("the escape character, a string,"));
            };
            let mut characters = text.chars();
            escape = characters.next().filter(|_| characters.next().is_none());
            if escape.is_none() {
                return Err(self.fault(self.next, ParseErrorKind::Pattern("ESCAPE takes a string of one character")));
            }
            self.next += 1;
        }
        let pattern = Pattern::compile(&pattern, escape);
        pattern
            .map(|pattern| Expression::Like(Box::new(left), pattern))
            .map_err(|reason| self.fault(at, ParseErrorKind::Pattern(reason)))
    }

    fn list(&mut self, left: Expression) -> Result<Expression, ParseError> {
        self.take(&Kind::Open, "( of IN")?;
        let mut items = Vec::new();
        loop {
            items.push(match self.dialect {
                Dialect::Amqp => self.expression(Rank::Sum)?,
                Dialect::Jms if matches!(self.peek(), Some(Kind::Text(_))) => self.operand()?,
                Dialect::Jms => return Err(self.unexpected("a string of IN")),
            });
            match self.peek() {
                Some(Kind::Comma) => self.next += 1,
                _ => break,
            }
        }
        self.take(&Kind::Close, "an operator, a comma or ) of IN")?;
        Ok(Expression::In(Box::new(left), items.into()))
    }

    fn between(&mut self, left: Expression) -> Result<Expression, ParseError> {
        let low = self.expression(Rank::Sum)?;
        self.take(&Kind::Keyword(Keyword::And), "AND of BETWEEN")?;
        let high = self.expression(Rank::Sum)?;
        Ok(Expression::Between(Box::new([left, low, high])))
    }

    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    fn take(&mut self, kind: &Kind, expected: &'static str) -> Result<(), ParseError> {
        if self.peek() != Some(kind) {
            return Err(self.unexpected(expected));
        }
        self.next += 1;
        Ok(())
    }

    /// The next token is in the wrong place.
    fn unexpected(&self, expected: &'static str) -> ParseError {
        let found = match self.tokens.get(self.next) {
            Some(token) => token.text.chars().take(40).collect(),
            None => "the end of the expression".to_owned(),
        };
        self.fault(self.next, ParseErrorKind::Unexpected { found, expected })
    }

    fn fault(&self, token: usize, kind: ParseErrorKind) -> ParseError {
        let at = self.tokens.get(token).map_or(self.expression.len(), |token| token.at);
        error_at(self.expression, at, kind)
    }
}
