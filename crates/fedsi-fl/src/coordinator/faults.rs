//! Clients that fail, simulated: who, when and how follows from the run's seed, so a run with faults repeats as any other.
//!
//! A fault acts on a client (it does not answer, or too late) or on its message. A damaged message is written as bytes
//! and read again, as it would be after travelling.

use std::collections::BTreeMap;

use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

use crate::config::FaultsConfig;
use crate::server::{Exclusion, LeftOut};
use crate::wire::Upload;

/// What goes wrong with a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It never answers, and does not work: what it keeps stays as it was.
    Drop,
    /// It works, and answers past the deadline. It keeps what it learned: it does not know that it was late.
    Straggle,
    /// A value of its update is NaN.
    NonFinite,
    /// Its update has a value too many.
    WrongShape,
    /// Its update is a million times too large.
    Huge,
    /// Its update belongs to the round before.
    Stale,
    /// Its update comes twice.
    Duplicate,
    /// It sends a variance below 0; or, where none is wanted, any.
    BadVariance,
    /// It claims an absurd number of training samples.
    BadSamples,
    /// The second half of its message is lost.
    Truncated,
}

impl Fault {
    /// Damage to a message, all kinds equally likely.
    pub const CORRUPT: [Self; 8] = [
        Self::NonFinite,
        Self::WrongShape,
        Self::Huge,
        Self::Stale,
        Self::Duplicate,
        Self::BadVariance,
        Self::BadSamples,
        Self::Truncated,
    ];

    /// What becomes of this upload on its way.
    #[must_use]
    pub fn apply(self, mut upload: Upload) -> Arrival {
        let client = upload.client;
        let middle = upload.shared.len() / 2;
        match self {
            Self::Drop => return Arrival::no_message(client, Exclusion::Dropped, "it did not answer"),
            Self::Straggle => {
                let late = Arrival::no_message(client, Exclusion::Late, "it answered past the deadline");
                return Arrival { bytes: upload.encoded_len() as u64, ..late };
            }
            Self::Duplicate => {
                let bytes = 2 * upload.encoded_len() as u64;
                return Arrival { bytes, messages: vec![upload.clone(), upload], left_out: None };
            }
            Self::NonFinite => upload.shared.iter_mut().skip(middle).take(1).for_each(|x| *x = f32::NAN),
            Self::WrongShape => upload.shared.push(0.0),
            Self::Huge => upload.shared.iter_mut().for_each(|value| *value *= 1e6),
            Self::Stale => upload.round = upload.round.saturating_sub(1),
            Self::BadVariance => {
                let variances = upload.variances.get_or_insert_default();
                match variances.values.first_mut() {
                    Some(variance) => *variance = -1.0,
                    None => variances.values.push(-1.0),
                }
            }
            Self::BadSamples => upload.samples = usize::MAX,
            Self::Truncated => {}
        }
        Arrival::through_bytes(&upload, self == Self::Truncated)
    }
}

/// What reaches the server of one participant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrival {
    /// Bytes that were sent.
    pub bytes: u64,
    /// Messages that can be read.
    pub messages: Vec<Upload>,
    /// Why there are none.
    pub left_out: Option<LeftOut>,
}

impl Arrival {
    fn no_message(client: usize, kind: Exclusion, reason: &str) -> Self {
        Self { left_out: Some(LeftOut::new(client, kind, reason)), ..Self::default() }
    }

    /// A message as bytes and back.
    fn through_bytes(upload: &Upload, truncated: bool) -> Self {
        let read = upload.encode().map(|mut bytes| {
            bytes.truncate(if truncated { bytes.len() / 2 } else { bytes.len() });
            (bytes.len() as u64, Upload::decode(&bytes))
        });
        let (bytes, message) = read.unwrap_or_else(|error| (0, Err(error)));
        match message {
            Ok(upload) => Self { bytes, messages: vec![upload], left_out: None },
            Err(error) => {
                Self { bytes, ..Self::no_message(upload.client, Exclusion::Unreadable, &error.to_string()) }
            }
        }
    }
}

