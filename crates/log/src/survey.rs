//! Surveys keep the live counts of segments fresh while no WAL file is retired: some time after messages were
//! settled, the owners of the logs with messages in segments are asked.

use crate::background::Doing;
use crate::job::{Job, Next};
use crate::live_state::LiveState;
use crate::log::Log;
use crate::retire::LIVE_LOGS_MAX;
use crate::types::{LogId, Nanos};

/// A survey takes at most one part in this many of the background lane's time.
const SHARE: Nanos = 10;

/// The time of the next survey, and the logs that the current one still has to ask.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    not_before: Nanos,
    started: Nanos,
    rest: Vec<LogId>,
    /// The lane will ask for the survey by itself.
    told: bool,
}

impl Log {
    /// Whether a survey will be due while the lane sleeps without a wake-up time.
    pub(crate) fn is_survey_untold(&self) -> bool {
        !self.survey.told && !self.store.settled.is_empty() && self.retirement.is_none() && self.rewrite.is_none()
    }

    /// Postpones the next survey, because a retirement or a survey has just asked.
    pub(crate) fn put_survey_off(&mut self, now: Nanos) {
        self.survey.not_before = self.survey.not_before.max(now.saturating_add(self.options.survey_interval));
        self.survey.told = false;
    }

    pub(crate) fn next_survey_job(&mut self, now: Nanos) -> Next {
        if self.survey.rest.is_empty() {
            if self.store.segments.is_empty() {
                self.store.settled.clear();
            }
            if self.store.settled.is_empty() {
                self.survey.told = false;
                return Next::Idle;
            }
            if self.survey.not_before > now {
                self.survey.told = true;
                return Next::At(self.survey.not_before);
            }
            let store = &self.store;
            let mut rest: Vec<LogId> = store.settled.iter().copied().filter(|log| store.has_log(*log)).collect();
            rest.retain(|log| !self.forgotten.contains_key(log) && !store.frozen.contains(log));
            rest.sort_unstable();
            self.store.settled.clear();
            self.survey.rest = rest;
            self.survey.started = now;
            if self.survey.rest.is_empty() {
                self.survey.told = false;
                return Next::Idle;
            }
        }
        let rest = &mut self.survey.rest;
        let logs = rest.split_off(rest.len().saturating_sub(LIVE_LOGS_MAX));
        self.run_background(Doing::Survey(logs.clone()), Job::Live { logs })
    }

    pub(crate) fn take_survey(&mut self, asked: &[LogId], states: Vec<LiveState>, now: Nanos) {
        self.note_states(asked, &states);
        if self.survey.rest.is_empty() {
            let took = now.saturating_sub(self.survey.started);
            self.survey.not_before = now.saturating_add(took.saturating_mul(SHARE));
            self.put_survey_off(now);
            self.rewrite_due = true;
        }
    }
}
