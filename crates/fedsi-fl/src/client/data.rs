//! A client's own data, divided into what it trains on and what it does not.

use fedsi_data::{Samples, Targets};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use rand::seq::SliceRandom as _;

use crate::network::TrainingData;

/// Share of its training data that a client sets aside until the federation has chosen a prior variance.
pub const SET_ASIDE_SHARE: f64 = 0.2;

/// A client's training data.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalData {
    /// What it trains on.
    pub train: Samples,
    /// What it holds out, to be scored on while training.
    pub held_out: Samples,
    /// What it sets aside until the prior variance of personal models is chosen.
    pub set_aside: Samples,
}

impl LocalData {
    /// Data of which nothing is held out.
    #[must_use]
    pub fn all(train: Samples) -> Self {
        let (held_out, set_aside) = (train.select(&[]), train.select(&[]));
        Self { train, held_out, set_aside }
    }

    /// A random share `held_out` of the client's samples is held out, and of the rest, where `set_aside`,
    /// [`SET_ASIDE_SHARE`] set aside: the same samples whenever it is asked.
    #[must_use]
    pub fn divide(samples: Samples, held_out: f64, set_aside: bool, client: usize, streams: Streams) -> Self {
        let mut data = Self::all(samples);
        let cut = |samples: &mut Samples, share, purpose| {
            cut_off(samples, share, &mut streams.stream(purpose, client as u64, 0))
        };
        data.held_out = cut(&mut data.train, held_out, Purpose::Validation);
        let share = if set_aside { SET_ASIDE_SHARE } else { 0.0 };
        data.set_aside = cut(&mut data.train, share, Purpose::Calibration);
        data
    }

    /// The bytes of its inputs, which dominate its memory.
    #[must_use]
    pub const fn input_bytes(&self) -> usize {
        let values = self.train.inputs.len() + self.held_out.inputs.len() + self.set_aside.inputs.len();
        values * size_of::<f32>()
    }
}

/// Cuts a random share of samples off, and returns it.
fn cut_off(samples: &mut Samples, share: f64, rng: &mut ChaCha8Rng) -> Samples {
    let mut order: Vec<usize> = (0..samples.count).collect();
    order.shuffle(rng);
    order.truncate((samples.count as f64 * share).floor() as usize);
    if order.is_empty() {
        return samples.select(&[]);
    }
    order.sort_unstable();
    let (cut, rest) = samples.split(&order);
    *samples = rest;
    cut
}

/// Samples as a network trains on them.
pub(super) fn training_data(samples: &Samples) -> TrainingData<'_> {
    let targets = match &samples.targets {
        Targets::Classes(labels) => fedsi_nn::Targets::Classes(labels),
        Targets::Values(values) => fedsi_nn::Targets::Values(values),
    };
    TrainingData { inputs: &samples.inputs, targets }
}
