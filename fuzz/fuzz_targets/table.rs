//! Field tables: iteration reaches every byte of an accepted table, and the owned form encodes it again.
#![no_main]

use leveret_amqp091::{FieldTable, Table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(table) = Table::new(data) {
        let owned = FieldTable::from(table);
        let encoded = owned.encoded();
        let again = encoded.as_table();
        assert_eq!(again.as_bytes().len(), data.len());
        // NaN isn't equal to itself, so bytes are compared: once normalised they don't change.
        assert_eq!(FieldTable::from(Table::new(again.as_bytes()).unwrap()).encoded(), encoded);
        for (key, _) in table {
            assert!(table.lookup(key).is_some());
        }
    }
});
