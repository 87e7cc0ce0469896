//! The backend `cache`: answers of another one, kept for a while.
//!
//! Keys hold a keyed hash of a password, and nothing that differs between the connections of a client. One question at a time is asked
//! for a key: others wait for its answer.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use leveret_broker::authenticate::NotRenewed;
use leveret_config::{BackendKind, CacheSettings};
use leveret_model::{GrantAnswer, GrantQuestion, Topology};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::attempt::{Attempt, Proof, ProvenGrants};
use crate::direct::Direct;
use crate::http_service::Asker;
use crate::runtime::leave_core;

/// Most answers of each kind.
const ANSWERS_MAX: usize = 10_000;

/// The cache and the backends before which it stands.
pub(crate) struct Cache {
    login: Direct,
    grants: Direct,
    /// Whether both are one.
    is_one: bool,
    secret: hmac::Key,
    logins: Kept<LoginKey, Result<Proof, String>>,
    answers: Kept<GrantKey, GrantAnswer>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct LoginKey {
    name: String,
    /// Of the password; `None` for a login without one.
    secret: Option<[u8; 32]>,
    mechanism: String,
    vhost: Option<Arc<str>>,
    client_id: Option<Arc<str>>,
    /// Whether the login was checked, or only admitted.
    is_checked: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct GrantKey {
    name: String,
    tags: Vec<Arc<str>>,
    /// The address, for vhosts.
    address: Option<IpAddr>,
    client_id: Option<Arc<str>>,
    question: GrantQuestion,
}

impl Cache {
    /// Whether it looks users of the model up.
    pub(crate) fn asks_model(&self) -> bool {
        self.login.asks_model() || self.grants.asks_model()
    }

    /// A cache before these backends.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub(crate) fn new(settings: &CacheSettings, login: Direct, grants: Direct) -> Result<Self, String> {
        let secret = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let ttl = Duration::from_millis(settings.ttl_ms);
        Ok(Self {
            login,
            grants,
            is_one: settings.cached.is_one(),
            secret: secret.map_err(|_| "the system gives no randomness".to_owned())?,
            logins: Kept::new(ttl, settings.keeps_refusals),
            answers: Kept::new(ttl, settings.keeps_refusals),
        })
    }

    /// The name of the backend that checks logins, with the cache's before it.
    pub(crate) fn name(&self) -> &'static str {
        BackendKind::Cache.name()
    }

    /// Checks a login, and has the backend that grants admit the user.
    ///
    /// # Errors
    /// The reason of a refusal, for the log.
    pub(crate) async fn log_in(&self, attempt: &Attempt) -> Result<Proof, String> {
        let key = self.login_key(attempt, true);
        self.logins.of(key, || self.check(attempt)).await
    }

    /// Admits a user whose login another backend has checked.
    ///
    /// # Errors
    /// The reason of a refusal, for the log.
    pub(crate) async fn admit(&self, name: &Arc<str>, attempt: &Attempt) -> Result<Proof, String> {
        let key = LoginKey { name: name.to_string(), ..self.login_key(attempt, false) };
        self.logins.of(key, || self.grants.admit(name, attempt)).await
    }

    /// Answers a question about a user.
    pub(crate) async fn ask(
        &self,
        topology: &Topology,
        grants: &ProvenGrants,
        who: &Asker<'_>,
        question: &GrantQuestion,
    ) -> GrantAnswer {
        // Only these are asked of somebody else.
        if !matches!(grants, ProvenGrants::Asked) {
            return self.grants.ask(topology, grants, who, question).await;
        }
        let key = GrantKey {
            name: who.name.to_owned(),
            tags: who.tags.to_vec(),
            address: who.origin.address.filter(|_| matches!(question, GrantQuestion::Enter { .. })),
            client_id: who.origin.client_id.clone(),
            question: question.clone(),
        };
        self.answers.of(key, || self.grants.ask(topology, grants, who, question)).await
    }