/// Who fails in a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundFaults(BTreeMap<usize, Fault>);

impl RoundFaults {
    /// Drawn for each participant apart, from a stream of its own: who else takes part does not matter. Where nothing is
    /// shared no message is sent, and only [`Fault::Drop`] means anything.
    #[must_use]
    pub fn draw(
        config: &FaultsConfig,
        streams: &Streams,
        round: u64,
        participants: &[usize],
        sends: bool,
    ) -> Self {
        if !config.is_any() {
            return Self::default();
        }
        let draw = |&client: &usize| {
            let mut rng = streams.stream(Purpose::Faults, client as u64, round);
            let (chance, kind): (f64, usize) = (rng.random(), rng.random_range(0..Fault::CORRUPT.len()));
            let fault = match chance {
                chance if chance < config.drop => Fault::Drop,
                chance if chance < config.drop + config.straggle => Fault::Straggle,
                chance if chance < config.drop + config.straggle + config.corrupt => Fault::CORRUPT[kind],
                _ => return None,
            };
            (sends || fault == Fault::Drop).then_some((client, fault))
        };
        Self(participants.iter().filter_map(draw).collect())
    }

    /// What goes wrong with this participant, if anything.
    #[must_use]
    pub fn of(&self, client: usize) -> Option<Fault> {
        self.0.get(&client).copied()
    }

    /// The participants that work.
    #[must_use]
    pub fn at_work(&self, participants: &[usize]) -> Vec<usize> {
        participants.iter().copied().filter(|&client| self.of(client) != Some(Fault::Drop)).collect()
    }

    /// The participants that answer in time, whatever they say.
    #[must_use]
    pub fn in_time(&self, participants: &[usize]) -> Vec<usize> {
        let late = |client| matches!(self.of(client), Some(Fault::Drop | Fault::Straggle));
        participants.iter().copied().filter(|&client| !late(client)).collect()
    }

    /// The exclusions of participants that do not answer.
    pub fn dropped(&self) -> impl Iterator<Item = LeftOut> {
        let dropped = self.0.iter().filter(|(_, fault)| **fault == Fault::Drop);
        dropped.map(|(&client, _)| LeftOut::new(client, Exclusion::Dropped, "it did not answer"))
    }

    /// What reaches the server of this upload.
    #[must_use]
    pub fn deliver(&self, upload: Upload) -> Arrival {
        match self.of(upload.client) {
            None => Arrival { bytes: upload.encoded_len() as u64, messages: vec![upload], left_out: None },
            Some(fault) => fault.apply(upload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares are shares of participants, kinds of damage are alike, and faults are independent between clients.
    #[test]
    fn faults_come_as_often_as_they_should() {
        let config = FaultsConfig { drop: 0.3, straggle: 0.1, corrupt: 0.2 };
        let (streams, everyone) = (Streams::new(3), (0..50).collect::<Vec<_>>());
        let mut counts = BTreeMap::new();
        for round in 1..=400 {
            let faults = RoundFaults::draw(&config, &streams, round, &everyone, true);
            let alone = RoundFaults::draw(&config, &streams, round, &[7], true);
            assert_eq!(alone.of(7), faults.of(7));
            for client in &everyone {
                *counts.entry(faults.of(*client)).or_insert(0) += 1;
            }
        }
        let share = |fault| f64::from(counts[&fault]) / 20_000.0;
        assert!((share(Some(Fault::Drop)) - 0.3).abs() < 0.015, "{counts:?}");
        assert!((share(Some(Fault::Straggle)) - 0.1).abs() < 0.01, "{counts:?}");
        for kind in Fault::CORRUPT {
            assert!((share(Some(kind)) - 0.025).abs() < 0.005, "{counts:?}");
        }
        assert_eq!(
            RoundFaults::draw(&FaultsConfig::NONE, &streams, 1, &everyone, true),
            RoundFaults::default()
        );
        let local = RoundFaults::draw(&config, &streams, 1, &everyone, false);
        assert!(local.0.values().all(|fault| *fault == Fault::Drop), "nothing is sent, nothing damaged");
    }
}
