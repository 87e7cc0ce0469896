//! Compares with an independent codec: it reads what we write, and what it writes means the same.

mod support;

use fe2o3_amqp_types::messaging::{ApplicationProperties, Header, MessageAnnotations, Properties};
use fe2o3_amqp_types::performatives as theirs;
use leveret_amqp10::{OwnedValue, Performative, Value};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_amqp::{from_slice, to_vec};
use support::Dialect;
use support::layout::{self, PERFORMATIVES, SECTIONS};

/// Lets the oracle decode `bytes` and encode them again.
fn through_oracle(code: u64, bytes: &[u8]) -> Result<Vec<u8>, String> {
    macro_rules! through {
        ($type:ty) => {
            from_slice::<$type>(bytes).and_then(|value| to_vec(&value)).map_err(|error| error.to_string())
        };
    }
    match code {
        0x10 => through!(theirs::Open),
        0x11 => through!(theirs::Begin),
        0x12 => through!(theirs::Attach),
        0x13 => through!(theirs::Flow),
        0x14 => through!(theirs::Transfer),
        0x15 => through!(theirs::Disposition),
        0x16 => through!(theirs::Detach),
        0x17 => through!(theirs::End),
        0x18 => through!(theirs::Close),
        0x70 => through!(Header),
        0x72 => through!(MessageAnnotations),
        0x73 => through!(Properties),
        0x74 => through!(ApplicationProperties),
        _ => Err(format!("no type for {code:#x}")),
    }
}

#[test]
fn values() {
    let mut runner = TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() });
    runner
        .run(&support::leaf(), |value| {
            let mut ours = Vec::new();
            value.encode(&mut ours);
            let read: serde_amqp::Value = from_slice(&ours).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let theirs = to_vec(&read).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(OwnedValue::from(Value::decode_all(&theirs).unwrap()), value);
            Ok(())
        })
        .unwrap();
}

#[test]
fn performatives() {
    for layout in PERFORMATIVES {
        let mut runner = TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() });
        runner
            .run(&layout::composite(layout, Dialect::Oracle), |value| {
                let mut generated = Vec::new();
                value.encode(&mut generated);
                let (performative, _) = Performative::decode(&generated).unwrap();
                let mut ours = Vec::new();
                performative.encode(&mut ours);
                let theirs = through_oracle(layout.code, &ours).map_err(TestCaseError::fail)?;
                let (again, _) = Performative::decode(&theirs).unwrap();
                let mut again_bytes = Vec::new();
                again.encode(&mut again_bytes);
                let normal = |bytes| layout::normal(Value::decode_all(bytes).unwrap().into());
                prop_assert_eq!(normal(&again_bytes), normal(&ours));
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", layout.name));
    }
}

#[test]
fn sections() {
    for layout in SECTIONS {
        let mut runner = TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() });
        runner
            .run(&layout::composite(layout, Dialect::Oracle), |value| {
                let mut ours = Vec::new();
                value.encode(&mut ours);
                let theirs = through_oracle(layout.code, &ours).map_err(TestCaseError::fail)?;
                // The oracle always writes durability and priority of a header.
                if layout.name != "header" {
                    let read = OwnedValue::from(Value::decode_all(&theirs).unwrap());
                    prop_assert_eq!(layout::normal(read), layout::normal(value));
                }
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", layout.name));
    }
}
