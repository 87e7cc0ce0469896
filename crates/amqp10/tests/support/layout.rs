//! The fields of every composite type, as the specification lists them.

use super::{Dialect, binary, described, map, string, symbol, uint, ulong};
use leveret_amqp10::OwnedValue;
use leveret_amqp10::value::{OwnedArray, OwnedDescriptor};
use proptest::collection::vec;
use proptest::prelude::*;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Bool,
    Ubyte,
    Ushort,
    Uint,
    Ulong,
    Timestamp,
    String,
    Symbol,
    Binary,
    /// A delivery-tag: at most 32 bytes.
    Tag,
    Map,
    /// A map whose values the oracle requires to be states or described; it is always empty.
    TypedMap,
    /// `multiple="true"`
    Symbols,
    /// Capabilities of a coordinator; the oracle only knows those of the specification.
    TransactionCapabilities,
    MessageId,
    /// A number from 0 to this one.
    UbyteTo(u8),
    UintTo(u32),
    OneOf(&'static [&'static str]),
    /// A described list with one of these codes.
    Composite(&'static [u64]),
}

/// Whether a field is mandatory, and its default if it isn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Mandatory,
    Optional,
    DefaultBool(bool),
    DefaultUbyte(u8),
    DefaultUshort(u16),
    DefaultUint(u32),
    DefaultSymbol(&'static str),
}

use FieldKind::*;
use Presence::*;

pub struct Layout {
    pub name: &'static str,
    pub code: u64,
    pub symbol: &'static str,
    pub fields: &'static [(&'static str, FieldKind, Presence)],
}

const fn layout(
    name: &'static str,
    code: u64,
    symbol: &'static str,
    fields: &'static [(&'static str, FieldKind, Presence)],
) -> Layout {
    Layout { name, code, symbol, fields }
}

const STATES: &[u64] = &[0x23, 0x24, 0x25, 0x26, 0x27, 0x33, 0x34];
const OUTCOMES: &[u64] = &[0x24, 0x25, 0x26, 0x27];
const EXPIRY: &[&str] = &["link-detach", "session-end", "connection-close", "never"];
const ERROR: FieldKind = Composite(&[0x1D]);
const NO: Presence = DefaultBool(false);

/// Performatives.
pub const PERFORMATIVES: &[Layout] = &[
    layout(
        "open",
        0x10,
        "amqp:open:list",
        &[
            ("container-id", String, Mandatory),
            ("hostname", String, Optional),
            ("max-frame-size", Uint, DefaultUint(u32::MAX)),
            ("channel-max", Ushort, DefaultUshort(u16::MAX)),
            ("idle-time-out", Uint, Optional),
            ("outgoing-locales", Symbols, Optional),
            ("incoming-locales", Symbols, Optional),
            ("offered-capabilities", Symbols, Optional),
            ("desired-capabilities", Symbols, Optional),
            ("properties", Map, Optional),
        ],
    ),
    layout(
        "begin",
        0x11,
        "amqp:begin:list",
        &[
            ("remote-channel", Ushort, Optional),
            ("next-outgoing-id", Uint, Mandatory),
            ("incoming-window", Uint, Mandatory),
            ("outgoing-window", Uint, Mandatory),
            ("handle-max", Uint, DefaultUint(u32::MAX)),
            ("offered-capabilities", Symbols, Optional),
            ("desired-capabilities", Symbols, Optional),
            ("properties", Map, Optional),
        ],
    ),
    layout(
        "attach",
        0x12,
        "amqp:attach:list",
        &[
            ("name", String, Mandatory),
            ("handle", Uint, Mandatory),
            ("role", Bool, Mandatory),
            ("snd-settle-mode", UbyteTo(2), DefaultUbyte(2)),
            ("rcv-settle-mode", UbyteTo(1), DefaultUbyte(0)),
            ("source", Composite(&[0x28]), Optional),
            ("target", Composite(&[0x29, 0x30]), Optional),
            ("unsettled", TypedMap, Optional),
            ("incomplete-unsettled", Bool, NO),
            ("initial-delivery-count", Uint, Optional),
            ("max-message-size", Ulong, Optional),
            ("offered-capabilities", Symbols, Optional),
            ("desired-capabilities", Symbols, Optional),
            ("properties", Map, Optional),
        ],
    ),
    layout(
        "flow",
        0x13,
        "amqp:flow:list",
        &[
            ("next-incoming-id", Uint, Optional),
            ("incoming-window", Uint, Mandatory),
            ("next-outgoing-id", Uint, Mandatory),
            ("outgoing-window", Uint, Mandatory),
            ("handle", Uint, Optional),
            ("delivery-count", Uint, Optional),
            ("link-credit", Uint, Optional),
            ("available", Uint, Optional),
            ("drain", Bool, NO),
            ("echo", Bool, NO),
            ("properties", Map, Optional),
        ],
    ),
    layout(
        "transfer",
        0x14,
        "amqp:transfer:list",
        &[
            ("handle", Uint, Mandatory),
            ("delivery-id", Uint, Optional),
            ("delivery-tag", Tag, Optional),
            ("message-format", Uint, Optional),
            ("settled", Bool, Optional),
            ("more", Bool, NO),
            ("rcv-settle-mode", UbyteTo(1), Optional),
            ("state", Composite(STATES), Optional),
            ("resume", Bool, NO),
            ("aborted", Bool, NO),
            ("batchable", Bool, NO),
        ],
    ),
    layout(
        "disposition",
        0x15,
        "amqp:disposition:list",
        &[
            ("role", Bool, Mandatory),
            ("first", Uint, Mandatory),
            ("last", Uint, Optional),
            ("settled", Bool, NO),
            ("state", Composite(STATES), Optional),
            ("batchable", Bool, NO),
        ],
    ),
    layout(
        "detach",
        0x16,
        "amqp:detach:list",
        &[("handle", Uint, Mandatory), ("closed", Bool, NO), ("error", ERROR, Optional)],
    ),
    layout("end", 0x17, "amqp:end:list", &[("error", ERROR, Optional)]),
    layout("close", 0x18, "amqp:close:list", &[("error", ERROR, Optional)]),
];

