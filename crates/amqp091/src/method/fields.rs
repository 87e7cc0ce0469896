//! Macros that generate a method's struct and codec from its list of fields.

use crate::DecodeError;
use crate::wire::Reader;

/// A method's arguments.
pub(crate) trait MethodFields<'a>: Sized {
    /// Class id in the upper half, method id in the lower half.
    const KEY: u32;

    /// The specification's name, such as `basic.publish`.
    const NAME: &'static str;

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
    fn write(&self, out: &mut Vec<u8>);
}

/// Defines the struct of a method. Fields are listed in wire order as `before ; bits ... ; then after`: in every
/// method of AMQP 0-9-1 all bits are adjacent and share one octet (4.2.5.2).
macro_rules! method {
    (
        $(#[$doc:meta])*
        $name:ident $([$lifetime:lifetime])? = $class:literal, $method:literal, $text:literal {
            $($(#[$before_doc:meta])* $before:ident: $before_type:ty,)*
            $(; bits $($(#[$bit_doc:meta])* $bit:ident = $mask:literal,)+)?
            $(; then $($(#[$after_doc:meta])* $after:ident: $after_type:ty,)+)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name $(<$lifetime>)? {
            $($(#[$before_doc])* pub $before: $before_type,)*
            $($($(#[$bit_doc])* pub $bit: bool,)+)?
            $($($(#[$after_doc])* pub $after: $after_type,)+)?
        }

        impl<'wire> $crate::method::fields::MethodFields<'wire>
            for $crate::method::fields::of_wire!($name $([$lifetime])?)
        {
            const KEY: u32 = ($class << 16) | $method;
            const NAME: &'static str = $text;

            #[inline(always)]
            fn read(
                reader: &mut $crate::wire::Reader<'wire>,
            ) -> Result<Self, $crate::DecodeError> {
                $(let $before = $crate::wire::Field::read(reader)?;)*
                $(
                    let bits = reader.octet()?;
                    $(let $bit = bits & $mask != 0;)+
                )?
                $($(let $after = $crate::wire::Field::read(reader)?;)+)?
                let _ = reader;
                Ok(Self { $($before,)* $($($bit,)+)? $($($after,)+)? })
            }

            #[inline(always)]
            fn write(&self, out: &mut Vec<u8>) {
                $($crate::wire::Field::write(&self.$before, out);)*
                $(out.push(0 $(| if self.$bit { $mask } else { 0 })+);)?
                $($($crate::wire::Field::write(&self.$after, out);)+)?
                let _ = out;
            }
        }
    };
}
pub(crate) use method;

/// The type that a method is decoded to: with the lifetime of the input if it borrows.
macro_rules! of_wire {
    ($name:ident) => { $name };
    ($name:ident [$lifetime:lifetime]) => { $name<'wire> };
}
pub(crate) use of_wire;
