//! Whether a replica may start from what its entry log and its store have, and how the two are made to fit.

use leveret_log::{Bounds, EntryError, EntryLog, Nanos, PlacementId};

use crate::placement::PlacementState;
use crate::settings::StartError;
use crate::types::ReplicaId;

/// Whether these can be ids of replicas.
pub(crate) fn check_replicas(ids: impl IntoIterator<Item = ReplicaId>) -> Result<(), StartError> {
    match ids.into_iter().any(|id| id == 0) {
        true => Err(StartError("no replica has the id 0; ids begin with 1".into())),
        false => Ok(()),
    }
}

/// Fits a placement's log to what the store has applied. Returns the highest clock that both know.
///
/// The store may be ahead of the log: others made entries durable before this node did, and the store synced them before the entry log was.
/// Then the log ends before what is applied, or has an older tail in its place, which was never acknowledged and gives way. The vote of
/// whoever led then was durable before the first of these entries came, so one that isn't there was lost.
///
/// # Errors
/// This replica can't vouch for its log.
pub(crate) fn fit(
    log: &mut EntryLog,
    placement: PlacementId,
    state: &PlacementState,
    now: Nanos,
) -> Result<u64, String> {
    let (term, next) = state.applied.map_or((0, 0), |(term, index)| (term, index + 1));
    log.applied(placement, next).map_err(|error| error.to_string())?;
    let voted = log.vote(placement).map_or(0, |vote| vote.term);
    if next > 0 && voted < term.max(1) {
        return Err(format!(
            "placement {placement} stops: its store has applied entry {} of term {term}, and the last vote in its entry log is of term \
             {voted}; votes were lost, so this replica can't vouch for its log; it has to be removed, and to join again under a new id",
            next - 1
        ));
    }
    let Bounds { first, purged_term, end, .. } = log.bounds(placement);
    if next < first {
        return Err(EntryError::NotThere { placement, from: next, to: first, first, end }.to_string());
    }
    let known = if next == first { Some(purged_term) } else { log.term(placement, next.saturating_sub(1)) };
    if next > 0 && known != Some(term) {
        log.purge(placement, next, term, now).map_err(|error| error.to_string())?;
    }
    Ok(state.clock.max(log.clock(placement)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use leveret_log::{Entry, EntryKind, EntryOptions, MemoryDisk, Vote, recover_entries};

    use super::*;

    const PLACEMENT: PlacementId = PlacementId(3);

    fn entry(term: u64, index: u64) -> Entry {
        let (placement, kind) = (PLACEMENT, EntryKind::Commands);
        Entry { kind, placement, index, term, led_by: 2, clock: 100 + index, committed: 0, body: Bytes::new() }
    }

    /// A log with a vote of this term and entries of these terms.
    fn log_with(voted: u64, terms: &[u64]) -> EntryLog {
        let options = EntryOptions { file_bytes: 16 << 10, buffer_bytes: 64 << 10, ..EntryOptions::default() };
        let (mut log, _) = recover_entries(&MemoryDisk::new(), &options, 0).unwrap();
        if voted > 0 {
            log.save_vote(PLACEMENT, Vote { term: voted, replica: 2, is_leader: true }, 0).unwrap();
        }
        log.append(PLACEMENT, (0..).zip(terms).map(|(index, term)| entry(*term, index)).collect(), 0).unwrap();
        log
    }

    fn applied(term: u64, index: u64) -> PlacementState {
        PlacementState { applied: Some((term, index)), clock: 101, ..PlacementState::default() }
    }

    #[test]
    fn a_store_ahead_of_its_entry_log_starts() {
        for (terms, end, last_term, clock) in [
            (&[1, 1][..], 3, 2, 101),
            (&[1, 1, 1], 3, 2, 102),
            (&[1, 1, 1, 1, 1], 3, 2, 104),
            (&[1, 1, 2], 3, 2, 102),
            (&[1, 1, 2, 2, 3], 5, 3, 104),
        ] {
            let mut log = log_with(3, terms);
            assert_eq!(fit(&mut log, PLACEMENT, &applied(2, 2), 0), Ok(clock), "{terms:?}");
            let bounds = log.bounds(PLACEMENT);
            assert_eq!((bounds.end, bounds.last_term), (end, last_term), "{terms:?}");
            assert_eq!(log.durably_applied(PLACEMENT), 3, "{terms:?}");
            log.append(PLACEMENT, vec![entry(3, 3)], 0).expect("it goes on");
        }
    }

    #[test]
    fn a_replica_whose_vote_is_gone_is_refused() {
        for (voted, terms, state) in
            [(0, &[][..], applied(2, 2)), (0, &[], applied(0, 0)), (1, &[1, 1, 1], applied(2, 2))]
        {
            let error = fit(&mut log_with(voted, terms), PLACEMENT, &state, 0).unwrap_err();
            assert!(error.contains("votes were lost") && error.contains("under a new id"), "{error}");
        }
        assert_eq!(fit(&mut log_with(0, &[]), PLACEMENT, &PlacementState::default(), 0), Ok(0), "a new one");
    }

    #[test]
    fn a_store_that_contradicts_its_entry_log_is_refused() {
        let error = fit(&mut log_with(3, &[1, 1, 3]), PLACEMENT, &applied(2, 2), 0).unwrap_err();
        assert!(error.contains("of term 2, but its log has one of term 3 there"), "{error}");
        let mut log = log_with(3, &[1, 1, 1]);
        log.applied(PLACEMENT, 3).unwrap();
        log.purge(PLACEMENT, 3, 1, 0).unwrap();
        let mut log_again = log_with(3, &[1, 1, 1]);
        log_again.applied(PLACEMENT, 2).unwrap();
        log_again.purge(PLACEMENT, 2, 1, 0).unwrap();
        let error = fit(&mut log_again, PLACEMENT, &applied(2, 1), 0).unwrap_err();
        assert!(error.contains("stops"), "{error}");
        let error = fit(&mut log, PLACEMENT, &applied(1, 1), 0).unwrap_err();
        assert!(error.contains("stops"), "{error}");
    }

    #[test]
    fn damage_and_ids_that_stand_for_others_are_refused() {
        let mut log = log_with(1, &[1]);
        let error = fit(&mut log, PlacementId::ANY, &PlacementState::default(), 0).unwrap_err();
        assert!(error.contains("stands for any placement"), "{error}");
        assert!(check_replicas([1, 0]).is_err() && check_replicas([1, 2]).is_ok());
    }
}
