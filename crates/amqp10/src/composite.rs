//! Composite types (1.3, 1.4): a descriptor and a list of fields, of which trailing nulls may be left out.

use crate::DecodeError;
use crate::error::{CompositeProblem, Problem};
use crate::field::{Field, unexpected};
use crate::value::{Descriptor, code, read_descriptor};
use crate::wire::{Reader, saturate};

/// A composite type.
pub(crate) trait Composite<'a>: Sized {
    const CODE: u64;
    const NAME: &'static str;

    fn read_fields(fields: Fields<'a>) -> Result<Self, CompositeProblem>;
    fn write_fields(&self, list: &mut ListWriter<'_>);

    /// Reads the list after the descriptor.
    #[inline]
    fn read_list(reader: &mut Reader<'a>) -> Result<Self, CompositeProblem> {
        Self::read_fields(Fields::read(reader).map_err(CompositeProblem::Whole)?)
    }

    /// Appends descriptor and list.
    #[inline]
    fn write_described(&self, out: &mut Vec<u8>) {
        let mut list = ListWriter::begin(out, Self::CODE);
        self.write_fields(&mut list);
        list.finish();
    }
}

/// The error of a composite type that isn't nested.
#[cold]
pub(crate) fn outer<'a, T: Composite<'a>>(problem: CompositeProblem, limit: u32) -> DecodeError {
    let composite = T::NAME;
    match problem {
        CompositeProblem::Whole(problem) => DecodeError::Value { place: composite, problem },
        CompositeProblem::Field(field, problem) => DecodeError::Field { composite, field, problem },
        CompositeProblem::Missing(field) => DecodeError::MissingField { composite, field },
        CompositeProblem::Extra(received) => DecodeError::ExtraFields { composite, received, limit },
    }
}

/// The error of a composite type nested in a field of another.
#[cold]
pub(crate) fn inner<'a, T: Composite<'a>>(problem: CompositeProblem, limit: u32) -> Problem {
    let composite = T::NAME;
    match problem {
        CompositeProblem::Whole(problem) => problem,
        CompositeProblem::Field(field, _) => Problem::Inner { composite, field },
        CompositeProblem::Missing(field) => Problem::Missing { composite, field },
        CompositeProblem::Extra(received) => Problem::Extra { composite, received, limit },
    }
}

/// Reads the descriptor of a field whose constructor `code` was read already.
pub(crate) fn descriptor_code<'a>(code: u8, reader: &mut Reader<'a>, expected: &'static str) -> Result<u64, Problem> {
    if code != code::DESCRIBED {
        return Err(unexpected(code, expected));
    }
    match read_descriptor(reader)? {
        Descriptor::Code(code) => Ok(code),
        symbol => symbol.code().ok_or(Problem::DescriptorName { expected }),
    }
}

/// The fields of a list, one after the other.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    reader: Reader<'a>,
    count: u32,
    left: u32,
}

impl<'a> Fields<'a> {
    #[inline(always)]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Problem> {
        let (count, body) = match reader.octet("constructor")? {
            code::LIST_8 => {
                let mut body = Reader::new(reader.short_bytes("list")?);
                (u32::from(body.octet("count")?), body)
            }
            code::LIST_0 => (0, Reader::new(&[])),
            code::LIST_32 => {
                let mut body = Reader::new(reader.long_bytes("list")?);
                (body.word("count")?, body)
            }
            other => return Err(unexpected(other, "list")),
        };
        if count as usize > body.len() {
            return Err(Problem::Count { count, available: saturate(body.len()) });
        }
        Ok(Self { reader: body, count, left: count })
    }

    /// The next field; `None` if it is null or missing.
    #[inline(always)]
    pub(crate) fn next<T: Field<'a>>(&mut self, name: &'static str) -> Result<Option<T>, CompositeProblem> {
        match self.left.checked_sub(1) {
            None => Ok(None),
            Some(left) => {
                self.left = left;
                let value = match self.reader.octet("constructor") {
                    Ok(code::NULL) => return Ok(None),
                    Ok(code) => T::read(code, &mut self.reader),
                    Err(problem) => Err(problem),
                };
                value.map(Some).map_err(|problem| CompositeProblem::Field(name, problem))
            }
        }
    }

    /// Fails if fields other than nulls are left, or bytes after the last one.
    #[inline(always)]
    pub(crate) fn finish(mut self) -> Result<(), CompositeProblem> {
        while self.left > 0 {
            self.left -= 1;
            if self.reader.octet("constructor").map_err(CompositeProblem::Whole)? != code::NULL {
                return Err(CompositeProblem::Extra(self.count));
            }
        }
        if self.reader.is_empty() {
            Ok(())
        } else {
            Err(CompositeProblem::Whole(Problem::Excess { count: saturate(self.reader.len()) }))
        }
    }
}

/// Writes descriptor and list, without trailing nulls and in the smallest encoding.
#[derive(Debug)]
pub(crate) struct ListWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Offset of the list's constructor.
    start: usize,
    count: u8,
    /// Number of fields up to the last one that isn't null.
    count_kept: u8,
    end_kept: usize,
}

