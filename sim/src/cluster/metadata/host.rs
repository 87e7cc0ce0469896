//! A node as its metadata sees it: links that lose and delay, and the store that it waits for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leveret_broker::streams::StoreId;
use leveret_broker::ticket::{StreamId, Ticket};
use leveret_broker::{Broker, Now};
use leveret_cluster::Host;
use leveret_cluster::metadata::MetadataHost;
use leveret_cluster::runtime::{AsyncRuntime, Oneshot as _, OneshotSender as _};
use leveret_log::{Entry, EntryRead, Lane, Next, PlacementId};
use leveret_model::MemberNumber;

use super::{MS, SimMetadata, World};
use crate::cluster::channels::Oneshot;
use crate::cluster::executor::{self, Sleep};
use crate::cluster::node::{SimHost, SimNode};
use crate::cluster::runtime::SimRuntime;

/// A node as its metadata sees it.
#[derive(Clone)]
pub(super) struct MetadataSimHost {
    pub host: SimHost,
    pub id: u64,
    pub world: std::rc::Weak<World>,
    pub broker: Arc<Broker>,
}

impl MetadataSimHost {
    /// Has another member answer, over links that lose and delay.
    async fn ask<F: Future<Output = Option<Bytes>> + 'static>(
        &self,
        member: MemberNumber,
        within: Duration,
        answer: impl FnOnce(SimMetadata) -> F + 'static,
    ) -> Result<Bytes, String> {
        let world = self.world.upgrade().ok_or("the world ends")?;
        let (sender, answered) = Oneshot::channel();
        let from = self.id;
        let to = world.nodes.borrow().values().find(|node| node.member.get() == Some(member)).cloned();
        let to = to.ok_or_else(|| format!("there is no member {}", member.0))?;
        let way = world.shared.travel(from, to.sim.id);
        if let Some(time) = way {
            executor::spawn_in(0, async move {
                Sleep::after(time).await;
                let Some(metadata) = to.metadata.borrow().clone() else { return };
                // The answer is made in the other node's life, and is gone with it.
                executor::spawn_in(to.sim.life.get(), async move {
                    let Some(answer) = answer(metadata).await else { return };
                    let back = world.shared.travel(to.sim.id, from);
                    if let Some(time) = back {
                        Sleep::after(time).await;
                        // The asker may have given up.
                        let _ = sender.send(answer);
                    }
                });
            });
        } else {
            executor::spawn_in(executor::life(), async move {
                Sleep::after(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX)).await;
                drop(sender);
            });
        }
        match SimRuntime::timeout(within, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(format!("member {} doesn't answer", member.0)),
        }
    }
}

impl Host for MetadataSimHost {
    fn now(&self) -> u64 {
        executor::now()
    }

    fn wall_clock(&self) -> u64 {
        self.host.wall_clock()
    }

    fn appended(&self) {
        self.host.appended();
    }

    async fn read(&self, reads: Vec<EntryRead>) -> Result<Vec<Entry>, String> {
        self.host.read(reads).await
    }

    async fn call(&self, _: PlacementId, target: u64, frame: Bytes, within: Duration) -> Result<Bytes, String> {
        let member = leveret_cluster::metadata::member_of(target);
        self.ask(member, within, |metadata| async move { metadata.answer(&frame).await }).await
    }

    fn stopped(&self, placement: PlacementId, text: &str) {
        self.host.stopped(placement, text);
    }
}

impl MetadataHost for MetadataSimHost {
    async fn ask_member(&self, member: MemberNumber, request: Bytes, within: Duration) -> Result<Bytes, String> {
        self.ask(member, within, |metadata| async move { Some(metadata.take_request(&request).await) }).await
    }

    async fn pause(&self, time: Duration) {
        SimRuntime::sleep(time).await;
    }

    fn members_up(&self) -> Vec<MemberNumber> {
        Vec::new()
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        let reached = self.broker.streams.reached(StreamId::LOCAL);
        ticket.is_nothing() || reached.is_some_and(|reached| reached.have(ticket.place(), false))
    }

    fn wait_until_durable(&self, ticket: Ticket) {
        let Some(world) = self.world.upgrade() else { return };
        let node = world.nodes.borrow()[&self.id].clone();
        let mut now = real_now();
        while !self.is_durable(ticket) {
            self.broker.streams.announce();
            now.monotonic += MS;
            while store_jobs(&node.sim, &self.broker, now) > 0 {}
        }
    }
}

pub(super) fn real_now() -> Now {
    Now { monotonic: executor::now(), wall_ms: 1_700_000_000_000 + executor::now() / MS }
}

/// Carries out the jobs that the store has now. Returns their number.
pub(super) fn store_jobs(sim: &SimNode, broker: &Broker, now: Now) -> usize {
    let disk = sim.disk.borrow().clone();
    let mut done = 0;
    for lane in [Lane::Commit, Lane::Background] {
        while let Next::Run(id, job) = broker.next_job(StoreId::FIRST, lane, now).expect("the store works") {
            let outcome = job.run(&*disk);
            drop(job);
            broker.complete(StoreId::FIRST, id, outcome, now).expect("the store works");
            done += 1;
        }
    }
    done
}
