//! The order in which samples are trained on.

use fedsi_random::ChaCha8Rng;
use rand::Rng as _;
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

    /// Samples of a batch as it was asked for: more than the largest batch where there are fewer samples.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.order {
            Order::Shuffled { size, .. } => *size,
            Order::Given(_) => self.largest(),
        }
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
        let samples = self.samples as f64;
        self.each_epoch(|batches, rng| {
            let mut sum = 0.0;
            for rows in batches {
                sum += step(rows, rng) * rows.len() as f64;
            }
            mean = sum / samples;
        });
        mean
    }

    /// All batches at once, for who trains elsewhere: drawn as [`Self::run`] draws them while its steps draw nothing.
    pub fn list(&mut self) -> BatchList {
        let mut list = BatchList { samples: self.samples, ..BatchList::default() };
        self.each_epoch(|batches, _| {
            list.last_epoch = list.ends.len();
            for rows in batches {
                list.rows.extend_from_slice(rows);
                list.ends.push(list.rows.len());
            }
        });
        list
    }

    /// A number for other draws than those of the order.
    pub fn draw_key(&mut self) -> u64 {
        self.rng.next_u64()
    }

    fn each_epoch(&mut self, mut each: impl FnMut(&mut dyn Iterator<Item = &[u32]>, &mut ChaCha8Rng)) {
        let size = self.largest();
        match &self.order {
            Order::Shuffled { epochs, .. } => {
                let mut order: Vec<u32> = (0..self.samples as u32).collect();
                for _ in 0..*epochs {
                    order.shuffle(self.rng);
                    each(&mut order.chunks(size), self.rng);
                }
            }
            Order::Given(epochs) => {
                for epoch in epochs {
                    each(&mut epoch.iter().map(Vec::as_slice), self.rng);
                }
            }
        }
    }
}

/// The batches of all epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchList {
    samples: usize,
    rows: Vec<u32>,
    /// Where each batch ends among the rows.
    ends: Vec<usize>,
    /// The first batch of the last epoch.
    last_epoch: usize,
}

impl BatchList {
    /// How many batches there are.
    #[must_use]
    pub const fn steps(&self) -> usize {
        self.ends.len()
    }

    /// The rows of every batch.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.rows[start..end])
    }

    /// What [`Batches::run`] returns, from the mean loss of every batch; NaN without batches.
    #[must_use]
    pub fn mean_of_last_epoch(&self, losses: &[f32]) -> f64 {
        if self.ends.is_empty() {
            return f64::NAN;
        }
        let batches = self.iter().zip(losses).skip(self.last_epoch);
        let sum: f64 = batches.map(|(rows, &loss)| f64::from(loss) * rows.len() as f64).sum();
        sum / self.samples as f64
    }
}

#[cfg(test)]
mod tests {
    use fedsi_random::{Purpose, Streams};

    use super::*;

    #[test]
    fn a_list_has_the_batches_that_a_run_has() {
        let rng = || Streams::new(1).stream(Purpose::Initialisation, 0, 0);
        let (mut first, mut second) = (rng(), rng());
        let mut seen = Vec::new();
        let mean = Batches::shuffled(23, 3, 10, &mut first).run(|rows, _| {
            seen.push(rows.to_vec());
            f64::from(rows[0])
        });
        let list = Batches::shuffled(23, 3, 10, &mut second).list();
        assert_eq!(list.steps(), 9);
        assert_eq!(list.iter().map(<[u32]>::to_vec).collect::<Vec<_>>(), seen);
        let losses: Vec<f32> = seen.iter().map(|rows| rows[0] as f32).collect();
        assert_eq!(list.mean_of_last_epoch(&losses), mean);
        assert!(Batches::shuffled(23, 0, 10, &mut first).list().mean_of_last_epoch(&[]).is_nan());
    }
}