    /// Checks a new secret, of which no answer is kept.
    ///
    /// # Errors
    /// As of the backend.
    pub(crate) async fn renew(&self, name: &str, secret: &[u8]) -> Result<Option<Proof>, NotRenewed> {
        self.login.renew(name, secret).await
    }

    /// Forgets all answers.
    pub(crate) fn clear(&self) {
        self.logins.clear();
        self.answers.clear();
    }

    async fn check(&self, attempt: &Attempt) -> Result<Proof, String> {
        let proof = self.login.log_in(attempt).await?;
        if self.is_one {
            return Ok(proof);
        }
        let admitted = self.grants.admit(&proof.name, attempt).await?;
        Ok(Proof {
            tags: [proof.tags, admitted.tags].concat(),
            grants: admitted.grants,
            ends_ms: proof.ends_ms.into_iter().chain(admitted.ends_ms).min(),
            name: proof.name,
        })
    }

    fn login_key(&self, attempt: &Attempt, is_checked: bool) -> LoginKey {
        let hash = |secret: &Vec<u8>| {
            let mut hash = [0; 32];
            hash.copy_from_slice(hmac::sign(&self.secret, secret).as_ref());
            hash
        };
        LoginKey {
            name: attempt.name.clone(),
            secret: attempt.secret.as_ref().map(hash),
            mechanism: attempt.mechanism.clone(),
            vhost: attempt.origin.vhost.clone(),
            client_id: attempt.origin.client_id.clone(),
            is_checked,
        }
    }
}

/// An answer that may be kept.
trait Answer: Clone {
    /// Whether it is kept; `keeps_refusals` is the setting.
    fn is_kept(&self, keeps_refusals: bool) -> bool;

    /// Whether it still holds, apart from the time for which answers are kept.
    fn holds(&self) -> bool {
        true
    }
}

impl Answer for Result<Proof, String> {
    fn is_kept(&self, keeps_refusals: bool) -> bool {
        self.is_ok() || keeps_refusals
    }

    fn holds(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        !self.as_ref().is_ok_and(|proof| proof.ends_ms.is_some_and(|ends_ms| ends_ms <= now))
    }
}

impl Answer for GrantAnswer {
    fn is_kept(&self, keeps_refusals: bool) -> bool {
        match self {
            GrantAnswer::Granted => true,
            GrantAnswer::Refused => keeps_refusals,
            GrantAnswer::Failed => false,
        }
    }
}

/// Answers by key.
struct Kept<K, A> {
    ttl: Duration,
    keeps_refusals: bool,
    slots: Mutex<FxHashMap<K, Arc<Slot<A>>>>,
}

/// The last answer to a question, and who asks it.
struct Slot<A> {
    asking: tokio::sync::Mutex<()>,
    last: Mutex<Option<(Instant, A)>>,
}

impl<K: Clone + Eq + Hash, A: Answer> Kept<K, A> {
    fn new(ttl: Duration, keeps_refusals: bool) -> Self {
        Self { ttl, keeps_refusals, slots: Mutex::default() }
    }

    /// The answer that is kept, or that of `ask`.
    async fn of<F: Future<Output = A>>(&self, key: K, ask: impl FnOnce() -> F) -> A {
        let since = Instant::now();
        let slot = self.slot(&key);
        if let Some(answer) = self.fresh(&slot) {
            return answer;
        }
        leave_core().await;
        let _asking = slot.asking.lock().await;
        // Another one has asked meanwhile. Its answer counts also if it isn't kept: nobody asks again because he waited.
        let last = slot.last.lock().clone();
        if let Some((at, answer)) = last
            && (at >= since || self.fresh(&slot).is_some())
        {
            return answer;
        }
        let answer = ask().await;
        *slot.last.lock() = Some((Instant::now(), answer.clone()));
        if !answer.is_kept(self.keeps_refusals) {
            self.forget(&key, &slot);
        }
        answer
    }

