//! The task that has wall time follow the system's clock, or the time of a cluster.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use leveret_broker::{Broker, WallStep};
use tokio::time::sleep_until;
use tracing::warn;

use crate::clock::Clock;
use crate::cluster::agreed_time::AgreedTime;
use crate::cluster::view::ClusterView;
use crate::logging::Moment;

/// Has wall time follow the system's clock as long as it is awaited; that of a member, the time that a majority of the members agrees on.
pub(crate) async fn follow(broker: Arc<Broker>, clock: Clock, view: Option<Arc<ClusterView>>) {
    let mut agreed = view.map(AgreedTime::new);
    loop {
        sleep_until(clock.instant(broker.next_look_at_clock()).into()).await;
        let step = broker.follow_clock(clock.monotonic(), || {
            let reading = clock.read_system();
            let Some(agreed) = &mut agreed else { return reading };
            let members = broker.registry.snapshot().topology.members().count();
            agreed.correct(reading, broker.wall.epoch(), members, clock.instant(reading.monotonic))
        });
        if let Some(step) = step {
            warn!("{}", told(step, agreed.as_ref().is_some_and(AgreedTime::is_corrected)));
        }
    }
}

fn told(step: WallStep, is_corrected: bool) -> String {
    let date = |wall_ms| Moment::of(UNIX_EPOCH + Duration::from_millis(wall_ms)).rfc3339(' ');
    let seconds = step.by_ms().unsigned_abs() as f64 / 1000.0;
    let (way, means) = if step.by_ms() > 0 {
        ("forward", "sooner: those that were due in between expire or are delivered now")
    } else {
        ("back", "later; purge queues with messages that should have expired meanwhile")
    };
    let why = if is_corrected {
        format!(
            "the clocks of most members agree, and this node's isn't one of them: its time is set {way} by {seconds:.3} s to theirs"
        )
    } else {
        format!("the system's clock was set {way} by {seconds:.3} s")
    };
    format!(
        "{why}: it was {} by the time of this node, and is {}, which the node takes over. Times to live and delays of messages that were stored before end that much {means}",
        date(step.was_ms),
        date(step.is_ms)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_says_what_it_was_and_is_and_what_that_means() {
        let (was_ms, is_ms) = (1_795_371_218_431, 1_795_371_219_932);
        assert_eq!(
            told(WallStep { was_ms, is_ms }, false),
            "the system's clock was set forward by 1.501 s: it was 2026-11-22 18:13:38.431000+00:00 by the time of this node, and is \
             2026-11-22 18:13:39.932000+00:00, which the node takes over. Times to live and delays of messages that were stored before end \
             that much sooner: those that were due in between expire or are delivered now"
        );
        let back = told(WallStep { was_ms: is_ms, is_ms: was_ms }, false);
        assert!(
            back.starts_with("the system's clock was set back by 1.501 s: it was 2026-11-22 18:13:39.932"),
            "{back}"
        );
        assert!(back.contains("end that much later; purge queues"), "{back}");
        let corrected = told(WallStep { was_ms, is_ms }, true);
        let begin = "the clocks of most members agree, and this node's isn't one of them: its time is set forward by 1.501 s to theirs: it was";
        assert!(corrected.starts_with(begin), "{corrected}");
    }
}
