//! The built-in dataset: digits drawn on demand.
//!
//! Image `j` of a class and client is a function of the run's seed alone, so that any number of clients is
//! feasible with nothing stored, and a small federation is a part of a larger one.

mod glyphs;
mod pen;

use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

use crate::error::DataError;
use crate::federation::{Federation, Samples, Split, Targets, Task};
use crate::partition::{check_unequal, proportions, refuse_columns, unequal};
use crate::scale::Scaling;
use crate::scale::byte_to_unit;
use crate::spec::{PartitionKind, PartitionSpec};

/// Classes.
pub(crate) const CLASSES: usize = 10;
/// The shape of one image.
pub(crate) const SHAPE: [usize; 3] = [1, pen::SIDE, pen::SIDE];
/// Most samples of one class that one client can have: larger numbers would meet the word that tells
/// training images from test images.
const MOST: usize = 1 << 24;

/// Draws the image of `class` with number `index` among a client's images of this class and split: 28x28 bytes,
/// white ink (255) on black, row-major. About 20 microseconds.
#[must_use]
pub fn draw_digit(seed: u64, client: u64, split: Split, class: usize, index: u32) -> Vec<u8> {
    // Training and test images of a client differ in the topmost bit, so they can never be the same image.
    let split = match split {
        Split::Train => 0,
        Split::Test => 1 << 63,
    };
    let number = split | ((class % CLASSES) as u64) << 32 | u64::from(index);
    pen::draw(class % CLASSES, Streams::new(seed).stream(Purpose::Digits, client, number)).to_vec()
}

/// The clients of the built-in digits. Stores nothing but its settings, and of clients of unequal sizes these.
pub(crate) struct DrawnDigits {
    seed: u64,
    partition: PartitionSpec,
    /// Of clients of unequal sizes, which cannot be drawn one by one.
    unequal: Option<UnequalCounts>,
}

/// How many images of each class every client has, where clients differ in size.
struct UnequalCounts {
    train: Vec<[u32; CLASSES]>,
    test: Vec<[u32; CLASSES]>,
}

impl UnequalCounts {
    /// As the same number of rows of a pool would be divided.
    fn drawn(partition: &PartitionSpec, seed: u64) -> Result<Self, DataError> {
        let per_client = partition.labels_per_client * (partition.train + partition.test);
        let total = partition.clients.saturating_mul(per_client);
        if total > MOST {
            let expected =
                format!("so few that clients x labels_per_client x (train + test) is at most {MOST}");
            return Err(DataError::setting("partition.clients", partition.clients, expected));
        }
        let wanted = unequal::even_counts(&[MOST; CLASSES], total);
        let test_rows = |rows| unequal::test_rows(rows, partition);
        unequal::draw(&wanted, partition, &Streams::new(seed), test_rows, |counts| {
            let (mut train, mut test) = (Vec::with_capacity(counts.len()), Vec::with_capacity(counts.len()));
            for own in counts {
                let sizes: Vec<f64> = own.iter().map(|&count| count as f64).collect();
                let cut = proportions::apportion(&sizes, test_rows(own.iter().sum()));
                train.push(std::array::from_fn(|class| (own[class] - cut[class].min(own[class])) as u32));
                test.push(std::array::from_fn(|class| cut[class].min(own[class]) as u32));
            }
            Some(Self { train, test })
        })
    }
}

