//! The mechanism AMQPLAIN of AMQP 0-9-1, which clients of other protocols may use too.

use leveret_amqp091::{Table, Value};

/// Converts AMQPLAIN's table, which has no length prefix, to PLAIN's form.
///
/// # Errors
/// The reason why it isn't such a table.
pub(super) fn plain(response: &[u8]) -> Result<Vec<u8>, String> {
    let bad = |what: &str| format!("AMQPLAIN response {what}");
    let table = Table::new(response).map_err(|error| bad(&format!("is not a field table: {error}")))?;
    let field = |name: &str| match table.lookup(name) {
        Some(Value::LongString(bytes)) => Ok(bytes),
        _ => Err(bad(&format!("has no string field {name}"))),
    };
    let mut plain = vec![0];
    plain.extend_from_slice(field("LOGIN")?);
    plain.push(0);
    plain.extend_from_slice(field("PASSWORD")?);
    Ok(plain)
}
