//! Evaluates compiled expressions with the three truth values of SQL: true, false and unknown.

use std::cmp::Ordering;

use crate::expression::{Arithmetic, Comparison, Constant, Expression};
use crate::{Budget, Dialect, Fields, FilterValue, MessageField};

/// The priority of a message without one (AMQP 1.0, 3.2.1).
const PRIORITY_DEFAULT: i128 = 4;

/// A truth value of SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    False,
    True,
    Unknown,
}

impl From<bool> for Truth {
    #[inline]
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// An evaluation of one message.
pub(crate) struct Evaluation<'e, F> {
    pub(crate) fields: &'e F,
    pub(crate) dialect: Dialect,
    /// Milliseconds since the Unix epoch.
    pub(crate) now_ms: u64,
    pub(crate) budget: &'e mut Budget,
}

impl<'e, F: Fields> Evaluation<'e, F> {
    /// The truth of an expression; a value that isn't a boolean is unknown.
    pub(crate) fn truth(&mut self, expression: &'e Expression) -> Truth {
        match expression {
            Expression::Not(operand) => match self.truth(operand) {
                Truth::False => Truth::True,
                Truth::True => Truth::False,
                Truth::Unknown => Truth::Unknown,
            },
            Expression::And(operands) => self.logical(operands, Truth::True, Truth::False),
            Expression::Or(operands) => self.logical(operands, Truth::False, Truth::True),
            Expression::Compare(comparison, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (self.value(left), self.value(right));
                self.compare(*comparison, left, right)
            }
            Expression::In(operand, list) => self.is_in(operand, list),
            Expression::Between(operands) => self.between(operands),
            Expression::Like(operand, pattern) => {
                let subject = self.value(operand);
                let matches = subject.bytes().and_then(|subject| pattern.matches(subject, self.budget));
                matches.map_or(Truth::Unknown, Truth::from)
            }
            Expression::IsNull(field) => Truth::from(matches!(self.field(field), FilterValue::Null)),
            operand => match self.value(operand) {
                FilterValue::Bool(value) => Truth::from(value),
                _ => Truth::Unknown,
            },
        }
    }

