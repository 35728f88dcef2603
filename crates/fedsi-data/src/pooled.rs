//! All clients' data in one place: at one client alone, or at one more client beside the others.

use crate::dataset::Dataset;
use crate::error::DataError;
use crate::federation::{Federation, Samples, Split, Targets, Task};
use crate::scale::Scaling;
use crate::spec::{DataSpec, PartitionSpec};
use crate::table::{ColumnRange, DataSummary, TableEncoding};

/// The name of the client that has all data.
const NAME: &str = "pooled";

/// Opens a dataset and divides it among clients. With `partition.pooled` what they have is then put together as the data of one
/// client; with `partition.pooled_client` one more client has all their training rows. Costs what [`Dataset::open`] does, and
/// where data is put together its row numbers once more.
///
/// # Errors
/// Where a file is missing or malformed, or the partition cannot be had from it.
pub fn open_dataset(
    dataset: &dyn Dataset,
    data: &DataSpec,
    partition: &PartitionSpec,
    seed: u64,
) -> Result<Box<dyn Federation>, DataError> {
    let federation = dataset.open(data, partition, seed)?;
    Ok(if partition.pooled {
        Box::new(Pooled::instead_of(federation))
    } else if partition.pooled_client {
        Box::new(Pooled::beside(federation))
    } else {
        federation
    })
}

/// The clients of a federation, or none of them, and after them one with the samples of all, in the order of clients.
struct Pooled {
    divided: Box<dyn Federation>,
    /// How many clients stay as they are; the next one has what all have.
    kept: usize,
    /// Whether that client has the test samples too.
    is_tested: bool,
    /// Numbers of its training and of its test rows, where samples are rows of something.
    rows: Option<(Vec<u32>, Vec<u32>)>,
}

impl Pooled {
    /// One client with everything.
    fn instead_of(divided: Box<dyn Federation>) -> Self {
        Self::new(divided, 0, true)
    }

    /// All clients, and one more with their training samples. They are tested, it is not.
    fn beside(divided: Box<dyn Federation>) -> Self {
        let clients = divided.clients();
        Self::new(divided, clients, false)
    }

    fn new(divided: Box<dyn Federation>, kept: usize, is_tested: bool) -> Self {
        let mut pooled = Self { divided, kept, is_tested, rows: None };
        let all = |split: Split| -> Option<Vec<u32>> {
            let owners = pooled.owners(kept, split);
            let rows = owners.map(|owner| pooled.divided.row_numbers(owner, split));
            rows.collect::<Option<Vec<&[u32]>>>().map(|rows| rows.concat())
        };
        pooled.rows = all(Split::Train).zip(all(Split::Test));
        pooled
    }

    /// Whether a client is one of those that stay as they are.
    fn is_kept(&self, client: usize) -> bool {
        client < self.kept
    }

    /// The clients whose samples a client has: its own, or those of all; none where there is no such client.
    fn owners(&self, client: usize, split: Split) -> std::ops::Range<usize> {
        if self.is_kept(client) {
            client..client + 1
        } else if client == self.kept && (split == Split::Train || self.is_tested) {
            0..self.divided.clients()
        } else {
            0..0
        }
    }
}

impl Federation for Pooled {
    fn clients(&self) -> usize {
        self.kept + 1
    }

    fn client_name(&self, client: usize) -> Option<&str> {
        if self.is_kept(client) {
            return self.divided.client_name(client);
        }
        (client == self.kept).then_some(NAME)
    }

    fn input_shape(&self) -> &[usize] {
        self.divided.input_shape()
    }

    fn task(&self) -> Task {
        self.divided.task()
    }

    fn class_names(&self) -> Option<&[String]> {
        self.divided.class_names()
    }

    fn count(&self, client: usize, split: Split) -> usize {
        self.owners(client, split).map(|owner| self.divided.count(owner, split)).sum()
    }