impl DrawnDigits {
    pub(crate) fn open(partition: &PartitionSpec, seed: u64) -> Result<Self, DataError> {
        match partition.kind {
            PartitionKind::Labels | PartitionKind::Iid | PartitionKind::Dirichlet => {}
            PartitionKind::Shards | PartitionKind::Natural | PartitionKind::File => {
                return Err(DataError::setting(
                    "partition.kind",
                    partition.kind,
                    "labels, iid or dirichlet: the built-in digits are drawn on demand, and there is no pool to divide",
                ));
            }
        }
        if partition.clients == 0 {
            return Err(DataError::setting("partition.clients", 0, "at least 1"));
        }
        if !(1..=CLASSES).contains(&partition.labels_per_client) {
            let found = partition.labels_per_client;
            return Err(DataError::setting(
                "partition.labels_per_client",
                found,
                "1 to 10, the classes of digits",
            ));
        }
        for (key, count, least) in
            [("partition.train", partition.train, 1), ("partition.test", partition.test, 0)]
        {
            if !(least..=MOST).contains(&count) {
                return Err(DataError::setting(
                    key,
                    count,
                    format!("{least} to {MOST} for the built-in digits"),
                ));
            }
        }
        proportions::check_concentration(partition)?;
        check_unequal(partition)?;
        refuse_columns(partition)?;
        let unequal = match partition.unequal {
            true => Some(UnequalCounts::drawn(partition, seed)?),
            false => None,
        };
        Ok(Self { seed, partition: partition.clone(), unequal })
    }

    /// Samples per class. The mixes of `iid` and `dirichlet` are drawn again at each call: cheaper than storing
    /// them for a million clients.
    fn counts(&self, client: usize, split: Split) -> [usize; CLASSES] {
        let mut counts = [0; CLASSES];
        if client >= self.partition.clients {
            return counts;
        }
        if let Some(unequal) = &self.unequal {
            let of_split = if split == Split::Train { &unequal.train } else { &unequal.test };
            return of_split[client].map(|count| count as usize);
        }
        let per_class = match split {
            Split::Train => self.partition.train,
            Split::Test => self.partition.test,
        };
        let held = self.partition.labels_per_client;
        let total = per_class * held;
        let streams = Streams::new(self.seed);
        match self.partition.kind {
            PartitionKind::Dirichlet => {
                let mut stream = streams.stream(Purpose::Partition, client as u64, 0);
                let mix = proportions::dirichlet(self.partition.concentration, CLASSES, &mut stream);
                for (count, share) in counts.iter_mut().zip(proportions::apportion(&mix, total)) {
                    *count = share;
                }
            }
            PartitionKind::Iid => {
                let round = u64::from(split == Split::Test);
                let mut stream = streams.stream(Purpose::Partition, client as u64, round);
                for _ in 0..total {
                    counts[stream.random_range(0..CLASSES)] += 1;
                }
            }
            PartitionKind::Labels | PartitionKind::Shards | PartitionKind::Natural | PartitionKind::File => {
                for label in 0..held {
                    // Modulo first: the product of a huge client number would overflow.
                    counts[((client % CLASSES) * held + label) % CLASSES] = per_class;
                }
            }
        }
        counts
    }
}

impl Federation for DrawnDigits {
    fn clients(&self) -> usize {
        self.partition.clients
    }

    fn client_name(&self, _client: usize) -> Option<&str> {
        None
    }

    fn input_shape(&self) -> &[usize] {
        &SHAPE
    }

    fn task(&self) -> Task {
        Task::Classification { classes: CLASSES }
    }

    fn class_names(&self) -> Option<&[String]> {
        None
    }

    fn count(&self, client: usize, split: Split) -> usize {
        if client >= self.partition.clients {
            return 0;
        }
        if self.unequal.is_some() {
            return self.counts(client, split).iter().sum();
        }
        self.partition.labels_per_client
            * match split {
                Split::Train => self.partition.train,
                Split::Test => self.partition.test,
            }
    }

    fn samples(&self, client: usize, split: Split) -> Samples {
        let count = self.count(client, split);
        let mut inputs = Vec::with_capacity(count * pen::PIXELS);
        let mut classes = Vec::with_capacity(count);
        for (class, &images) in self.counts(client, split).iter().enumerate() {
            for index in 0..images as u32 {
                let image = draw_digit(self.seed, client as u64, split, class, index);
                inputs.extend(image.into_iter().map(byte_to_unit));
                classes.push(class as u32);
            }
        }
        Samples { count, inputs, targets: Targets::Classes(classes) }
    }

    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        self.counts(client, split).to_vec()
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        None
    }

    fn has_pixels(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
