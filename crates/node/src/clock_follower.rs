//! The task that has wall time follow the system's clock.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use leveret_broker::{Broker, WallStep};
use tokio::time::sleep_until;
use tracing::warn;

use crate::clock::Clock;
use crate::logging::Moment;

/// Has wall time follow the system's clock as long as it is awaited.
pub(crate) async fn follow(broker: Arc<Broker>, clock: Clock) {
    loop {
        sleep_until(clock.instant(broker.next_look_at_clock()).into()).await;
        if let Some(step) = broker.follow_clock(clock.monotonic(), || clock.read_system()) {
            warn!("{}", told(step));
        }
    }
}

fn told(step: WallStep) -> String {
    let date = |wall_ms| Moment::of(UNIX_EPOCH + Duration::from_millis(wall_ms)).rfc3339(' ');
    let seconds = step.by_ms().unsigned_abs() as f64 / 1000.0;
    let (way, means) = if step.by_ms() > 0 {
        ("forward", "sooner: those that were due in between expire or are delivered now")
    } else {
        ("back", "later; purge queues with messages that should have expired meanwhile")
    };
    format!(
        "the system's clock was set {way} by {seconds:.3} s: it was {} by the time of this node, and is {}, which the node takes over. \
         Times to live and delays of messages that were stored before end that much {means}",
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
            told(WallStep { was_ms, is_ms }),
            "the system's clock was set forward by 1.501 s: it was 2026-11-22 18:13:38.431000+00:00 by the time of this node, and is \
             2026-11-22 18:13:39.932000+00:00, which the node takes over. Times to live and delays of messages that were stored before end \
             that much sooner: those that were due in between expire or are delivered now"
        );
        let back = told(WallStep { was_ms: is_ms, is_ms: was_ms });
        assert!(
            back.starts_with("the system's clock was set back by 1.501 s: it was 2026-11-22 18:13:39.932"),
            "{back}"
        );
        assert!(back.contains("end that much later; purge queues"), "{back}");
    }
}