    fn samples(&self, client: usize, split: Split) -> Samples {
        if self.is_kept(client) {
            return self.divided.samples(client, split);
        }
        let count = self.count(client, split);
        let width: usize = self.input_shape().iter().product();
        let mut inputs = Vec::with_capacity(count * width);
        let (mut classes, mut values) = (Vec::new(), Vec::new());
        for owner in self.owners(client, split) {
            let own = self.divided.samples(owner, split);
            inputs.extend_from_slice(&own.inputs);
            match own.targets {
                Targets::Classes(own) => classes.extend(own),
                Targets::Values(own) => values.extend(own),
            }
        }
        let targets = match self.task() {
            Task::Classification { .. } => Targets::Classes(classes),
            Task::Regression { .. } => Targets::Values(values),
        };
        Samples { count, inputs, targets }
    }

    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        let Task::Classification { classes } = self.task() else { return Vec::new() };
        let mut counts = vec![0; classes];
        for owner in self.owners(client, split) {
            for (sum, count) in counts.iter_mut().zip(self.divided.label_counts(owner, split)) {
                *sum += count;
            }
        }
        counts
    }

    fn row_numbers(&self, client: usize, split: Split) -> Option<&[u32]> {
        if self.is_kept(client) {
            return self.divided.row_numbers(client, split);
        }
        let (train, test) = self.rows.as_ref()?;
        Some(match split {
            _ if client > self.kept => &[],
            Split::Train => train,
            Split::Test => test,
        })
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        self.divided.target_scaling()
    }

    fn input_scaling(&self) -> Option<&Scaling> {
        self.divided.input_scaling()
    }

    fn pools_rows(&self) -> bool {
        self.divided.pools_rows()
    }

    fn table_encoding(&self) -> Option<&TableEncoding> {
        self.divided.table_encoding()
    }

    fn row_id(&self, row: u32) -> Option<String> {
        self.divided.row_id(row)
    }

    fn row_cells(&self, row: u32) -> Option<Vec<String>> {
        self.divided.row_cells(row)
    }

    fn row_targets(&self, row: u32) -> Option<Vec<String>> {
        self.divided.row_targets(row)
    }

    fn column_ranges(&self, client: usize) -> Option<Vec<ColumnRange>> {
        let mut owners = self.owners(client, Split::Train).map(|owner| self.divided.column_ranges(owner));
        let mut joined = owners.next()??;
        for ranges in owners {
            joined = joined.into_iter().zip(ranges?).map(|(one, other)| one.joined(other)).collect();
        }
        Some(joined)
    }

    fn data_summary(&self) -> Option<DataSummary> {
        self.divided.data_summary()
    }

    fn input_columns(&self) -> Option<&[String]> {
        self.divided.input_columns()
    }

    fn has_pixels(&self) -> bool {
        self.divided.has_pixels()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Size;
    use crate::{Datasets, partition_digest};

    fn opened(data: &DataSpec, partition: &PartitionSpec, pooled: bool) -> Box<dyn Federation> {
        let partition = PartitionSpec { pooled, ..partition.clone() };
        Datasets::builtin().open(data, &partition, 3).unwrap()
    }

    /// The samples of all clients, one after another, are those of the one client.
    fn holds_everything(divided: &dyn Federation, one: &dyn Federation) {
        assert_eq!((one.clients(), one.client_name(0), one.client_name(1)), (1, Some("pooled"), None));
        for split in [Split::Train, Split::Test] {
            let samples = one.samples(0, split);
            let own: Vec<Samples> =
                (0..divided.clients()).map(|client| divided.samples(client, split)).collect();
            assert_eq!(samples.count, own.iter().map(|own| own.count).sum::<usize>());
            assert_eq!(samples.count, one.count(0, split));
            assert_eq!(samples.inputs, own.iter().flat_map(|own| own.inputs.clone()).collect::<Vec<_>>());
            let mut counts = one.label_counts(0, split);
            for client in 0..divided.clients() {
                counts.iter_mut().zip(divided.label_counts(client, split)).for_each(|(sum, own)| *sum -= own);
            }
            assert!(counts.iter().all(|&left| left == 0), "{counts:?}");
            assert_eq!(
                (one.count(1, split), one.samples(1, split).count),
                (0, 0),
                "there is no other client"
            );
        }
        assert_ne!(partition_digest(divided), partition_digest(one));
    }

    #[test]
    fn digits_drawn_on_demand_are_put_together() {
        let data = DataSpec::defaults("digits", Size::Small);
        let partition = PartitionSpec::labels(4, 3, 2);
        let (divided, one) = (opened(&data, &partition, false), opened(&data, &partition, true));
        holds_everything(divided.as_ref(), one.as_ref());
        assert_eq!(one.row_numbers(0, Split::Train), None);
        assert!(one.has_pixels());
    }

    /// Clients stay as they are, and one more has everything that they train on.
    #[test]
    fn one_more_client_trains_on_everything_and_is_not_tested() {
        let data = DataSpec::defaults("digits", Size::Small);
        let partition = PartitionSpec::labels(4, 3, 2);
        let divided = opened(&data, &partition, false);
        let beside = PartitionSpec { pooled_client: true, ..partition.clone() };
        let beside = Datasets::builtin().open(&data, &beside, 3).unwrap();
        let one = opened(&data, &partition, true);
        assert_eq!(
            (beside.clients(), beside.client_name(4), beside.client_name(5)),
            (5, Some("pooled"), None)
        );
        for split in [Split::Train, Split::Test] {
            for client in 0..4 {
                assert_eq!(beside.samples(client, split), divided.samples(client, split));
                assert_eq!(beside.label_counts(client, split), divided.label_counts(client, split));
                assert_eq!(beside.count(client, split), divided.count(client, split));
            }
            assert_eq!((beside.count(5, split), beside.samples(5, split).count), (0, 0));
        }
        assert_eq!(beside.samples(4, Split::Train), one.samples(0, Split::Train));
        assert_eq!(beside.label_counts(4, Split::Train), one.label_counts(0, Split::Train));
        assert_eq!((beside.count(4, Split::Test), beside.samples(4, Split::Test).count), (0, 0));
        let digests = [&divided, &one, &beside].map(|federation| partition_digest(federation.as_ref()));
        assert!(digests[2] != digests[0] && digests[2] != digests[1]);
    }

    #[test]
    fn rows_of_a_table_are_put_together_with_their_numbers_and_ranges() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut text = "age,ward,y\n".to_owned();
        for row in 0..60 {
            text.push_str(&format!("{row},{},{}\n", ["a", "b", "c"][row / 20], ["no", "yes"][row % 2]));
        }
        std::fs::write(&path, text).unwrap();
        let mut data = DataSpec::defaults("files", Size::Small);
        (data.files.train, data.files.target) = (path, "y".to_owned());
        let partition = PartitionSpec { test_fraction: 0.25, ..PartitionSpec::iid(3) };
        let (divided, one) = (opened(&data, &partition, false), opened(&data, &partition, true));
        holds_everything(divided.as_ref(), one.as_ref());
        let rows = one.row_numbers(0, Split::Test).unwrap();
        assert_eq!(&rows[..5], divided.row_numbers(0, Split::Test).unwrap());
        assert_eq!(rows.len(), 15);
        let trained = one.row_numbers(0, Split::Train).unwrap();
        let (min, max) = (*trained.iter().min().unwrap(), *trained.iter().max().unwrap());
        let ranges = one.column_ranges(0).unwrap();
        assert_eq!(ranges[0], ColumnRange::Numbers { min: f64::from(min), max: f64::from(max) });
        assert_eq!(ranges[1], ColumnRange::Categories(["a", "b", "c"].map(str::to_owned).to_vec()));
        assert_eq!(one.column_ranges(1), None);
        let beside = PartitionSpec { pooled_client: true, ..partition };
        let beside = Datasets::builtin().open(&data, &beside, 3).unwrap();
        for split in [Split::Train, Split::Test] {
            assert_eq!(beside.row_numbers(1, split), divided.row_numbers(1, split));
        }
        assert_eq!(beside.row_numbers(3, Split::Train), one.row_numbers(0, Split::Train));
        assert_eq!(beside.row_numbers(3, Split::Test), Some(&[][..]));
        assert_eq!(
            (beside.column_ranges(1), beside.column_ranges(3)),
            (divided.column_ranges(1), Some(ranges))
        );
    }
}
