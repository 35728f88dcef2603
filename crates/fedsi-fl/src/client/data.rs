//! A client's own data, divided into what it trains on and what it does not.

use fedsi_data::{Samples, Targets};
use fedsi_random::{Purpose, Streams};
use rand::seq::SliceRandom as _;

use crate::calibration::SHARING;
use crate::network::{DataId, TrainingData};

/// Which part of its training data a client sets aside until the federation has chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Division {
    /// None.
    Nothing,
    /// One of several parts of this share. Where a part has 200 samples or more, a quarter of them is in the part
    /// before it as well, and another quarter in the next.
    Part {
        /// Which, counted from 0.
        part: usize,
        /// Share of the training data.
        share: f64,
    },
    /// Of such a part what it has in common with the one before it and the next.
    Common {
        /// Which, counted from 0.
        part: usize,
        /// How many there are.
        parts: usize,
        /// Share of the training data of a part.
        share: f64,
    },
}

impl Division {
    /// A number that no other division of the same data has; none where nothing is set aside.
    pub(crate) const fn key(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Part { part, .. } => Some(2 * part),
            Self::Common { part, .. } => Some(2 * part + 1),
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
    /// Where those samples were among all that are not held out, ascending.
    set_aside_rows: Vec<usize>,
}

impl LocalData {
    /// Data of which nothing is held out.
    #[must_use]
    pub fn all(train: Samples) -> Self {
        let (held_out, set_aside) = (train.select(&[]), train.select(&[]));
        Self { id: DataId::unused(), train, held_out, set_aside, set_aside_rows: Vec::new() }
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
        order.sort_unstable();
        data.held_out = cut_off(&mut data.train, &order);
        if division != Division::Nothing {
            let order = shuffled(data.train.count, Purpose::Calibration);
            data.set_aside_rows = set_aside(&order, division);
            data.set_aside = cut_off(&mut data.train, &data.set_aside_rows);
        }
        data
    }

    /// Which of the samples set aside here are set aside by another division of the same data too: their rows here and
    /// there.
    #[must_use]
    pub fn set_aside_by_both(&self, other: &Self) -> (Vec<usize>, Vec<usize>) {
        let there = |row: &usize| other.set_aside_rows.binary_search(row).ok();
        let both = |(here, row): (usize, &usize)| there(row).map(|there| (here, there));
        self.set_aside_rows.iter().enumerate().filter_map(both).unzip()
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
        let Self { id: _, train, held_out, set_aside, set_aside_rows: _ } = self;
        (train, held_out, set_aside) == (&other.train, &other.held_out, &other.set_aside)
    }
}

/// The samples that a division sets aside, ascending, of all in a random order: parts follow each other around a circle.
fn set_aside(order: &[usize], division: Division) -> Vec<usize> {
    let count = order.len();
    let size = |share: f64| (count as f64 * share).floor() as usize;
    let common = |size: usize| if size < SHARING { 0 } else { size / 4 };
    let places: Vec<usize> = match division {
        Division::Nothing => Vec::new(),
        Division::Part { part, share } => {
            let size = size(share);
            let first = part * (size - common(size));
            (first..first + size).collect()
        }
        Division::Common { part, parts, share } => {
            let size = size(share);
            let (common, first) = (common(size), part * (size - common(size)));
            let before = first..if part > 0 { first + common } else { first };
            let next = first + size - if part + 1 < parts { common } else { 0 }..first + size;
            before.chain(next).collect()
        }
    };
    let mut rows: Vec<usize> = places.into_iter().map(|place| order[place % count]).collect();
    rows.sort_unstable();
    rows
}

/// Cuts these samples (ascending) off.
fn cut_off(samples: &mut Samples, chosen: &[usize]) -> Samples {
    if chosen.is_empty() {
        return samples.select(&[]);
    }
    let (cut, rest) = samples.split(chosen);
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
        assert_eq!(distinct(&parts), 250, "five fifths");
        assert!(parts[0].set_aside_by_both(&parts[1]).0.is_empty(), "too few to have some in common");
        let common = divided(250, Division::Common { part: 1, parts: 4, share: 0.2 });
        assert_eq!(common, LocalData::all(samples(250)));
        assert_eq!(part(5), parts[0], "around the circle");
        assert_eq!(divided(250, Division::Nothing), LocalData::all(samples(250)));
        for count in 0..9 {
            let tiny = divided(count, Division::Part { part: 5, share: 0.5 });
            assert_eq!(tiny.train.count + tiny.set_aside.count, count);
        }
    }

    #[test]
    fn neighbouring_parts_of_large_clients_have_a_quarter_in_common() {
        let part = |part| divided(1000, Division::Part { part, share: 0.2 });
        let common = |part| divided(1000, Division::Common { part, parts: 4, share: 0.2 });
        let rows = |data: &LocalData, rows: &[usize]| data.set_aside.select(rows).inputs;
        let (parts, commons): (Vec<_>, Vec<_>) = (0..4).map(|mode| (part(mode), common(mode))).unzip();
        assert_eq!(distinct(&parts), 200 + 3 * 150);
        for (mode, data) in commons.iter().enumerate() {
            let expected = if mode == 0 || mode == 3 { 50 } else { 100 };
            assert_eq!((data.set_aside.count, data.train.count), (expected, 1000 - expected));
            assert_eq!(data.set_aside_by_both(&parts[mode]).0.len(), expected, "of what it set aside before");
        }
        for mode in 0..3 {
            let (here, there) = parts[mode].set_aside_by_both(&parts[mode + 1]);
            let shared = rows(&parts[mode], &here);
            assert_eq!((here.len(), &rows(&parts[mode + 1], &there)), (50, &shared), "a quarter of each");
            let (here, _) = commons[mode].set_aside_by_both(&commons[mode + 1]);
            assert_eq!(rows(&commons[mode], &here), shared, "the same until the end");
        }
        assert!(parts[0].set_aside_by_both(&parts[2]).0.is_empty());
        let divisions =
            [Division::Part { part: 1, share: 0.2 }, Division::Common { part: 1, parts: 4, share: 0.2 }];
        assert_ne!(divisions[0].key(), divisions[1].key());
    }

    fn distinct(parts: &[LocalData]) -> usize {
        let rows = parts.iter().flat_map(|data| &data.set_aside.inputs).map(|&row| row as u32);
        rows.collect::<std::collections::BTreeSet<u32>>().len()
    }
}
