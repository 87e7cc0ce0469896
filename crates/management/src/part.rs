//! Parts of lists that members of a cluster ask each other for, to make a page of the rows of all.

use std::ops::Range;

use crate::error::Error;
use crate::query::Query;

/// The parameter of a query.
pub(crate) const PART: &str = "part";
/// Most items of a part.
const ITEMS_MAX: usize = 16_384;

/// A range of a member's list, in the order that the query asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListPart {
    range: Range<usize>,
    /// The distance of its items.
    step: usize,
    is_of_keys: bool,
}

impl ListPart {
    /// The keys of each `step`th row, with the vhosts and names that decide between equal ones.
    pub(crate) fn keys(range: Range<usize>, step: usize) -> Self {
        ListPart { range, step, is_of_keys: true }
    }

    /// Rows as displayed.
    pub(crate) fn rows(range: Range<usize>) -> Self {
        ListPart { range, step: 1, is_of_keys: false }
    }

    /// The part that a query asks for.
    ///
    /// # Errors
    /// It is no part, or has too many items.
    pub(crate) fn of(query: &Query) -> Result<Option<Self>, Error> {
        let Some(text) = query.get(PART) else { return Ok(None) };
        let part = Self::parse(text).ok_or_else(|| Error::BadRequest("the part of the list is invalid".to_owned()))?;
        Ok(Some(part))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split('-');
        let is_of_keys = match words.next()? {
            "keys" => true,
            "rows" => false,
            _ => return None,
        };
        let mut number = || words.next()?.parse::<usize>().ok();
        let part = ListPart { range: number()?..number()?, step: number()?, is_of_keys };
        let is_right = words.next().is_none() && part.step > 0 && part.range.start <= part.range.end;
        (is_right && part.len().div_ceil(part.step) <= ITEMS_MAX).then_some(part)
    }

    /// A query for this part.
    pub(crate) fn added_to(&self, query: &Query) -> Query {
        let kind = if self.is_of_keys { "keys" } else { "rows" };
        let text = format!("{kind}-{}-{}-{}", self.range.start, self.range.end, self.step);
        let mut query = query.clone();
        query.insert(PART.to_owned(), text);
        query
    }

    /// The rows of its range.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    pub(crate) fn step(&self) -> usize {
        self.step
    }

    pub(crate) fn is_of_keys(&self) -> bool {
        self.is_of_keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_asked_for_in_a_query() {
        for part in
            [ListPart::keys(0..5000, 50), ListPart::keys(70..500, 1), ListPart::rows(3..40), ListPart::rows(0..0)]
        {
            let query = part.added_to(&Query::new());
            assert_eq!(ListPart::of(&query).ok().flatten(), Some(part));
        }
        assert_eq!(ListPart::of(&Query::new()).ok(), Some(None));
        for text in ["", "keys", "keys-1-2", "keys-2-1-1", "keys-1-2-0", "more-1-2-1", "rows-1-2-1-1", "rows-0-20000-1"]
        {
            let query: Query = [(PART.to_owned(), text.to_owned())].into();
            assert!(ListPart::of(&query).is_err(), "{text}");
        }
    }
}
