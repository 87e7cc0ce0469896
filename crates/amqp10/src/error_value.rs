//! The error sent to a peer (2.8.14).

use crate::composite::{Composite, composite, descriptor_code, inner};
use crate::error::Problem;
use crate::field::Field;
use crate::value::MapRef;
use crate::wire::Reader;
use crate::{Symbol, descriptor};

composite! {
    /// The reason why a connection, session, link or message ended.
    Error['a] = ERROR, "error" {
        /// One of [`condition`](crate::condition), or a condition of a higher-level protocol.
        condition "condition": mandatory Symbol<'a>,
        /// A description for people.
        description "description": optional &'a str,
        /// Additional information, by symbols.
        info "info": optional MapRef<'a>,
    }
}

impl<'a> Error<'a> {
    /// An error with a text.
    #[must_use]
    pub const fn new(condition: Symbol<'a>, description: &'a str) -> Self {
        Self { condition, description: Some(description), info: None }
    }
}

impl<'a> Field<'a> for Error<'a> {
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        match descriptor_code(code, reader, "error")? {
            descriptor::ERROR => Self::read_list(reader).map_err(|problem| inner::<Self>(problem, Self::FIELD_COUNT)),
            received => Err(Problem::Descriptor { received, expected: "error" }),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.write_described(out);
    }
}