    /// The value of an expression; [`FilterValue::Null`] is unknown.
    #[inline]
    fn value(&mut self, expression: &'e Expression) -> FilterValue<'e> {
        match expression {
            Expression::Field(field) => self.field(field),
            Expression::Constant(constant) => constant.value(),
            other => self.computed(other),
        }
    }

    fn computed(&mut self, expression: &'e Expression) -> FilterValue<'e> {
        match expression {
            Expression::Utc => FilterValue::Int(self.now_ms.into()),
            Expression::Arithmetic(operator, operands) => {
                let [left, right] = &**operands;
                operator.apply(self.value(left), self.value(right))
            }
            Expression::Plus(operand) => match self.value(operand) {
                number @ (FilterValue::Int(_) | FilterValue::Float(_)) => number,
                _ => FilterValue::Null,
            },
            Expression::Minus(operand) => match self.value(operand) {
                FilterValue::Int(value) => {
                    value.checked_neg().map_or(FilterValue::Float(-(value as f64)), FilterValue::Int)
                }
                FilterValue::Float(value) => FilterValue::Float(-value),
                _ => FilterValue::Null,
            },
            Expression::Field(field) => self.field(field),
            Expression::Constant(constant) => constant.value(),
            logical => match self.truth(logical) {
                Truth::False => FilterValue::Bool(false),
                Truth::True => FilterValue::Bool(true),
                Truth::Unknown => FilterValue::Null,
            },
        }
    }

    #[inline]
    fn field(&mut self, field: &MessageField) -> FilterValue<'e> {
        self.budget.pay_for_bytes(self.fields.bytes(field));
        let value = self.fields.field(field);
        match (field, value) {
            (MessageField::Priority, FilterValue::Null) => FilterValue::Int(PRIORITY_DEFAULT),
            (MessageField::Durable, FilterValue::Bool(durable)) if self.dialect == Dialect::Jms => {
                FilterValue::text(if durable { "PERSISTENT" } else { "NON_PERSISTENT" })
            }
            _ => value,
        }
    }

    /// The truth of operands of AND or OR: `decisive` if an operand is that, `otherwise` if all are.
    fn logical(&mut self, operands: &'e [Expression], otherwise: Truth, decisive: Truth) -> Truth {
        let mut result = otherwise;
        for operand in operands {
            match self.truth(operand) {
                truth if truth == decisive => return decisive,
                Truth::Unknown => result = Truth::Unknown,
                _ => {}
            }
        }
        result
    }

    #[inline]
    fn compare(&mut self, comparison: Comparison, left: FilterValue<'e>, right: FilterValue<'e>) -> Truth {
        if matches!(left, FilterValue::Null) || matches!(right, FilterValue::Null) {
            return Truth::Unknown;
        }
        let is_jms = self.dialect == Dialect::Jms;
        Truth::from(match comparison {
            Comparison::Equal => left.equals(right, self.budget),
            // JMS says that comparing types that aren't alike is false; RabbitMQ says that they are unequal.
            Comparison::NotEqual if is_jms && !left.is_like(right) => false,
            Comparison::NotEqual => !left.equals(right, self.budget),
            // In JMS strings have no order.
            _ if is_jms => left.compare_numbers(right).is_some_and(|order| comparison.holds(order)),
            _ => left.order(right, self.budget).is_some_and(|order| comparison.holds(order)),
        })
    }

    fn is_in(&mut self, operand: &'e Expression, list: &'e [Expression]) -> Truth {
        let value = self.value(operand);
        if matches!(value, FilterValue::Null) {
            return Truth::Unknown;
        }
        for item in list {
            let item = self.value(item);
            if item.equals(value, self.budget) {
                return Truth::True;
            }
        }
        Truth::False
    }

    fn between(&mut self, operands: &'e [Expression; 3]) -> Truth {
        let [value, low, high] = operands.each_ref().map(|operand| self.value(operand));
        if [value, low, high].contains(&FilterValue::Null) {
            return Truth::Unknown;
        }
        let in_order = |one: FilterValue<'_>, other| one.compare_numbers(other).is_some_and(Ordering::is_le);
        Truth::from(in_order(low, value) && in_order(value, high))
    }
}

impl Constant {
    #[inline]
    fn value(&self) -> FilterValue<'_> {
        match self {
            Self::Bool(value) => FilterValue::Bool(*value),
            Self::Int(value) => FilterValue::Int(*value),
            Self::Float(value) => FilterValue::Float(*value),
            Self::Bytes(bytes) => FilterValue::Bytes(bytes),
        }
    }
}

impl Comparison {
    #[inline]
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Arithmetic {
    /// The result; unknown if an operand isn't a number, and for a division by zero or a result that is out of range.
    /// A quotient is a floating-point number, and so is the result of integers that has over 127 bits.
    fn apply<'a>(self, left: FilterValue<'_>, right: FilterValue<'_>) -> FilterValue<'a> {
        let (left, right) = match (left, right) {
            (FilterValue::Int(left), FilterValue::Int(right)) => {
                let exact = match self {
                    Self::Add => left.checked_add(right),
                    Self::Subtract => left.checked_sub(right),
                    Self::Multiply => left.checked_mul(right),
                    Self::Divide => None,
                    Self::Remainder => return left.checked_rem(right).map_or(FilterValue::Null, FilterValue::Int),
                };
                if let Some(exact) = exact {
                    return FilterValue::Int(exact);
                }
                (left as f64, right as f64)
            }
            (FilterValue::Int(left), FilterValue::Float(right)) => (left as f64, right),
            (FilterValue::Float(left), FilterValue::Int(right)) => (left, right as f64),
            (FilterValue::Float(left), FilterValue::Float(right)) => (left, right),
            _ => return FilterValue::Null,
        };
        FilterValue::float(match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            // By zero it isn't finite.
            Self::Divide => left / right,
            // Only integers have one.
            Self::Remainder => return FilterValue::Null,
        })
    }
}