    fn fresh(&self, slot: &Slot<A>) -> Option<A> {
        let last = slot.last.lock();
        let (at, answer) = last.as_ref()?;
        let is_fresh = at.elapsed() < self.ttl && answer.is_kept(self.keeps_refusals) && answer.holds();
        is_fresh.then(|| answer.clone())
    }

    fn slot(&self, key: &K) -> Arc<Slot<A>> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(key) {
            return slot.clone();
        }
        if slots.len() >= ANSWERS_MAX {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || self.fresh(slot).is_some());
            if slots.len() >= ANSWERS_MAX {
                slots.clear();
            }
        }
        let slot = Arc::new(Slot { asking: tokio::sync::Mutex::new(()), last: Mutex::new(None) });
        slots.insert(key.clone(), slot.clone());
        slot
    }

    fn forget(&self, key: &K, slot: &Arc<Slot<A>>) {
        let mut slots = self.slots.lock();
        if slots.get(key).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            slots.remove(key);
        }
    }

    fn clear(&self) {
        self.slots.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
    }

    async fn ask(kept: &Kept<&'static str, GrantAnswer>, count: &AtomicUsize, answer: GrantAnswer) -> GrantAnswer {
        kept.of("key", || async {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            answer
        })
        .await
    }

    #[test]
    fn a_grant_is_kept_until_its_time_is_over() {
        run(async {
            let (kept, count) = (Kept::new(Duration::from_millis(200), false), AtomicUsize::new(0));
            for _ in 0..3 {
                assert_eq!(ask(&kept, &count, GrantAnswer::Granted).await, GrantAnswer::Granted);
            }
            assert_eq!(count.load(Ordering::Relaxed), 1);
            kept.clear();
            ask(&kept, &count, GrantAnswer::Granted).await;
            tokio::time::sleep(Duration::from_millis(250)).await;
            ask(&kept, &count, GrantAnswer::Granted).await;
            assert_eq!(count.load(Ordering::Relaxed), 3);
        });
    }

    #[test]
    fn refusals_are_kept_if_asked_for_and_failures_never() {
        run(async {
            for (keeps, answer, asked) in
                [(false, GrantAnswer::Refused, 3), (true, GrantAnswer::Refused, 1), (true, GrantAnswer::Failed, 3)]
            {
                let (kept, count) = (Kept::new(Duration::from_secs(60), keeps), AtomicUsize::new(0));
                for _ in 0..3 {
                    assert_eq!(ask(&kept, &count, answer).await, answer);
                }
                assert_eq!(count.load(Ordering::Relaxed), asked, "{answer:?}");
            }
        });
    }

    #[test]
    fn one_question_at_a_time_is_asked_for_a_key() {
        run(async {
            for answer in [GrantAnswer::Granted, GrantAnswer::Failed] {
                let (kept, count) = (Kept::new(Duration::from_secs(60), false), AtomicUsize::new(0));
                let all =
                    tokio::join!(ask(&kept, &count, answer), ask(&kept, &count, answer), ask(&kept, &count, answer));
                assert_eq!(all, (answer, answer, answer));
                assert_eq!(count.load(Ordering::Relaxed), 1, "{answer:?}");
            }
        });
    }

    #[test]
    fn answers_are_bounded() {
        run(async {
            let kept = Kept::new(Duration::from_secs(60), false);
            for number in 0..ANSWERS_MAX + 100 {
                kept.of(number, || async { GrantAnswer::Granted }).await;
            }
            assert!(kept.slots.lock().len() <= ANSWERS_MAX);
        });
    }

    #[test]
    fn a_proof_is_not_kept_beyond_its_end() {
        let ends_in = |ms: i64| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
            let (name, ends_ms) = ("u".into(), Some((now + ms) as u64));
            Answer::holds(&Ok(Proof { name, tags: Vec::new(), grants: ProvenGrants::All, ends_ms }))
        };
        assert!(ends_in(60_000) && !ends_in(-1));
    }
}
