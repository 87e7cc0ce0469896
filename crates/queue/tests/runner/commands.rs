//! The commands of [`super::bench`].

use std::fmt::Write as _;
use std::sync::Arc;

use leveret_message::chunk::SharedChunk;
use leveret_message::{Added, Batch, BatchBuilder, BatchPart, Encoding, Envelope, FileBody, Overlay, StoredMessage};
use leveret_model::{Arguments, QueueOptions, QueueType, Value};
use leveret_queue::{
    AttemptCounts, Candidates, Checkpoint, ChunkPlacement, ChunkSubmission, ConsumerFlow, ConsumerId, ConsumerMode,
    ConsumerOptions, DeadTurn, DeleteIf, Deliveries, Departure, Effects, Flow, GetOutcome, Ledger, Link, MemoryBudget,
    NoConsumer, NotDeleted, OfferedChunk, ParkedMessage, Parts, Place, Placement, Portion, Queue, QueueState,
    Rejection, Replica, Run, SetAside, StoredRead, Submission, Taken, TurnEnd, WaitReason, Watermarks, push_sized,
};

use super::bench::{Bench, Delivery, EPOCH_MS, ledger, stream};
use super::stream::{message_filter, named_chunk, stream_options};
use super::words::{Words, number};

type Answers = Result<Vec<String>, String>;