impl<'o> ListWriter<'o> {
    #[inline(always)]
    pub(crate) fn begin(out: &'o mut Vec<u8>, descriptor: u64) -> Self {
        out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor as u8, code::LIST_8, 0, 0]);
        let end_kept = out.len();
        Self { start: end_kept - 3, end_kept, out, count: 0, count_kept: 0 }
    }

    #[inline(always)]
    pub(crate) fn value<'a>(&mut self, value: &impl Field<'a>) {
        value.write(self.out);
        self.count += 1;
        self.count_kept = self.count;
        self.end_kept = self.out.len();
    }

    #[inline(always)]
    pub(crate) fn null(&mut self) {
        self.out.push(code::NULL);
        self.count += 1;
    }

    #[inline(always)]
    pub(crate) fn optional<'a>(&mut self, value: Option<&impl Field<'a>>) {
        match value {
            Some(value) => self.value(value),
            None => self.null(),
        }
    }

    /// Completes the list.
    ///
    /// # Panics
    /// If the list has 4 GiB or more.
    #[inline(always)]
    pub(crate) fn finish(self) {
        let Self { out, start, count_kept, end_kept, .. } = self;
        out.truncate(end_kept);
        let items = end_kept - start - 3;
        if count_kept == 0 {
            out.truncate(start);
            out.push(code::LIST_0);
        } else if items < 255 {
            out[start + 1] = items as u8 + 1;
            out[start + 2] = count_kept;
        } else {
            widen(out, start, count_kept, items);
        }
    }
}

/// Turns the list8 at `start` into a list32.
#[cold]
fn widen(out: &mut Vec<u8>, start: usize, count: u8, items: usize) {
    let size = u32::try_from(items + 4).expect("a list is shorter than 4 GiB");
    let end = out.len();
    out.resize(end + 6, 0);
    out.copy_within(start + 3..end, start + 9);
    out[start] = code::LIST_32;
    out[start + 1..start + 5].copy_from_slice(&size.to_be_bytes());
    out[start + 5..start + 9].copy_from_slice(&u32::from(count).to_be_bytes());
}

/// Defines a composite type. Each field is `mandatory`, `optional` (an `Option`) or has a `default`.
macro_rules! composite {
    (
        $(#[$doc:meta])*
        $name:ident $([$lifetime:lifetime])? = $code:ident, $text:literal {
            $($(#[$field_doc:meta])* $field:ident $field_text:literal: $kind:ident $type:ty $(= $default:expr)?,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name $(<$lifetime>)? {
            $($(#[$field_doc])* pub $field: $crate::composite::field_type!($kind $type),)*
        }

        impl $(<$lifetime>)? Default for $name $(<$lifetime>)? {
            fn default() -> Self {
                Self { $($field: $crate::composite::field_default!($kind $($default)?),)* }
            }
        }

        impl<'wire> $crate::composite::Composite<'wire> for $crate::composite::of_wire!($name $([$lifetime])?) {
            const CODE: u64 = $crate::descriptor::$code;
            const NAME: &'static str = $text;

            #[inline(always)]
            fn read_fields(
                mut fields: $crate::composite::Fields<'wire>,
            ) -> Result<Self, $crate::error::CompositeProblem> {
                $(let $field = $crate::composite::field_read!(fields, $field_text, $kind $($default)?);)*
                fields.finish()?;
                Ok(Self { $($field,)* })
            }

            #[inline(always)]
            fn write_fields(&self, list: &mut $crate::composite::ListWriter<'_>) {
                $($crate::composite::field_write!(list, &self.$field, $kind $($default)?);)*
            }
        }

        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            /// Number of fields of the type.
            #[allow(dead_code)]
            pub(crate) const FIELD_COUNT: u32 = [$($field_text,)*].len() as u32;
        }
    };
}
pub(crate) use composite;

macro_rules! of_wire {
    ($name:ident) => { $name };
    ($name:ident [$lifetime:lifetime]) => { $name<'wire> };
}
pub(crate) use of_wire;

macro_rules! field_type {
    (optional $type:ty) => { Option<$type> };
    ($kind:ident $type:ty) => { $type };
}
pub(crate) use field_type;

macro_rules! field_default {
    (mandatory) => {
        Default::default()
    };
    (optional) => {
        None
    };
    (default $default:expr) => {
        $default
    };
}
pub(crate) use field_default;

macro_rules! field_read {
    ($fields:ident, $name:literal, mandatory) => {
        match $fields.next($name)? {
            Some(value) => value,
            None => return Err($crate::error::CompositeProblem::Missing($name)),
        }
    };
    ($fields:ident, $name:literal, optional) => {
        $fields.next($name)?
    };
    ($fields:ident, $name:literal, default $default:expr) => {
        $fields.next($name)?.unwrap_or($default)
    };
}
pub(crate) use field_read;

macro_rules! field_write {
    ($list:ident, $value:expr, mandatory) => {
        $list.value($value)
    };
    ($list:ident, $value:expr, optional) => {
        $list.optional($value.as_ref())
    };
    ($list:ident, $value:expr, default $default:expr) => {
        if *$value == $default { $list.null() } else { $list.value($value) }
    };
}
pub(crate) use field_write;
