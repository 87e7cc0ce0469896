//! Values of fields and expressions.

use std::cmp::Ordering;

use crate::Budget;

/// A value, borrowed from a message or an expression.
///
/// The types are those that RabbitMQ's comparisons tell apart. Strings, symbols, binaries and UUIDs are compared as bytes;
/// integers of all widths, characters (by their code) and timestamps (in milliseconds) are integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FilterValue<'a> {
    /// No value, or an unknown one: a field that is missing or null, or has a type without a counterpart here
    /// (decimal, list, map, floating-point numbers that aren't finite).
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A finite floating-point number.
    Float(f64),
    /// The bytes of a string, symbol or binary.
    Bytes(&'a [u8]),
    /// The bytes of a UUID.
    Uuid([u8; 16]),
}

impl<'a> FilterValue<'a> {
    /// The bytes of a string.
    pub const fn text(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }

    /// A floating-point number; unknown if it isn't finite.
    pub fn float(value: f64) -> Self {
        if value.is_finite() { Self::Float(value) } else { Self::Null }
    }

    /// The bytes of a string, symbol, binary or UUID.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Uuid(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether both values are equal. Values of different types aren't, except for numbers of equal value.
    #[inline]
    pub(crate) fn equals(self, other: FilterValue<'_>, budget: &mut Budget) -> bool {
        match (self, other) {
            (FilterValue::Bytes(left), FilterValue::Bytes(right)) => {
                if left.len() != right.len() {
                    return false;
                }
                budget.pay_for_bytes(left.len());
                left == right
            }
            (FilterValue::Int(left), FilterValue::Int(right)) => left == right,
            _ => self.equals_otherwise(other),
        }
    }

    /// As [`equals`](Self::equals), for less common pairs of types.
    fn equals_otherwise(self, other: FilterValue<'_>) -> bool {
        match (self, other) {
            (FilterValue::Bool(left), FilterValue::Bool(right)) => left == right,
            (FilterValue::Uuid(_), _) | (_, FilterValue::Uuid(_)) => {
                self.bytes().is_some_and(|bytes| other.bytes() == Some(bytes))
            }
            _ => self.compare_numbers(other) == Some(Ordering::Equal),
        }
    }

    /// Whether comparing both values for equality makes sense: they are of like types (JMS 2.0, 3.8.1.3).
    pub(crate) fn is_like(self, other: FilterValue<'_>) -> bool {
        self.bytes().is_some() && other.bytes().is_some()
            || matches!(
                (self, other),
                (FilterValue::Bool(_), FilterValue::Bool(_))
                    | (FilterValue::Int(_) | FilterValue::Float(_), FilterValue::Int(_) | FilterValue::Float(_))
            )
    }

    /// The order of both values, if they are two numbers or two sequences of bytes.
    #[inline]
    pub(crate) fn order(self, other: FilterValue<'_>, budget: &mut Budget) -> Option<Ordering> {
        match (self.bytes(), other.bytes()) {
            (Some(left), Some(right)) => {
                budget.pay_for_bytes(left.len().min(right.len()));
                Some(left.cmp(right))
            }
            _ => self.compare_numbers(other),
        }
    }

    /// The order of two numbers by their exact values.
    #[inline]
    pub(crate) fn compare_numbers(self, other: FilterValue<'_>) -> Option<Ordering> {
        match (self, other) {
            (FilterValue::Int(left), FilterValue::Int(right)) => Some(left.cmp(&right)),
            (FilterValue::Float(left), FilterValue::Float(right)) => left.partial_cmp(&right),
            (FilterValue::Int(left), FilterValue::Float(right)) => Some(compare_exactly(left, right)),
            (FilterValue::Float(left), FilterValue::Int(right)) => Some(compare_exactly(right, left).reverse()),
            _ => None,
        }
    }
}

/// Compares an integer with a finite number: conversion to the type of the other would round.
fn compare_exactly(integer: i128, float: f64) -> Ordering {
    // Powers of two are exact. The range of i128 is [-2^127, 2^127).
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if float >= LIMIT {
        return Ordering::Less;
    }
    if float < -LIMIT {
        return Ordering::Greater;
    }
    let whole = float.trunc();
    let remainder = float - whole;
    integer.cmp(&(whole as i128)).then_with(|| 0.0_f64.partial_cmp(&remainder).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_are_compared_by_exact_value() {
        let compare = |integer, float| FilterValue::Int(integer).compare_numbers(FilterValue::Float(float)).unwrap();
        assert_eq!(compare(5, 5.0), Ordering::Equal);
        assert_eq!(compare(5, 5.5), Ordering::Less);
        assert_eq!(compare(-5, -5.5), Ordering::Greater);
        assert_eq!(compare(0, -0.0), Ordering::Equal);
        assert_eq!(compare((1 << 53) + 1, 9_007_199_254_740_992.0), Ordering::Greater);
        assert_eq!(compare((1 << 53) - 1, 9_007_199_254_740_992.0), Ordering::Less);
        assert_eq!(compare(i128::MAX, f64::MAX), Ordering::Less);
        assert_eq!(compare(i128::MIN, f64::MIN), Ordering::Greater);
        assert_eq!(compare(i128::MIN, -170_141_183_460_469_231_731_687_303_715_884_105_728.0), Ordering::Equal);
        assert_eq!(compare(i128::MAX, 170_141_183_460_469_231_731_687_303_715_884_105_728.0), Ordering::Less);
    }

    #[test]
    fn a_float_that_is_not_finite_is_unknown() {
        assert_eq!(FilterValue::float(f64::NAN), FilterValue::Null);
        assert_eq!(FilterValue::float(f64::NEG_INFINITY), FilterValue::Null);
        assert_eq!(FilterValue::float(0.5), FilterValue::Float(0.5));
    }
}
