//! A client's own data, divided into what it trains on and what it does not.

use fedsi_data::{Samples, Targets};
use fedsi_random::{Purpose, Streams};
use rand::seq::SliceRandom as _;

use crate::network::{DataId, TrainingData};

/// Which part of its training data a client sets aside until the federation has chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Division {
    /// None.
    Nothing,
    /// One of several parts of this share.
    Part {
        /// Which, counted from 0: modes with different parts have as few samples in common as can be.
        part: usize,
        /// Share of the training data.
        share: f64,
    },
}

impl Division {
    /// The part that is set aside, if any.
    pub(crate) const fn part(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Part { part, .. } => Some(part),
        }
    }
}

/// A client's training data. Once made, it stays as it is.
#[derive(Clone, Debug)]
pub struct LocalData {
    id: DataId,
    /// What it trains on.
    pub train: Samples,
    /// What it holds out, to be scored on while training.
    pub held_out: Samples,
    /// What it sets aside until the federation has chosen.
    pub set_aside: Samples,
}

impl LocalData {
    /// Data of which nothing is held out.
    #[must_use]
    pub fn all(train: Samples) -> Self {
        let (held_out, set_aside) = (train.select(&[]), train.select(&[]));
        Self { id: DataId::unused(), train, held_out, set_aside }
    }

    /// The same under a name that its source gives it.
    #[must_use]
    pub(crate) const fn named(mut self, id: DataId) -> Self {
        self.id = id;
        self
    }

    /// The name of the samples that it trains on.
    #[must_use]
    pub const fn id(&self) -> DataId {
        self.id
    }

    /// A random share `held_out` of the client's samples is held out, and of the rest what the division says set aside:
    /// the same samples whenever it is asked.
    #[must_use]
    pub fn divide(
        samples: Samples,
        held_out: f64,
        division: Division,
        client: usize,
        streams: Streams,
    ) -> Self {
        let mut data = Self::all(samples);
        let shuffled = |count: usize, purpose| {
            let mut order: Vec<usize> = (0..count).collect();
            order.shuffle(&mut streams.stream(purpose, client as u64, 0));
            order
        };
        let mut order = shuffled(data.train.count, Purpose::Validation);
        order.truncate((data.train.count as f64 * held_out).floor() as usize);
        data.held_out = cut_off(&mut data.train, order);
        if let Division::Part { part, share } = division {
            let order = shuffled(data.train.count, Purpose::Calibration);
            data.set_aside = cut_off(&mut data.train, set_aside(&order, part, share));
        }
        data
    }

    /// The bytes of its inputs, which dominate its memory.
    #[must_use]
    pub const fn input_bytes(&self) -> usize {
        let values = self.train.inputs.len() + self.held_out.inputs.len() + self.set_aside.inputs.len();
        values * size_of::<f32>()
    }
}

impl PartialEq for LocalData {
    /// Whether the samples are the same, under whatever name.
    fn eq(&self, other: &Self) -> bool {
        let Self { id: _, train, held_out, set_aside } = self;
        (train, held_out, set_aside) == (&other.train, &other.held_out, &other.set_aside)
    }
}

/// The samples of a part, of all in a random order: parts follow each other around a circle.
fn set_aside(order: &[usize], part: usize, share: f64) -> Vec<usize> {
    let count = order.len();
    let size = (count as f64 * share).floor() as usize;
    (0..size).map(|step| order[(part * size + step) % count]).collect()
}

/// Cuts these samples off, and returns them in their order.
fn cut_off(samples: &mut Samples, mut chosen: Vec<usize>) -> Samples {
    if chosen.is_empty() {
        return samples.select(&[]);
    }
    chosen.sort_unstable();
    let (cut, rest) = samples.split(&chosen);
    *samples = rest;
    cut
}

/// The samples that a client trains on, as a network sees them.
pub(super) fn training_data(data: &LocalData) -> TrainingData<'_> {
    let samples = &data.train;
    let targets = match &samples.targets {
        Targets::Classes(labels) => fedsi_nn::Targets::Classes(labels),
        Targets::Values(values) => fedsi_nn::Targets::Values(values),
    };
    TrainingData { id: Some(data.id), inputs: &samples.inputs, targets }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(count: usize) -> Samples {
        let inputs = (0..count).map(|row| row as f32).collect();
        Samples { count, inputs, targets: Targets::Classes(vec![0; count]) }
    }

    fn divided(count: usize, division: Division) -> LocalData {
        LocalData::divide(samples(count), 0.0, division, 3, Streams::new(1))
    }

    #[test]
    fn modes_set_different_parts_aside() {
        let part = |part| divided(250, Division::Part { part, share: 0.2 });
        let parts: Vec<LocalData> = (0..5).map(part).collect();
        for data in &parts {
            assert_eq!((data.train.count, data.set_aside.count), (200, 50));
            let mut all = [data.train.inputs.clone(), data.set_aside.inputs.clone()].concat();
            all.sort_by(f32::total_cmp);
            assert_eq!(all, samples(250).inputs, "every sample once");
        }
        let distinct: std::collections::BTreeSet<u32> =
            parts.iter().flat_map(|data| &data.set_aside.inputs).map(|&row| row as u32).collect();
        assert_eq!(distinct.len(), 250, "five fifths");
        assert_eq!(part(5), parts[0], "around the circle");
        assert_eq!(divided(250, Division::Nothing), LocalData::all(samples(250)));
        for count in 0..9 {
            let tiny = divided(count, Division::Part { part: 5, share: 0.5 });
            assert_eq!(tiny.train.count + tiny.set_aside.count, count);
        }
    }
}
