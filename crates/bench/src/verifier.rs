//! Was every message received once, in order, as it was sent?

/// Watches the sequence numbers of one queue with one publisher and one consumer.
#[derive(Debug)]
pub(crate) struct Verifier {
    expected: u64,
    next: u64,
    seen: Vec<u64>,
    distinct: u64,
    duplicated: u64,
    reordered: u64,
    corrupt: u64,
    first_fault: Option<String>,
}

impl Verifier {
    pub(crate) fn new(expected: u64) -> Self {
        Self {
            expected,
            next: 0,
            seen: vec![0; expected.div_ceil(64) as usize],
            distinct: 0,
            duplicated: 0,
            reordered: 0,
            corrupt: 0,
            first_fault: None,
        }
    }

    /// Takes the sequence number of a message, `None` if its body was not as sent.
    #[inline]
    pub(crate) fn receive(&mut self, sequence: Option<u64>) {
        match sequence {
            Some(sequence) if sequence == self.next && sequence < self.expected => {
                self.seen[(sequence / 64) as usize] |= 1 << (sequence % 64);
                self.next += 1;
                self.distinct += 1;
            }
            other => self.fault(other),
        }
    }

    #[cold]
    fn fault(&mut self, sequence: Option<u64>) {
        let due = self.next;
        let what = match sequence {
            None => {
                self.corrupt += 1;
                format!("a message with another body than sent arrived where {due} was due")
            }
            Some(sequence) if sequence >= self.expected => {
                self.corrupt += 1;
                format!("message {sequence} arrived, which was never sent")
            }
            Some(sequence) => {
                let (word, bit) = (&mut self.seen[(sequence / 64) as usize], 1 << (sequence % 64));
                if *word & bit != 0 {
                    self.duplicated += 1;
                    format!("message {sequence} arrived a second time, where {due} was due")
                } else {
                    *word |= bit;
                    self.distinct += 1;
                    // After a gap, order is judged from the message that came, so that one loss isn't told a million times.
                    self.reordered += u64::from(sequence < due);
                    self.next = self.next.max(sequence + 1);
                    format!("message {sequence} arrived where {due} was due")
                }
            }
        };
        self.first_fault.get_or_insert(what);
    }

    /// True once nothing more can come but duplicates.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.distinct == self.expected
    }

    /// `None` if all is well.
    pub(crate) fn verdict(&self) -> Option<String> {
        let lost = self.expected - self.distinct;
        let faults: Vec<String> =
            [(lost, "lost"), (self.duplicated, "duplicated"), (self.reordered, "reordered"), (self.corrupt, "changed")]
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
        if faults.is_empty() {
            // A gap that was never filled is a loss, so without a count there is no fault.
            return None;
        }
        let first = self.first_fault.as_ref().map_or(String::new(), |first| format!("; first: {first}"));
        Some(format!("of {} messages {}{first}", self.expected, faults.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::Verifier;

    fn verdict(sequences: &[u64]) -> Option<String> {
        let mut verifier = Verifier::new(5);
        for sequence in sequences {
            verifier.receive(if *sequence == 99 { None } else { Some(*sequence) });
        }
        assert_eq!(verifier.is_complete(), (0..5).all(|due| sequences.contains(&due)));
        verifier.verdict()
    }

    #[test]
    fn faults_are_named_and_counted() {
        assert_eq!(verdict(&[0, 1, 2, 3, 4]), None);
        assert_eq!(verdict(&[0, 2, 3, 4]).unwrap(), "of 5 messages 1 lost; first: message 2 arrived where 1 was due");
        assert_eq!(
            verdict(&[0, 1, 1, 2, 3, 4]).unwrap(),
            "of 5 messages 1 duplicated; first: message 1 arrived a second time, where 2 was due"
        );
        assert_eq!(
            verdict(&[0, 2, 1, 3, 4]).unwrap(),
            "of 5 messages 1 reordered; first: message 2 arrived where 1 was due"
        );
        assert!(verdict(&[0, 1, 99, 2, 3, 4]).unwrap().starts_with("of 5 messages 1 changed"));
        assert!(verdict(&[0, 1, 7, 2, 3, 4]).unwrap().contains("message 7 arrived, which was never sent"));
        assert_eq!(verdict(&[]).unwrap(), "of 5 messages 5 lost");
    }
}
