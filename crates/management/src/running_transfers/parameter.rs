//! The transfers of a cluster: each is a global parameter, so that another member knows it if the one that carries it out dies.

use std::sync::Arc;

use leveret_broker::transfer::TRANSFER_PARAMETER;
use leveret_model::Topology;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use super::Transfer;
use super::file::KeptTransfer;

/// Bits of a transfer's id that name the member that it was asked at, so that members choose different ones.
const MEMBER_BITS: u32 = 16;

/// Whether a global parameter keeps a transfer.
pub(crate) fn is_transfer(name: &str) -> bool {
    name.starts_with(TRANSFER_PARAMETER)
}

/// The name of the parameter that keeps a transfer.
pub(crate) fn name_of(id: u64) -> String {
    format!("{TRANSFER_PARAMETER}{id}")
}

/// The value of that parameter.
pub(crate) fn value_of(transfer: &Transfer) -> Value {
    serde_json::to_value(KeptTransfer::of(transfer)).expect("all of it can be written as JSON")
}

fn read(value: &Value) -> Option<Arc<Transfer>> {
    let KeptTransfer { id, asked, progress } = serde_json::from_value(value.clone()).ok()?;
    Some(Arc::new(Transfer { id, asked, progress: Mutex::new(progress), cancel: Notify::new() }))
}

/// The transfers as they were last kept.
pub(crate) fn kept(topology: &Topology) -> Vec<Arc<Transfer>> {
    let parameters = topology.global_parameters().filter(|(name, _)| is_transfer(name));
    parameters.filter_map(|(_, value)| read(value)).collect()
}

/// One of them.
pub(crate) fn kept_one(topology: &Topology, id: u64) -> Option<Arc<Transfer>> {
    read(topology.global_parameter(&name_of(id))?)
}

/// The next id that a member gives.
pub(crate) fn next_id(topology: &Topology, member: u16) -> u64 {
    let last = kept(topology).iter().map(|transfer| transfer.id >> MEMBER_BITS).max().unwrap_or(0);
    (last + 1) << MEMBER_BITS | u64::from(member)
}
