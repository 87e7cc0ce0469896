//! Messages (3.2): sections are located without being copied.

mod before_bare;
mod body;
mod header;
mod lookup;
mod message_id;
mod plain;
mod properties;
mod sections;
mod start;
mod write;

pub use before_bare::BeforeBare;
pub use body::{BodyRef, DataIter, DataSections, RawValue, SequenceIter, SequenceSections};
pub use header::{DEFAULT_PRIORITY, Header};
pub use lookup::FieldLookup;
pub use message_id::{MessageId, OwnedMessageId};
pub use plain::PlainMessage;
pub use properties::Properties;
pub use sections::Sections;
pub use start::{BodyWalk, SectionStart};
pub use write::{
    MapSection, write_data, write_data_start, write_map_section, write_sequence, write_value, write_value_raw,
};