/// Bodies of SASL frames.
pub const SASL: &[Layout] = &[
    layout("sasl-mechanisms", 0x40, "amqp:sasl-mechanisms:list", &[("sasl-server-mechanisms", Symbols, Mandatory)]),
    layout(
        "sasl-init",
        0x41,
        "amqp:sasl-init:list",
        &[("mechanism", Symbol, Mandatory), ("initial-response", Binary, Optional), ("hostname", String, Optional)],
    ),
    layout("sasl-challenge", 0x42, "amqp:sasl-challenge:list", &[("challenge", Binary, Mandatory)]),
    layout("sasl-response", 0x43, "amqp:sasl-response:list", &[("response", Binary, Mandatory)]),
    layout(
        "sasl-outcome",
        0x44,
        "amqp:sasl-outcome:list",
        &[("code", UbyteTo(4), Mandatory), ("additional-data", Binary, Optional)],
    ),
];

/// Sections of a message that are lists.
pub const SECTIONS: &[Layout] = &[
    layout(
        "header",
        0x70,
        "amqp:header:list",
        &[
            ("durable", Bool, Optional),
            ("priority", Ubyte, Optional),
            ("ttl", Uint, Optional),
            ("first-acquirer", Bool, NO),
            ("delivery-count", Uint, DefaultUint(0)),
        ],
    ),
    layout(
        "properties",
        0x73,
        "amqp:properties:list",
        &[
            ("message-id", MessageId, Optional),
            ("user-id", Binary, Optional),
            ("to", String, Optional),
            ("subject", String, Optional),
            ("reply-to", String, Optional),
            ("correlation-id", MessageId, Optional),
            ("content-type", Symbol, Optional),
            ("content-encoding", Symbol, Optional),
            ("absolute-expiry-time", Timestamp, Optional),
            ("creation-time", Timestamp, Optional),
            ("group-id", String, Optional),
            ("group-sequence", Uint, Optional),
            ("reply-to-group-id", String, Optional),
        ],
    ),
];

/// Messages to the coordinator.
pub const TRANSACTIONS: &[Layout] = &[
    layout("declare", 0x31, "amqp:declare:list", &[("global-id", Binary, Optional)]),
    layout("discharge", 0x32, "amqp:discharge:list", &[("txn-id", Binary, Mandatory), ("fail", Bool, NO)]),
];

