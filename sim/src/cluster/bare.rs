//! The engine alone under writers, for a comparison with placements in the same run.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use leveret_cluster::bare::Bare;

use super::direct::{SYNC, TRAVEL, WARM};
use super::executor::{self, Sleep};
use super::runtime::SimRuntime;

/// Lets so many writers propose to each of so many placements of three replicas for some seconds. Returns the commits from when `warm` is
/// called on, after [`WARM`].
pub fn bare_commits(seed: u64, placements: u32, writers: u32, seconds: u64, warm: impl FnOnce()) -> u64 {
    executor::begin(seed);
    let commits = Rc::new(Cell::new(0));
    for _ in 0..placements {
        let commits = commits.clone();
        executor::spawn_in(0, async move {
            let bare = Bare::<SimRuntime>::start(3, Duration::from_nanos(TRAVEL), Duration::from_nanos(SYNC)).await;
            for writer in 0..writers {
                let (bare, commits) = (bare.clone(), commits.clone());
                executor::spawn_in(0, async move {
                    let command = Bytes::from(vec![writer as u8; 116]);
                    loop {
                        match bare.propose(command.clone()).await {
                            true => commits.set(commits.get() + 1),
                            false => Sleep::after(1_000_000).await,
                        }
                    }
                });
            }
        });
    }
    executor::run_until(executor::now() + WARM);
    let before = commits.get();
    warm();
    executor::run_until(executor::now() + seconds * 1_000_000_000);
    executor::end();
    commits.get() - before
}
