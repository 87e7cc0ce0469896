//! Constructors (1.6).

pub(crate) const DESCRIBED: u8 = 0x00;
pub(crate) const NULL: u8 = 0x40;
pub(crate) const TRUE: u8 = 0x41;
pub(crate) const FALSE: u8 = 0x42;
pub(crate) const UINT_0: u8 = 0x43;
pub(crate) const ULONG_0: u8 = 0x44;
pub(crate) const LIST_0: u8 = 0x45;
pub(crate) const UBYTE: u8 = 0x50;
pub(crate) const BYTE: u8 = 0x51;
pub(crate) const UINT_SMALL: u8 = 0x52;
pub(crate) const ULONG_SMALL: u8 = 0x53;
pub(crate) const INT_SMALL: u8 = 0x54;
pub(crate) const LONG_SMALL: u8 = 0x55;
pub(crate) const BOOL: u8 = 0x56;
pub(crate) const USHORT: u8 = 0x60;
pub(crate) const SHORT: u8 = 0x61;
pub(crate) const UINT: u8 = 0x70;
pub(crate) const INT: u8 = 0x71;
pub(crate) const FLOAT: u8 = 0x72;
pub(crate) const CHAR: u8 = 0x73;
pub(crate) const DECIMAL_32: u8 = 0x74;
pub(crate) const ULONG: u8 = 0x80;
pub(crate) const LONG: u8 = 0x81;
pub(crate) const DOUBLE: u8 = 0x82;
pub(crate) const TIMESTAMP: u8 = 0x83;
pub(crate) const DECIMAL_64: u8 = 0x84;
pub(crate) const DECIMAL_128: u8 = 0x94;
pub(crate) const UUID: u8 = 0x98;
pub(crate) const BINARY_8: u8 = 0xA0;
pub(crate) const STRING_8: u8 = 0xA1;
pub(crate) const SYMBOL_8: u8 = 0xA3;
pub(crate) const BINARY_32: u8 = 0xB0;
pub(crate) const STRING_32: u8 = 0xB1;
pub(crate) const SYMBOL_32: u8 = 0xB3;
pub(crate) const LIST_8: u8 = 0xC0;
pub(crate) const MAP_8: u8 = 0xC1;
pub(crate) const LIST_32: u8 = 0xD0;
pub(crate) const MAP_32: u8 = 0xD1;
pub(crate) const ARRAY_8: u8 = 0xE0;
pub(crate) const ARRAY_32: u8 = 0xF0;

/// The name of the type with this constructor.
pub(crate) fn type_name(code: u8) -> Option<&'static str> {
    Some(match code {
        DESCRIBED => "described",
        NULL => "null",
        TRUE | FALSE | BOOL => "boolean",
        UINT_0 | UINT_SMALL | UINT => "uint",
        ULONG_0 | ULONG_SMALL | ULONG => "ulong",
        LIST_0 | LIST_8 | LIST_32 => "list",
        UBYTE => "ubyte",
        BYTE => "byte",
        INT_SMALL | INT => "int",
        LONG_SMALL | LONG => "long",
        USHORT => "ushort",
        SHORT => "short",
        FLOAT => "float",
        CHAR => "char",
        DECIMAL_32 => "decimal32",
        DOUBLE => "double",
        TIMESTAMP => "timestamp",
        DECIMAL_64 => "decimal64",
        DECIMAL_128 => "decimal128",
        UUID => "uuid",
        BINARY_8 | BINARY_32 => "binary",
        STRING_8 | STRING_32 => "string",
        SYMBOL_8 | SYMBOL_32 => "symbol",
        MAP_8 | MAP_32 => "map",
        ARRAY_8 | ARRAY_32 => "array",
        _ => return None,
    })
}