/// Lists within fields.
pub const INNER: &[Layout] = &[
    layout(
        "error",
        0x1D,
        "amqp:error:list",
        &[("condition", Symbol, Mandatory), ("description", String, Optional), ("info", Map, Optional)],
    ),
    layout(
        "received",
        0x23,
        "amqp:received:list",
        &[("section-number", Uint, Mandatory), ("section-offset", Ulong, Mandatory)],
    ),
    layout("accepted", 0x24, "amqp:accepted:list", &[]),
    layout("rejected", 0x25, "amqp:rejected:list", &[("error", ERROR, Optional)]),
    layout("released", 0x26, "amqp:released:list", &[]),
    layout(
        "modified",
        0x27,
        "amqp:modified:list",
        &[("delivery-failed", Bool, NO), ("undeliverable-here", Bool, NO), ("message-annotations", Map, Optional)],
    ),
    layout(
        "source",
        0x28,
        "amqp:source:list",
        &[
            ("address", String, Optional),
            ("durable", UintTo(2), DefaultUint(0)),
            ("expiry-policy", OneOf(EXPIRY), DefaultSymbol("session-end")),
            ("timeout", Uint, DefaultUint(0)),
            ("dynamic", Bool, NO),
            ("dynamic-node-properties", Map, Optional),
            ("distribution-mode", OneOf(&["move", "copy"]), Optional),
            ("filter", TypedMap, Optional),
            ("default-outcome", Composite(OUTCOMES), Optional),
            ("outcomes", Symbols, Optional),
            ("capabilities", Symbols, Optional),
        ],
    ),
    layout(
        "target",
        0x29,
        "amqp:target:list",
        &[
            ("address", String, Optional),
            ("durable", UintTo(2), DefaultUint(0)),
            ("expiry-policy", OneOf(EXPIRY), DefaultSymbol("session-end")),
            ("timeout", Uint, DefaultUint(0)),
            ("dynamic", Bool, NO),
            ("dynamic-node-properties", Map, Optional),
            ("capabilities", Symbols, Optional),
        ],
    ),
    layout("coordinator", 0x30, "amqp:coordinator:list", &[("capabilities", TransactionCapabilities, Optional)]),
    layout("declared", 0x33, "amqp:declared:list", &[("txn-id", Binary, Mandatory)]),
    layout(
        "transactional-state",
        0x34,
        "amqp:transactional-state:list",
        &[("txn-id", Binary, Mandatory), ("outcome", Composite(OUTCOMES), Optional)],
    ),
];

/// All lists.
pub fn all() -> impl Iterator<Item = &'static Layout> {
    [PERFORMATIVES, SASL, SECTIONS, TRANSACTIONS, INNER].into_iter().flatten()
}

fn find(code: u64) -> &'static Layout {
    all().find(|layout| layout.code == code).unwrap()
}

/// A composite value with random fields; absent ones are null.
pub fn composite(layout: &'static Layout, dialect: Dialect) -> BoxedStrategy<OwnedValue> {
    let mut fields: BoxedStrategy<Vec<OwnedValue>> = Just(Vec::new()).boxed();
    for (_, kind, presence) in layout.fields {
        let value = match presence {
            Mandatory => field(*kind, dialect),
            _ => prop_oneof![Just(OwnedValue::Null), field(*kind, dialect)].boxed(),
        };
        fields = (fields, value)
            .prop_map(|(mut fields, value)| {
                fields.push(value);
                fields
            })
            .boxed();
    }
    (fields, any::<bool>())
        .prop_map(|(mut fields, cut)| {
            while cut && fields.last() == Some(&OwnedValue::Null) {
                fields.pop();
            }
            let descriptor = if cut {
                OwnedDescriptor::Code(layout.code)
            } else {
                OwnedDescriptor::Symbol(layout.symbol.to_owned())
            };
            described(descriptor, OwnedValue::List(fields))
        })
        .boxed()
}

