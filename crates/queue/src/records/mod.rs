//! The contents of the records that a queue logs beside messages: runs of messages and what became of them.

mod annotated;
mod attempt_run;
mod delay_run;
mod dying_run;
mod kept_offset;
mod run;

pub use annotated::Annotated;
pub(crate) use attempt_run::push_attempts;
pub use attempt_run::{AttemptCounts, AttemptRun};
pub use delay_run::DelayRun;
pub use dying_run::DyingRun;
pub(crate) use dying_run::RUN_BYTES as DYING_RUN_BYTES;
pub use kept_offset::KeptOffset;
pub use run::{Run, joined, push_run, push_sized};
pub(crate) use run::{decode_runs, encode_runs};
