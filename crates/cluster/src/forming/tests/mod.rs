//! Forming: the rules one by one, and small worlds in all their orders.

mod rules;
mod worlds;

use super::*;

/// Options of a blank node without a hint.
fn options(name: &str, rule: SeedRule, retry_limit: Option<u32>) -> FormingOptions {
    FormingOptions { name: name.to_owned(), started_at_ms: 5, is_blank: true, rule, retry_limit, target_size: 1 }
}
