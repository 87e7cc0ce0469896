use crate::*;
pub struct Cut; 
#[derive(Debug)] pub struct Damage{ pub logs: Vec<LogId> }
impl std::fmt::Display for Damage { fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { Ok(()) } }
pub struct Hit;
pub trait Replay { fn restore(&mut self, state: LiveState); fn message(&mut self, log: LogId, number: u64, payload: &[u8]); fn settle(&mut self, log: LogId, reason: SettleReason, ranges: &[SettleRange]); fn control(&mut self, log: LogId, kind: u8, payload: &[u8]); }
pub struct Report{ pub clean: bool, pub cut: Option<Cut>, pub damaged: Vec<Damage>}
pub fn recover(_disk: &dyn Disk, _options: Options, _replay: &mut dyn Replay, _now: Nanos) -> Result<(Log, Report), StorageError> { panic!() }
impl Log { pub(crate) fn take_states(&mut self, _:Vec<LiveState>, _:Nanos)->Result<Vec<Event>,StorageError>{panic!()} }
