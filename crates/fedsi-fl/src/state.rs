//! What a client knows of a network's parameters while it works: values, and what stands around them.

use std::ops::Range;

use crate::server::is_finite;

/// Parameters as points, as independent normals, or with samples of the head beside them. Of a whole network, or of the
/// part of it that a client keeps between rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Values, or means; of a head that is sampled: the newest sample.
    pub values: Vec<f32>,
    /// Standard deviations, one a value; empty for points.
    pub deviation: Vec<f32>,
    /// Samples of the head, one after another, the newest last.
    pub samples: Vec<f32>,
}

impl State {
    /// Point values.
    #[must_use]
    pub const fn point(values: Vec<f32>) -> Self {
        Self { values, deviation: Vec::new(), samples: Vec::new() }
    }

    /// The part of it that lies in `range`. Samples stay with it: they are of a kept head.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let deviation = self.deviation.get(range.clone()).map(<[f32]>::to_vec).unwrap_or_default();
        Self { values: self.values[range].to_vec(), deviation, samples: self.samples.clone() }
    }

    /// Puts a part back where it belongs.
    pub fn put(&mut self, range: Range<usize>, part: &Self) {
        self.values[range.clone()].copy_from_slice(&part.values);
        if let Some(own) = self.deviation.get_mut(range) {
            own.copy_from_slice(&part.deviation);
        }
        self.samples.clone_from(&part.samples);
    }

    /// Whether all of it are numbers.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        is_finite(&self.values) && is_finite(&self.deviation) && is_finite(&self.samples)
    }
}