fn field(kind: FieldKind, dialect: Dialect) -> BoxedStrategy<OwnedValue> {
    match kind {
        Bool => any::<bool>().prop_map(OwnedValue::Bool).boxed(),
        Ubyte => any::<u8>().prop_map(OwnedValue::Ubyte).boxed(),
        Ushort => prop_oneof![any::<u16>(), Just(u16::MAX)].prop_map(OwnedValue::Ushort).boxed(),
        Uint => prop_oneof![uint(), Just(u32::MAX)].prop_map(OwnedValue::Uint).boxed(),
        Ulong => ulong().prop_map(OwnedValue::Ulong).boxed(),
        Timestamp => any::<i64>().prop_map(OwnedValue::Timestamp).boxed(),
        String => string().prop_map(OwnedValue::String).boxed(),
        Symbol => symbol().prop_map(OwnedValue::Symbol).boxed(),
        Binary => binary().prop_map(OwnedValue::Binary).boxed(),
        Tag => vec(any::<u8>(), 0..=32).prop_map(OwnedValue::Binary).boxed(),
        TypedMap if dialect == Dialect::Oracle => Just(OwnedValue::Null).boxed(),
        Map | TypedMap => map(dialect),
        TransactionCapabilities if dialect == Dialect::Oracle => {
            let known = ["amqp:local-transactions", "amqp:multi-txns-per-ssn"];
            let symbols = known.map(|symbol| OwnedValue::Symbol(symbol.to_owned())).to_vec();
            Just(OwnedValue::Array(OwnedArray::new(symbols).unwrap())).boxed()
        }
        Symbols | TransactionCapabilities => prop_oneof![
            symbol().prop_map(OwnedValue::Symbol),
            vec(symbol().prop_map(OwnedValue::Symbol), 1..4)
                .prop_map(|symbols| OwnedValue::Array(OwnedArray::new(symbols).unwrap())),
        ]
        .boxed(),
        MessageId if dialect == Dialect::Any => prop_oneof![
            field(kind, Dialect::Oracle),
            any::<u32>().prop_map(OwnedValue::Uint),
            any::<i32>().prop_map(OwnedValue::Int),
            any::<i64>().prop_map(OwnedValue::Long),
        ]
        .boxed(),
        MessageId => prop_oneof![
            ulong().prop_map(OwnedValue::Ulong),
            any::<[u8; 16]>().prop_map(OwnedValue::Uuid),
            binary().prop_map(OwnedValue::Binary),
            string().prop_map(OwnedValue::String),
        ]
        .boxed(),
        UbyteTo(last) => (0..=last).prop_map(OwnedValue::Ubyte).boxed(),
        UintTo(last) => (0..=last).prop_map(OwnedValue::Uint).boxed(),
        OneOf(choices) => (0..choices.len()).prop_map(|at| OwnedValue::Symbol(choices[at].to_owned())).boxed(),
        Composite(codes) => (0..codes.len()).prop_flat_map(move |at| composite(find(codes[at]), dialect)).boxed(),
    }
}

/// The canonical form of a composite value: descriptors as codes, defaults and absent fields as null, no trailing
/// nulls, single symbols of `multiple` fields as arrays.
pub fn normal(value: OwnedValue) -> OwnedValue {
    let OwnedValue::Described(outer) = value else { return value };
    let code = match &outer.descriptor {
        OwnedDescriptor::Code(code) => *code,
        OwnedDescriptor::Symbol(symbol) => all().find(|layout| layout.symbol == symbol).unwrap().code,
    };
    let OwnedValue::List(fields) = outer.value else { panic!("a composite value is a list") };
    let mut normal_fields = Vec::new();
    for (field, (_, kind, presence)) in fields.into_iter().zip(find(code).fields) {
        let is_default = match presence {
            Mandatory | Optional => false,
            DefaultBool(default) => field == OwnedValue::Bool(*default),
            DefaultUbyte(default) => field == OwnedValue::Ubyte(*default),
            DefaultUshort(default) => field == OwnedValue::Ushort(*default),
            DefaultUint(default) => field == OwnedValue::Uint(*default),
            DefaultSymbol(default) => field == OwnedValue::Symbol((*default).to_owned()),
        };
        normal_fields.push(match (kind, field) {
            _ if is_default => OwnedValue::Null,
            (Symbols | TransactionCapabilities, one @ OwnedValue::Symbol(_)) => {
                OwnedValue::Array(OwnedArray::new(vec![one]).unwrap())
            }
            (Composite(_), inner) => normal(inner),
            (_, field) => field,
        });
    }
    while normal_fields.last() == Some(&OwnedValue::Null) {
        normal_fields.pop();
    }
    described(OwnedDescriptor::Code(code), OwnedValue::List(normal_fields))
}