/// Annotations with a time of the next delivery, and a text: a map of AMQP 1.0 with symbols as keys.
fn annotations(delivery_ms: Option<u64>, note: Option<&str>, token: Option<&str>) -> Option<Added> {
    let (mut pairs, mut count) = (Vec::new(), 0);
    let mut key = |pairs: &mut Vec<u8>, name: &str| {
        pairs.extend_from_slice(&[0xa3, name.len() as u8]);
        pairs.extend_from_slice(name.as_bytes());
        count += 2;
    };
    if let Some(ms) = delivery_ms {
        key(&mut pairs, "x-opt-delivery-time");
        pairs.push(0x83);
        pairs.extend_from_slice(&ms.to_be_bytes());
    }
    for (name, text) in [("x-opt-note", note), ("x-opt-deferral-token", token)] {
        if let Some(text) = text {
            key(&mut pairs, name);
            pairs.extend_from_slice(&[0xa1, text.len() as u8]);
            pairs.extend_from_slice(text.as_bytes());
        }
    }
    let mut bytes = vec![0xd1];
    bytes.extend_from_slice(&(pairs.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(&u32::to_be_bytes(count));
    bytes.extend_from_slice(&pairs);
    Added::from_bytes(&bytes).filter(|_| count > 0)
}

/// Properties of AMQP 0-9-1 whose only header is a time of delivery.
fn timed_properties(delivery_ms: u64) -> Vec<u8> {
    with_header(&[&b"\x13x-opt-delivery-time"[..], b"l", &delivery_ms.to_be_bytes()].concat())
}

fn coloured_properties(color: &str) -> Vec<u8> {
    with_header(&[&b"\x05color"[..], b"S", &(color.len() as u32).to_be_bytes(), color.as_bytes()].concat())
}

/// The section of AMQP 1.0 with application-properties whose only one is a color.
fn coloured_section(color: &str) -> Vec<u8> {
    let pairs = [&b"\xa1\x05color\xa1"[..], &[color.len() as u8], color.as_bytes()].concat();
    [&[0, 0x53, 0x74, 0xc1, pairs.len() as u8 + 1, 2][..], &pairs].concat()
}

fn with_header(header: &[u8]) -> Vec<u8> {
    [&[0x20, 0][..], &(header.len() as u32).to_be_bytes(), header].concat()
}

impl Bench {
    fn options(&self, words: &mut Words<'_>) -> QueueOptions {
        let mut arguments = vec![("x-queue-type", Value::from(self.queue_type.name()))];
        for (key, value) in words.options("x-") {
            let text = || value.parse().map_or_else(|_| Value::from(value), Value::Bool);
            let value = value.parse().map_or_else(|_| text(), Value::Int);
            arguments.push((key, value));
        }
        QueueOptions::effective(&Arguments::from_iter(arguments))
    }

    pub(super) fn configure(&mut self, mut words: Words<'_>) -> Answers {
        self.options = self.options(&mut words);
        words.end()?;
        let (options, now) = (self.options.clone(), self.now());
        Ok(self.with(|queue, effects| queue.configure(&options, now, effects))?.1)
    }

    pub(super) fn declare(&mut self, mut words: Words<'_>) -> Answers {
        self.options = self.options(&mut words);
        self.durable = !words.flag("transient");
        self.surroundings.strict_compat = words.flag("strict");
        self.shows_activity = words.flag("activity");
        if let Some(bytes) = words.number("memory")? {
            self.surroundings.budget = Arc::new(MemoryBudget::new(bytes));
        }
        words.end()?;
        self.begin(Replica::none(if self.queue_type == QueueType::Stream { 0 } else { 1 }))
    }

    fn begin(&mut self, replica: Replica) -> Answers {
        let (options, surroundings) = (self.options.clone(), self.surroundings.clone());
        self.queue = Some(Queue::new(options, self.durable, replica, surroundings, self.now()));
        Ok(self.with(|_, _| ())?.1)
    }

    pub(super) fn publish(&mut self, mut words: Words<'_>) -> Answers {
        let durable = !words.flag("volatile") && self.durable;
        let (ttl_ms, size) = (words.number("ttl")?, words.number("size")?);
        let priority = words.number("priority")?.map(|priority| priority as u8);
        let group = words.option("group").map(str::to_owned);
        let overlay = words
            .number("failed")?
            .map_or(Vec::new(), |failed| [&[7, 4, 0, 0, 0][..], &(failed as u32).to_le_bytes()].concat());
        let (until_ms, color, only) = (words.number("until")?, words.option("color"), words.option("only"));
        let in_file = words.option("in-file");
        let properties = |name: &str| match (until_ms, color) {
            _ if only.is_some_and(|only| only != name) => vec![0, 0],
            (Some(ms), _) => timed_properties(EPOCH_MS + ms),
            (None, Some(color)) => coloured_properties(color),
            (None, None) => vec![0, 0],
        };
        let (subject, is_stream) = (words.option("subject"), self.queue_type == QueueType::Stream);
        let names = words.names()?;
        let received_ms = EPOCH_MS + self.now_ms;
        let expiry_ms = ttl_ms.map_or(0, |ttl| Envelope::expiry(received_ms, ttl));
        let envelope = Envelope { durable, received_ms, expiry_ms, priority, ..Envelope::default() };
        let body = |name: &str| {
            let mut body = name.as_bytes().to_vec();
            body.resize(body.len().max(size.unwrap_or(0) as usize), b'.');
            body
        };
        let batch = |names: &[&str], for_filter: bool| {
            if is_stream {
                return named_chunk(names, size, (subject, only), received_ms);
            }
            let mut builder = BatchBuilder::default();
            for name in names {
                if in_file == Some(*name) {
                    let section =
                        coloured_section(color.filter(|_| only.is_none_or(|only| only == *name)).unwrap_or(""));
                    let length = (section.len() as u32).max(size.unwrap_or(0) as u32);
                    let fields = for_filter.then(|| section.into());
                    let message = StoredMessage { encoding: Encoding::Amqp10, envelope, ..StoredMessage::default() };
                    builder.push_file(&message, FileBody { length, handle: Arc::new((*name).to_owned()), fields });
                    continue;
                }
                let (overlay, properties, body) = (Overlay::new(&overlay), properties(name), body(name));
                let message = StoredMessage {
                    envelope,
                    overlay,
                    properties: &properties,
                    body: &body,
                    ..StoredMessage::default()
                };
                builder.push_message(&message);
            }
            Arc::new(builder.finish())
        };
        let (messages, now) = (batch(&names, false), self.now());
        let submission = match is_stream {
            false => self.ledger().submit(BatchPart::of(&messages, 0, names.len() as u32), now),
            true => self.stream().submit_chunk(names.len() as u32, None, now).map(|submission| match submission {
                ChunkSubmission::Accepted(submission) => submission,
                _ => Submission { first: 0, accepted: 0 },
            }),
        };
        let Some(submission) = submission else {
            return Ok(vec!["the queue is gone".to_owned()]);
        };
        let (accepted, refused) = names.split_at(submission.accepted as usize);
        let mut answers = Vec::new();
        if !refused.is_empty() {
            answers.push(format!("refused: {}", refused.join(" ")));
        }
        if accepted.is_empty() {
            return Ok(answers);
        }
        for (number, name) in (submission.first..).zip(accepted) {
            self.names.insert(number, (*name).to_owned());
            if durable && !is_stream {
                self.store.insert(number, batch(&[name], true));
            }
        }
        if is_stream {
            self.store.insert(submission.first, messages.clone());
        }
        let group = group.map(|name| self.groups.entry(name).or_default().clone());
        let (placement, place) = match (&group, durable) {
            (_, false) => (Placement::Volatile, String::new()),
            (Some(group), true) => (Placement::In(group), ", in the group".to_owned()),
            (None, true) => {
                self.position += 1;
                (Placement::At(Place::new(self.position)), format!(", at {}", self.position))
            }
        };
        answers.insert(0, format!("accepted: {}{place}", accepted.join(" ")));
        let ((), caused) = self.with(|queue, effects| match is_stream {
            false => ledger(queue).submitted(submission, BatchPart::whole(&messages), placement, now, effects),
            true => {
                let chunk = Arc::new(SharedChunk::of(&messages));
                let placement = match placement {
                    Placement::At(place) => ChunkPlacement::At(place),
                    Placement::In(group) => ChunkPlacement::In(group),
                    Placement::Volatile => panic!("the messages of a stream are durable"),
                };
                stream(queue).submitted_chunk(submission, OfferedChunk::unnamed(&chunk), placement, now, effects);
            }
        })?;
        answers.extend(caused);
        Ok(answers)
    }

    pub(super) fn close_group(&mut self, mut words: Words<'_>) -> Answers {
        let name = words.next("a group")?;
        words.end()?;
        self.position += 1;
        self.groups.get(name).ok_or_else(|| format!("there is no group `{name}`"))?.close(Place::new(self.position));
        Ok(vec![format!("at {}", self.position)])
    }

    pub(super) fn apply(&mut self, mut words: Words<'_>, durable: bool) -> Answers {
        let position = number(words.next("a position")?)?;
        words.end()?;
        if durable {
            self.durable_position = position;
        }
        let reached = Watermarks { written: Place::new(position), durable: Place::new(self.durable_position) };
        Ok(self.with(|queue, effects| queue.apply(reached, effects))?.1)
    }

    pub(super) fn consume(&mut self, mut words: Words<'_>) -> Answers {
        let name = words.next("a consumer")?.to_owned();
        let prefetch = words.number("prefetch")?.unwrap_or(0) as u32;
        let priority = words.option("priority").map(str::parse).transpose().map_err(|_| "a priority is a number")?;
        let id = self.consumers.len() as u64 + 1;
        let stream = match self.queue_type {
            QueueType::Stream => Some(Box::new(stream_options(&mut words)?)),
            _ => None,
        };
        let filter = words.option("filter").map(message_filter).transpose()?.map(Arc::new);
        let link: Arc<dyn Link> = self.link.clone();
        let options = ConsumerOptions {
            link,
            key: id,
            tag: name.as_str().into(),
            channel: "channel".into(),
            automatic_ack: words.flag("auto"),
            flow: match words.flag("credit") {
                true => ConsumerFlow::Credit { delivery_count: 0 },
                false => ConsumerFlow::Prefetch(prefetch),
            },
            priority: priority.unwrap_or(0),
            exclusive: words.flag("exclusive"),
            mode: if words.flag("copy") { ConsumerMode::Copy } else { ConsumerMode::Move },
            filter,
            stream,
            timeout_ms: None,
            user: "user".into(),
            arguments: Arguments::default(),
        };
        words.end()?;
        self.consumers.insert(id, (name, 0));
        let now = self.now();
        let (added, mut answers) = self.with(|queue, effects| queue.add(ConsumerId(id), options, now, effects))?;
        match added {
            Ok(()) => {}
            Err(NoConsumer::Exclusive) => answers.insert(0, "refused: access to the queue is exclusive".to_owned()),
            Err(NoConsumer::TooManyNames) => answers.insert(0, "refused: too many names".to_owned()),
            Err(NoConsumer::OtherPartition) => answers.insert(0, "refused: another partition".to_owned()),
            Err(NoConsumer::Gone | NoConsumer::Converted | NoConsumer::Failed(_)) => {
                answers.insert(0, "refused: the queue is gone".to_owned())
            }
        }
        Ok(answers)
    }

    pub(super) fn take(&mut self, mut words: Words<'_>) -> Answers {
        let name = words.next("a consumer")?;
        let bytes = words.number("bytes")?.unwrap_or(u64::MAX);
        let most = words.next("").ok().map(number).transpose()?.map_or(u32::MAX, |most| most as u32);
        words.end()?;
        let (id, now) = (self.consumer(name)?, self.now());
        let status = self.queue().consumer_status(id).ok_or("it isn't there any more")?;
        let mut taken = Vec::new();
        let (end, caused) =
            self.with(|queue, effects| queue.take(id, Portion { messages: most, bytes }, now, &mut taken, effects))?;
        let is_held = !status.automatic_ack && status.mode == ConsumerMode::Move;
        let mut answers = vec![self.delivered(&taken, is_held.then_some(Some(id)))];
        if let Some((_, seen)) = self.consumers.get_mut(&id.0) {
            *seen += taken.iter().map(|run| run.count).sum::<u32>();
        }
        if end == TurnEnd::More {
            answers.push("its turn goes on".to_owned());
        }
        answers.extend(caused);
        Ok(answers)
    }

    /// Records deliveries, which a consumer or a get holds from now on.
    fn delivered(&mut self, taken: &[Taken], holder: Option<Option<ConsumerId>>) -> String {
        let mut shown = Vec::new();
        for run in taken {
            for at in 0..run.count {
                let one = Taken { count: 1, ..run.rest(at) };
                let name = self.name(one.first).to_owned();
                let message = one.batch.message(one.index as usize);
                let body = message.view().body.to_vec();
                let has_name = |body: &[u8]| body.starts_with(name.as_bytes());
                let is_its_own = match self.queue_type {
                    _ if let Some(file) = message.file => file.handle.downcast_ref() == Some(&name),
                    QueueType::Stream => (0..body.len()).any(|at| has_name(&body[at..])),
                    _ => has_name(&body),
                };
                assert!(is_its_own, "{name} has the body of another message");
                let mut text = name.clone();
                let AttemptCounts { acquired, failed } = one.attempts;
                let view = message.view();
                let note = view.overlay.added().and_then(|added| added.lookup("x-opt-note")?.as_text());
                let notes = [(acquired, "acquired"), (failed, "failed")];
                let notes = notes.iter().filter(|(count, _)| *count > 0);
                match (one.redelivered, notes.map(|(count, name)| format!(", {name} {count}")).collect::<String>()) {
                    (false, notes) if notes.is_empty() => {}
                    (_, notes) => write!(text, " (redelivered{notes})").unwrap(),
                }
                note.iter().for_each(|note| write!(text, " [{note}]").unwrap());
                shown.push(text);
                if let Some(consumer) = holder {
                    let name = match consumer.filter(|_| self.queue_type == QueueType::Stream) {
                        Some(id) => format!("{}/{name}", self.consumers[&id.0].0),
                        None => name,
                    };
                    self.held.insert(name, Delivery { consumer, run: one.run() });
                }
            }
        }
        if shown.is_empty() { "nothing".to_owned() } else { format!("takes: {}", shown.join(", ")) }
    }

    pub(super) fn get(&mut self, mut words: Words<'_>) -> Answers {
        let automatic = words.flag("auto");
        words.end()?;
        let (link, now): (Arc<dyn Link>, u64) = (self.link.clone(), self.now());
        let (outcome, caused) = self.with(|queue, effects| ledger(queue).get(automatic, &link, 0, now, effects))?;
        let mut answers = match outcome {
            GetOutcome::Empty => vec!["empty".to_owned()],
            GetOutcome::Wait | GetOutcome::Converted | GetOutcome::Failed(_) => vec!["waits for the disk".to_owned()],
            GetOutcome::Message(taken, left) => {
                let taken = self.delivered(&[taken], (!automatic).then_some(None));
                vec![format!("{taken}; {left} left")]
            }
        };
        answers.extend(caused);
        Ok(answers)
    }

    pub(super) fn settle(&mut self, command: &str, mut words: Words<'_>) -> Answers {
        let failed = words.flag("failed");
        let until = words.number("until")?;
        let note = words.option("note").map(str::to_owned);
        let token = words.option("token").map(str::to_owned);
        let mut settled: Vec<(Option<ConsumerId>, Vec<Run>)> = Vec::new();
        for name in words.names()? {
            let delivery = self.held.remove(name).ok_or_else(|| format!("`{name}` isn't delivered"))?;
            if settled.last().is_none_or(|(consumer, _)| *consumer != delivery.consumer) {
                settled.push((delivery.consumer, Vec::new()));
            }
            push_sized(&mut settled.last_mut().expect("pushed above").1, delivery.run);
        }
        let now = self.now();
        let added = annotations(until.map(|ms| EPOCH_MS + ms), note.as_deref(), token.as_deref()).map(Arc::new);
        let back = |queue: &mut Queue, id, runs: &[Run], effects: &mut Effects| match &added {
            Some(added) => queue.modify(Deliveries::of(id, runs), failed, added, now, effects),
            None => queue.requeue(Deliveries::of(id, runs), failed, now, effects),
        };
        let ((), answers) = self.with(|queue, effects| match command {
            "ack" => queue.acknowledge(&settled, now, effects),
            "requeue" => settled.iter().for_each(|(id, runs)| back(queue, *id, runs, effects)),
            _ => {
                let runs = settled.iter().flat_map(|(_, runs)| runs.iter().copied()).collect::<Vec<_>>();
                added.iter().for_each(|added| ledger(queue).annotate(&runs, added, effects));
                for (id, runs) in &settled {
                    let deliveries = Deliveries::of(*id, runs);
                    let rejected = queue.ledger_mut().map(|queue| queue.reject(deliveries, true, now, effects));
                    if rejected.is_none_or(|rejected| rejected == Rejection::NoDeadLetters) {
                        queue.settle(Deliveries::of(*id, runs), Departure::Dropped, now, effects);
                    }
                }
            }
        })?;
        Ok(answers)
    }

    /// A consumer claims deferred messages by their tokens.
    pub(super) fn claim(&mut self, mut words: Words<'_>) -> Answers {
        let id = self.consumer(words.next("a consumer")?)?;
        let tokens: Vec<Box<str>> = words.names()?.into_iter().map(Into::into).collect();
        self.with(|queue, effects| ledger(queue).claim(id, &tokens, effects)).map(|((), answers)| answers)
    }

    pub(super) fn cancel(&mut self, mut words: Words<'_>) -> Answers {
        let (id, now) = (self.consumer(words.next("a consumer")?)?, self.now());
        words.end()?;
        let (left, mut answers) = self.with(|queue, effects| queue.cancel(id, now, effects))?;
        answers.insert(0, left.map_or("it wasn't there".to_owned(), |left| format!("{left} consumers left")));
        Ok(answers)
    }

    pub(super) fn leave(&mut self, mut words: Words<'_>) -> Answers {
        let failed = words.flag("failed");
        let (id, now) = (self.consumer(words.next("a consumer")?)?, self.now());
        words.end()?;
        let mut runs = Vec::new();
        for (_, delivery) in self.held.extract_if(.., |_, delivery| delivery.consumer == Some(id)) {
            runs.push(delivery.run);
        }
        runs.sort_by_key(|run| run.first);
        let held = [(Some(id), runs)];
        let (left, mut answers) = self.with(|queue, effects| queue.leave(&[id], &held, failed, now, effects))?;
        answers.insert(0, format!("{left} consumers left"));
        Ok(answers)
    }

    pub(super) fn able(&mut self, command: &str, mut words: Words<'_>) -> Answers {
        let (id, now) = (self.consumer(words.next("a consumer")?)?, self.now());
        let able = match words.next("`yes` or `no`")? {
            "yes" => true,
            "no" => false,
            other => return Err(format!("`{other}` is neither `yes` nor `no`")),
        };
        words.end()?;
        let flow = match command {
            "room" => Flow::Room(able),
            "window" => Flow::Window(able),
            _ => Flow::Overdue(able),
        };
        Ok(self.with(|queue, effects| queue.flow(id, flow, now, effects))?.1)
    }

    pub(super) fn credit(&mut self, mut words: Words<'_>) -> Answers {
        let (id, now, drain) = (self.consumer(words.next("a consumer")?)?, self.now(), words.flag("drain"));
        let seen = words.number("seen")?.map_or(self.consumers[&id.0].1, |seen| seen as u32);
        let link_credit = number(words.next("a credit")?)? as u32;
        words.end()?;
        let flow = Flow::Credit { delivery_count: seen, link_credit, drain };
        let (state, mut answers) = self.with(|queue, effects| queue.flow(id, flow, now, effects))?;
        let state = state.ok_or("it isn't there any more")?;
        if drain && state.credit == 0 {
            self.consumers.get_mut(&id.0).expect("found above").1 = state.delivery_count;
        }
        let (count, credit, available) = (state.delivery_count, state.credit, state.available);
        answers.insert(0, format!("count {count}, credit {credit}, {available} available"));
        Ok(answers)
    }

    pub(super) fn load(&mut self, mut words: Words<'_>) -> Answers {
        let (nothing, only) = (words.flag("nothing"), words.flag("only"));
        let most = words.next("").ok().map(number).transpose()?.map_or(usize::MAX, |most| most as usize);
        words.end()?;
        if self.wanted.is_empty() {
            return Err("no read was asked for".to_owned());
        }
        let (mut answers, now) = (Vec::new(), self.now());
        for (read, from, numbers) in std::mem::take(&mut self.wanted) {
            if let StoredRead::Own(reader, _) = read
                && self.queue_type == QueueType::Stream
            {
                answers.extend(self.load_for_reader((reader, from), if nothing { 0 } else { most })?);
                continue;
            }
            let numbers: Vec<u64> = match only {
                true => numbers.iter().flat_map(|(first, last)| *first..=*last).collect(),
                false => self.store.range(from..).map(|(number, _)| *number).collect(),
            };
            let stored = numbers.into_iter().filter_map(|number| Some((number, self.store.get(&number)?.clone())));
            let runs: Vec<(u64, Arc<Batch>)> = stored.take(if nothing { 0 } else { most }).collect();
            let names: Vec<&str> = runs.iter().map(|(number, _)| self.name(*number)).collect();
            answers.push(format!("read: {}", if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }));
            answers.extend(self.with(|queue, effects| ledger(queue).loaded(read, runs, now, effects))?.1);
        }
        Ok(answers)
    }

    pub(super) fn move_dead(&mut self, mut words: Words<'_>) -> Answers {
        let (nowhere, shows_failures) = (words.flag("nowhere"), words.flag("failures"));
        words.end()?;
        let (turn, mut answers) = self.with(|queue, effects| ledger(queue).dead_turn(effects))?;
        let runs = match turn {
            DeadTurn::Nothing => return Ok(vec!["nothing to move".to_owned()]),
            DeadTurn::Wait => {
                answers.insert(0, "waits".to_owned());
                return Ok(answers);
            }
            DeadTurn::Move(runs) => runs,
        };
        for run in &runs {
            let numbers = run.first..run.first + u64::from(run.count);
            let names: Vec<&str> = numbers.map(|number| self.name(number)).collect();
            let failures = if shows_failures { format!(", failed {}", run.failures) } else { String::new() };
            answers.push(format!("moves: {} ({}{failures})", names.join(" "), run.reason.as_str()));
        }
        let count: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        let dropped = if nowhere { count } else { 0 };
        let (logged, caused) = self.with(|queue, effects| ledger(queue).moved(dropped, effects))?;
        if !logged.is_empty() {
            answers.push(format!("log moved: {}", self.names_of(&logged)));
        }
        answers.extend(caused);
        Ok(answers)
    }

    pub(super) fn time(&mut self, mut words: Words<'_>) -> Answers {
        self.now_ms += number(words.next("milliseconds")?)?;
        words.end()?;
        let mut answers = Vec::new();
        while self.deadline_ms.is_some_and(|deadline| deadline <= self.now_ms) {
            if answers.len() > 1000 {
                return Err("the timer spins".to_owned());
            }
            self.deadline_ms = None;
            let now = self.now();
            let (is_unused, caused) = self.with(|queue, effects| queue.run_timers(now, 256, effects))?;
            answers.extend(caused);
            if is_unused {
                answers.push("unused for too long: to be deleted".to_owned());
                break;
            }
        }
        Ok(answers)
    }

    pub(super) fn close(&mut self, mut words: Words<'_>) -> Answers {
        let condition =
            DeleteIf { empty: words.flag("empty"), unused: words.flag("unused"), expired: words.flag("expired") };
        words.end()?;
        let now = self.now();
        let (closed, mut answers) = self.with(|queue, _| queue.close(condition, now))?;
        let answer = match closed {
            Ok(()) => "closed",
            Err(NotDeleted::InUse) => "refused: in use",
            Err(NotDeleted::NotEmpty) => "refused: not empty",
            Err(NotDeleted::Used) => "refused: used meanwhile",
        };
        answers.insert(0, answer.to_owned());
        Ok(answers)
    }

    pub(super) fn publishers(&mut self, command: &str, code: &str) -> Answers {
        let reason = WaitReason::ALL.into_iter().find(|reason| reason.code() == code);
        let (reason, now) = (reason.ok_or_else(|| format!("there is no reason `{code}`"))?, self.now());
        Ok(self
            .with(|queue, _| match command {
                "hold" => queue.publisher_held(reason, now),
                _ => queue.publisher_released(reason),
            })?
            .1)
    }

    pub(super) fn drop_set_aside(&mut self, command: &str, words: Words<'_>) -> Answers {
        let which = if command == "drop-parked" { SetAside::Parked } else { SetAside::Delayed };
        let mut answers = Vec::new();
        for name in words.names()? {
            let number = self.number_of(name)?;
            let (runs, caused) =
                self.with(|queue, effects| ledger(queue).drop_set_aside(which, number, number, effects))?;
            answers.push(format!("log dropped: {}", self.names_of(&runs)));
            answers.extend(caused);
        }
        Ok(answers)
    }

    /// Claims parked messages out of all that are stored.
    pub(super) fn claim_parked(&mut self, mut words: Words<'_>) -> Answers {
        let most = words.next("a number")?.parse().map_err(|_| "it is no number".to_owned())?;
        words.end()?;
        let read: Vec<(u64, Arc<Batch>)> = self.store.iter().map(|(number, batch)| (*number, batch.clone())).collect();
        let (claimed, mut answers) =
            self.with(|queue, _| ledger(queue).claim_parked(&Candidates { read: &read, range: 0..=u64::MAX, most }))?;
        let shown = claimed.iter().map(|ParkedMessage { number, batch, index }| {
            let view = batch.message(*index as usize).view();
            let note = view.overlay.added().and_then(|added| added.lookup("x-opt-note")?.as_text());
            format!("{}{}", self.name(*number), note.map(|note| format!(" [{note}]")).unwrap_or_default())
        });
        answers.insert(0, format!("claims: {}", shown.collect::<Vec<_>>().join(", ")));
        Ok(answers)
    }

    /// Ends the claim: messages with these names have moved.
    pub(super) fn parked_moved(&mut self, words: Words<'_>) -> Answers {
        let numbers: Result<Vec<u64>, String> = words.names()?.into_iter().map(|name| self.number_of(name)).collect();
        let numbers = numbers?;
        let (runs, mut answers) = self.with(|queue, _| ledger(queue).parked_moved(&numbers))?;
        answers.insert(0, format!("log settled: {}", self.names_of(&runs)));
        Ok(answers)
    }

    pub(super) fn claim_ready(&mut self, mut words: Words<'_>) -> Answers {
        let most = words.next("a number")?.parse().map_err(|_| "it is no number".to_owned())?;
        words.end()?;
        let read: Vec<(u64, Arc<Batch>)> = self.store.iter().map(|(number, batch)| (*number, batch.clone())).collect();
        let now = self.now();
        let (found, mut answers) = self.with(|queue, effects| {
            ledger(queue).claim_ready(&Candidates { read: &read, range: 0..=u64::MAX, most }, now, effects)
        })?;
        let claimed = self.delivered(&found.messages, Some(None));
        answers.insert(0, claimed.replace("takes", "claims"));
        Ok(answers)
    }

    /// Claimed messages with these names have moved, or stay.
    pub(super) fn end_claim(&mut self, moved: bool, words: Words<'_>) -> Answers {
        let mut end = |name: &str| Some(self.held.remove(name)?.run);
        let runs = words.names()?.into_iter().map(|name| end(name).ok_or_else(|| format!("`{name}` isn't claimed")));
        let runs = runs.collect::<Result<Vec<Run>, String>>()?;
        let (logs, mut answers) = self.with(|queue, effects| match moved {
            true => ledger(queue).ready_moved(&runs),
            false => {
                ledger(queue).unclaim_ready(&runs, effects);
                false
            }
        })?;
        if logs {
            answers.insert(0, format!("log settled: {}", self.names_of(&runs)));
        }
        Ok(answers)
    }

    /// Commands without arguments.
    pub(super) fn plain(&mut self, command: &str) -> Answers {
        let now = self.now();
        match command {
            "withdraw" => {
                let (numbers, mut answers) = self.with(|queue, _| queue.withdraw())?;
                let names: Vec<_> = numbers.clone().filter_map(|number| self.names.remove(&number)).collect();
                numbers.for_each(|number| drop(self.store.remove(&number)));
                answers.insert(0, if names.is_empty() { "nothing".to_owned() } else { names.join(" ") });
                Ok(answers)
            }
            "purge" => {
                let ((count, runs), mut answers) = self.with(|queue, effects| ledger(queue).purge(now, effects))?;
                answers.insert(0, format!("{count} purged"));
                if !runs.is_empty() {
                    answers.insert(1, format!("log purged: {}", self.names_of(&runs)));
                }
                Ok(answers)
            }
            "delete" => {
                self.held.clear();
                let (count, mut answers) = self.with(|queue, effects| queue.delete(effects))?;
                answers.insert(0, format!("{count} messages gone"));
                Ok(answers)
            }
            "stay" => {
                // A turn that can't be carried out.
                let (_, mut answers) = self.with(|queue, effects| ledger(queue).dead_turn(effects))?;
                answers.extend(self.with(|queue, _| ledger(queue).dead_stay())?.1);
                Ok(answers)
            }
            "block" => {
                // A turn whose messages no queue takes.
                let now = self.now();
                let (turn, mut answers) = self.with(|queue, effects| ledger(queue).dead_turn(effects))?;
                if let DeadTurn::Move(_) = turn {
                    answers.extend(self.with(|queue, effects| ledger(queue).dead_blocked(now, effects))?.1);
                } else {
                    answers.insert(0, "nothing to move".to_owned());
                }
                Ok(answers)
            }
            "peek" | "parked" | "delayed" => {
                let peeked = match command {
                    "peek" => self.queue().peek(0, usize::MAX),
                    "parked" => self.ledger().peek_set_aside(SetAside::Parked, 0, usize::MAX),
                    _ => self.ledger().peek_set_aside(SetAside::Delayed, 0, usize::MAX),
                };
                let text = |redelivered| if redelivered { " (redelivered)" } else { "" };
                let until =
                    |due_ms: Option<u64>| due_ms.map(|ms| format!(" until {} ms", ms - EPOCH_MS)).unwrap_or_default();
                let shown: Vec<String> = peeked
                    .iter()
                    .map(|peeked| {
                        let token = peeked.token.as_ref().map(|token| format!(", token {token}")).unwrap_or_default();
                        let (name, until) = (self.name(peeked.number), until(peeked.due_ms));
                        format!("{name}{}{until}{token}", text(peeked.redelivered))
                    })
                    .collect();
                Ok(vec![if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }])
            }
            "groups" => Ok(self.groups()),
            _ => Ok(self.status()),
        }
    }

    fn status(&mut self) -> Vec<String> {
        let status = self.queue().status();
        let [parked, delayed] = [SetAside::Parked, SetAside::Delayed]
            .map(|which| self.queue().ledger().map_or(0, |queue| queue.set_aside(which).0));
        let mut answers = Vec::new();
        match status.state {
            QueueState::Running => {}
            QueueState::Failed(reason) => answers.push(format!("failed: {reason}")),
            QueueState::Deleted => answers.push("deleted".to_owned()),
        }
        let mut add = |names: &[(&str, u64)]| {
            let shown: Vec<String> =
                names.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
            answers.push(shown.join(", "));
        };
        add(&[
            ("ready", status.ready),
            ("unacknowledged", status.unacknowledged),
            // The bytes of a stream are those of its chunks.
            ("bytes", if status.stream.is_some() { 0 } else { status.bytes }),
            ("pending", status.pending),
            ("moving", status.moving),
            ("volatile", status.volatile),
            ("parked", parked),
            ("delayed", delayed),
            ("refused", status.refused),
        ]);
        let gone = status.conservation;
        if let Some(stream) = &status.stream {
            add(&[("first", stream.first), ("next", stream.next)]);
        }
        add(&[
            ("accepted", gone.accepted),
            ("settled", gone.settled),
            ("dead-lettered", gone.dead_lettered),
            ("expired", gone.expired),
            ("dropped", gone.dropped),
            ("purged", gone.purged),
        ]);
        let kept = status.stream.iter().flat_map(|stream| &stream.offsets);
        answers.extend(kept.map(|kept| format!("the offset of {} is {}", kept.name, kept.offset)));
        answers.extend(status.waits.iter().map(|wait| format!("the queue waits: {}", wait.reason.code())));
        let waits =
            status.consumers.iter().map(|consumer| format!("{} waits: {}", consumer.tag, consumer.wait.reason.code()));
        answers.extend(waits);
        answers
    }

    pub(super) fn restart(&mut self, clean: bool) -> Answers {
        self.held.clear();
        self.wanted.clear();
        self.deadline_ms = None;
        let recovered = match self.queue_type {
            QueueType::Stream => self.recovered_stream()?,
            _ => self.recovered(clean)?,
        };
        let mut answers = self.begin(recovered)?;
        let peeked = self.plain("peek")?;
        answers.insert(0, format!("back: {}", peeked.join("")));
        Ok(answers)
    }

    fn recovered(&mut self, clean: bool) -> Result<Replica, String> {
        let queue = self.ledger();
        let Checkpoint { next, live, bytes, state, .. } = queue.checkpoint();
        let delivered_below = if clean { queue.delivered_below() } else { next };
        let mut parts = Parts::decode(&state).map_err(|error| error.to_string())?;
        let attempts = &mut parts.attempts;
        if clean {
            queue.logged_attempts().iter().for_each(|run| attempts.replay(run));
        }
        let ledger = Ledger::restore(next, &live, bytes);
        self.store.retain(|number, _| live.contains(*number));
        // Recovery finds the failures of dead letters in their records, whatever the type of the queue.
        for (number, batch) in self.store.iter().filter(|(_, batch)| batch.any_failures()) {
            if attempts.of(*number) == AttemptCounts::default() {
                attempts.begin_at(*number, batch.failures(0));
            }
        }
        Ok(Replica { ledger, delivered_below, parts, ..Replica::default() })
    }
}
