//! Every command of both sides, against the layouts of the protocol.

mod support;

use leveret_stream_protocol::client::ServerCommand;
use leveret_stream_protocol::{DecodeError, Request, next_frame};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use support::{ANSWERS, FieldForm, REQUESTS};

type Layout = (u16, u16, &'static [FieldForm]);

/// Checks `property` with frames of each layout, and with the last part of the layout.
fn each(layouts: &'static [Layout], property: impl Fn(&[u8], Option<FieldForm>) -> TestCaseResult) {
    for layout in layouts {
        let mut runner = TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() });
        runner
            .run(&support::frame(*layout), |frame| property(&frame, layout.2.last().copied()))
            .unwrap_or_else(|error| panic!("{:#06x} version {}: {error}", layout.0, layout.1));
    }
}

/// Decodes one frame, which must be all of `bytes`.
fn request(bytes: &[u8]) -> Result<Request<'_>, DecodeError> {
    let (frame, used) = next_frame(bytes, 0).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    Request::decode(&frame)
}

fn answer(bytes: &[u8]) -> Result<ServerCommand<'_>, DecodeError> {
    let (frame, used) = next_frame(bytes, 0).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    ServerCommand::decode(&frame)
}

/// The frame with `end` bytes, its size set right.
fn cut(frame: &[u8], end: usize) -> Vec<u8> {
    [&(end as u32 - 4).to_be_bytes()[..], &frame[4..end]].concat()
}

#[test]
fn each_request_is_read_and_written_byte_for_byte() {
    each(REQUESTS, |frame, _| {
        let mut out = Vec::new();
        request(frame).unwrap().encode(&mut out).unwrap();
        prop_assert_eq!(out, frame);
        Ok(())
    });
}

#[test]
fn each_answer_is_read_and_written_byte_for_byte() {
    each(ANSWERS, |frame, _| {
        let mut out = Vec::new();
        support::encode(&mut out, &answer(frame).unwrap());
        prop_assert_eq!(out, frame);
        Ok(())
    });
}

#[test]
fn a_frame_without_its_end_is_incomplete() {
    let incomplete = |frame: &[u8], _| {
        for end in 0..frame.len() {
            prop_assert_eq!(next_frame(&frame[..end], 0), Ok(None));
        }
        Ok(())
    };
    each(REQUESTS, incomplete);
    each(ANSWERS, incomplete);
}

/// The lists that go to the end of a request may end sooner, and so may what is optional.
#[test]
fn a_request_cut_short_is_refused_or_has_a_shorter_list() {
    use FieldForm::*;
    each(REQUESTS, |frame, last| {
        for end in 8..frame.len() {
            let cut = cut(frame, end);
            match request(&cut) {
                Err(error) => prop_assert!(matches!(error, DecodeError::Truncated { .. }), "{error}"),
                Ok(Request::Publish(publish)) => {
                    let messages: Vec<_> = publish.messages().collect();
                    let Ok(Request::Publish(whole)) = request(frame) else { unreachable!() };
                    let is_short = messages.len() < whole.messages().count();
                    prop_assert!(is_short || messages.iter().any(Result::is_err));
                }
                Ok(other) => {
                    let may_be_short = matches!(last, Some(Pairs | SomePairs | Strings | Versions));
                    prop_assert!(may_be_short, "{other:?}");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn an_answer_cut_short_is_refused_or_has_nothing_but_a_code() {
    each(ANSWERS, |frame, last| {
        for end in 8..frame.len() {
            let cut = cut(frame, end);
            match answer(&cut) {
                Err(error) => prop_assert!(matches!(error, DecodeError::Truncated { .. }), "{error}"),
                Ok(
                    ServerCommand::Response { .. }
                    | ServerCommand::Opened { .. }
                    | ServerCommand::SaslAuthenticated { .. },
                ) => {
                    prop_assert_eq!(end, 14);
                }
                Ok(other) => prop_assert!(last == Some(FieldForm::Chunk), "{other:?}"),
            }
        }
        Ok(())
    });
}

proptest! {
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..300), index in 0..REQUESTS.len() + ANSWERS.len()) {
        let (key, version, _) = *REQUESTS.iter().chain(ANSWERS).nth(index).unwrap();
        let size = 4 + noise.len() as u32;
        let bytes = [&size.to_be_bytes()[..], &key.to_be_bytes(), &version.to_be_bytes(), &noise].concat();
        if let Ok(Request::Publish(publish)) = request(&bytes) {
            let _ = publish.messages().count();
        }
        if let Ok(decoded) = answer(&bytes) {
            prop_assert_eq!(ServerCommand::decode(&next_frame(&bytes, 0).unwrap().unwrap().0), Ok(decoded));
        }
        let _ = next_frame(&noise, 1000);
    }
}
