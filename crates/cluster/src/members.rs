//! The members of a placement, as the body of an entry.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::types::{MemberInfo, Members, ReplicaId};

const VERSION: u8 = 1;
/// Most configurations at once: a change goes over one that consists of two.
const CONFIGURATIONS_MAX: usize = 2;

/// Version, number of configurations, zeros (2), then each: number of voters u32, the voters u64; then the number of all replicas u32 and
/// these.
pub(crate) fn encode(members: &Members) -> Bytes {
    let configurations = members.get_joint_config();
    let mut bytes = vec![VERSION, configurations.len() as u8, 0, 0];
    let mut put = |ids: &mut dyn ExactSizeIterator<Item = ReplicaId>| {
        bytes.extend_from_slice(&(ids.len() as u32).to_le_bytes());
        ids.for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
    };
    configurations.iter().for_each(|voters| put(&mut voters.iter().copied()));
    let all: Vec<ReplicaId> = members.nodes().map(|(id, _)| *id).collect();
    put(&mut all.into_iter());
    bytes.into()
}

/// The members in these bytes; `None` if it isn't an encoding of this version. A configuration without a voter would commit whatever is
/// proposed, and a replica has an id from 1 on.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Members> {
    let head = bytes.split_off(..4)?;
    let count = usize::from(head[1]);
    if head[0] != VERSION || count == 0 || count > CONFIGURATIONS_MAX || head[2..] != [0; 2] {
        return None;
    }
    let mut ids = || -> Option<BTreeSet<ReplicaId>> {
        let count = u32::from_le_bytes(bytes.split_off(..4)?.try_into().ok()?) as usize;
        let encoded = bytes.split_off(..count.checked_mul(8)?)?;
        let ids = encoded.chunks_exact(8).map(|id| Some(u64::from_le_bytes(id.try_into().ok()?)));
        let ids: Vec<ReplicaId> = ids.collect::<Option<_>>()?;
        let is_ours = !ids.is_empty() && ids[0] != 0 && ids.is_sorted_by(|one, next| one < next);
        is_ours.then(|| ids.into_iter().collect())
    };
    let configurations = (0..count).map(|_| ids()).collect::<Option<Vec<_>>>()?;
    let all: BTreeMap<ReplicaId, MemberInfo> = ids()?.into_iter().map(|id| (id, MemberInfo)).collect();
    let is_whole = bytes.is_empty();
    Members::new(configurations, all).ok().filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_again_and_cut_ones_refused() {
        let all = || [1, 2, 3, 1 << 40].map(|id| (id, MemberInfo)).into_iter().collect::<BTreeMap<_, _>>();
        let joint = vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 2, 1 << 40])];
        for configurations in [vec![BTreeSet::from([1, 2, 3])], joint] {
            let members = Members::new(configurations, all()).unwrap();
            let bytes = encode(&members);
            assert_eq!(decode(&bytes), Some(members));
            for length in 0..bytes.len() {
                assert_eq!(decode(&bytes[..length]), None, "{length}");
            }
            assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn members_without_a_voter_or_with_replica_0_are_refused() {
        let ids = |ids: &[u64]| {
            let encoded = ids.iter().flat_map(|id| id.to_le_bytes());
            (ids.len() as u32).to_le_bytes().into_iter().chain(encoded).collect::<Vec<u8>>()
        };
        let bytes = |configurations: &[&[u64]], all: &[u64]| {
            let head = vec![VERSION, configurations.len() as u8, 0, 0];
            let configurations = configurations.iter().map(|voters| ids(voters));
            [head].into_iter().chain(configurations).chain([ids(all)]).flatten().collect::<Vec<u8>>()
        };
        assert!(decode(&bytes(&[&[1, 2]], &[1, 2, 3])).is_some());
        for (configurations, all) in [
            (&[][..], &[1][..]),
            (&[&[][..]], &[1]),
            (&[&[1][..], &[]], &[1]),
            (&[&[0, 1][..]], &[0, 1]),
            (&[&[1][..]], &[0, 1]),
            (&[&[2, 1][..]], &[1, 2]),
            (&[&[1, 1][..]], &[1]),
            (&[&[1, 4][..]], &[1]),
        ] {
            assert_eq!(decode(&bytes(configurations, all)), None, "{configurations:?} of {all:?}");
        }
    }
}
