//! Forming: the rules one by one, and small worlds in all their orders.

mod rules;
mod worlds;

use super::*;

/// Options of a blank node without a hint.
fn options(name: &str, rule: SeedRule, retry_limit: Option<u32>) -> FormingOptions {
    let name = name.to_owned();
    FormingOptions { name, started_at_ms: 5, is_blank: true, is_first_start: true, rule, retry_limit, target_size: 1 }
}
