//! The order in which samples are trained on.

use fedsi_random::ChaCha8Rng;
use rand::seq::SliceRandom as _;

/// Epochs over a client's samples: mini-batches of row numbers, shuffled anew in every epoch.
#[derive(Debug)]
pub struct Batches<'a> {
    samples: usize,
    order: Order,
    rng: &'a mut ChaCha8Rng,
}

#[derive(Debug)]
enum Order {
    Shuffled { epochs: usize, size: usize },
    Given(Vec<Vec<Vec<u32>>>),
}

impl<'a> Batches<'a> {
    /// `epochs` passes over `samples` samples in batches of `size`; the short last batch is kept.
    #[must_use]
    pub const fn shuffled(samples: usize, epochs: usize, size: usize, rng: &'a mut ChaCha8Rng) -> Self {
        Self { samples, order: Order::Shuffled { epochs, size }, rng }
    }

    /// These epochs, each a list of batches.
    #[must_use]
    pub const fn given(samples: usize, epochs: Vec<Vec<Vec<u32>>>, rng: &'a mut ChaCha8Rng) -> Self {
        Self { samples, order: Order::Given(epochs), rng }
    }

    /// The largest batch.
    #[must_use]
    pub fn largest(&self) -> usize {
        let largest = match &self.order {
            Order::Shuffled { size, .. } => *size,
            Order::Given(epochs) => epochs.iter().flatten().map(Vec::len).max().unwrap_or(1),
        };
        largest.min(self.samples).max(1)
    }

    /// How many batches there are, over all epochs.
    #[must_use]
    pub fn steps(&self) -> usize {
        match &self.order {
            Order::Shuffled { epochs, .. } => epochs * self.samples.div_ceil(self.largest()),
            Order::Given(epochs) => epochs.iter().map(Vec::len).sum(),
        }
    }

    /// Calls `step` with each batch; it returns the batch's mean loss. Returns the mean loss a sample over the last
    /// epoch, NaN where there is none.
    pub fn run(&mut self, mut step: impl FnMut(&[u32], &mut ChaCha8Rng) -> f64) -> f64 {
        let mut mean = f64::NAN;
        let size = self.largest();
        match &self.order {
            Order::Shuffled { epochs, .. } => {
                let mut order: Vec<u32> = (0..self.samples as u32).collect();
                for _ in 0..*epochs {
                    order.shuffle(self.rng);
                    let mut sum = 0.0;
                    for rows in order.chunks(size) {
                        sum += step(rows, self.rng) * rows.len() as f64;
                    }
                    mean = sum / self.samples as f64;
                }
            }
            Order::Given(epochs) => {
                for epoch in epochs {
                    let mut sum = 0.0;
                    for rows in epoch {
                        sum += step(rows, self.rng) * rows.len() as f64;
                    }
                    mean = sum / self.samples as f64;
                }
            }
        }
        mean
    }
}
