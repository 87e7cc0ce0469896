//! Limits headers to the size of the receiver's frames (AMQP 0-9-1, 4.2.6): a content header can't be split into
//! several frames.

use std::borrow::Cow;

use leveret_amqp091::{FieldTable, FieldValue, Properties};

use crate::stored::StoredMessage;

/// The header with all deaths of a message.
const X_DEATH: &[u8] = b"x-death";

/// Limits properties to `most` bytes. If they are larger because we added a long history of deaths, the oldest deaths
/// are left out.
///
/// # Errors
/// The size of the properties, if they are too large without the deaths.
pub fn within<'a>(message: &StoredMessage<'_>, properties: Cow<'a, [u8]>, most: usize) -> Result<Cow<'a, [u8]>, usize> {
    if properties.len() <= most {
        return Ok(properties);
    }
    let size = properties.len();
    if message.overlay.deaths().is_none() {
        return Err(size);
    }
    shortened(&properties, most).map(Cow::Owned).ok_or(size)
}

#[cold]
fn shortened(raw: &[u8], most: usize) -> Option<Vec<u8>> {
    let properties = Properties::decode(raw).ok()?;
    let headers: FieldTable = properties.headers?.into();
    let Some(FieldValue::Array(deaths)) = headers.lookup(X_DEATH) else { return None };
    let mut kept = deaths.len();
    while kept > 0 {
        kept /= 2;
        let mut table = FieldTable::new();
        for (key, value) in headers.iter() {
            match key {
                // The newest death comes first.
                X_DEATH if kept == 0 => {}
                X_DEATH => {
                    table.insert(key, FieldValue::Array(deaths[..kept].to_vec()));
                }
                _ => {
                    table.insert(key, value.clone());
                }
            }
        }
        let table = table.encoded();
        let mut out = Vec::new();
        Properties { headers: Some(table.as_table()), ..properties }.encode(&mut out);
        if out.len() <= most {
            return Some(out);
        }
    }
    None
}
