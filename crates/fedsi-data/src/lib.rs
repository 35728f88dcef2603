//! Datasets and partitions for federated learning: who holds which samples.
//!
//! [`open`] reads a dataset once, checks all of it, divides it among clients, and answers with a
//! [`Federation`]: from then on nothing can fail, and a client's samples are materialised only while it takes
//! part.
//!
//! ```
//! use fedsi_data::{DataSpec, DatasetName, PartitionSpec, Size, Split};
//!
//! let data = DataSpec::defaults(DatasetName::Digits, Size::Small);
//! let partition = PartitionSpec::defaults(DatasetName::Digits, Size::Small);
//! let federation = fedsi_data::open(&data, &partition, 1)?;
//! let samples = federation.samples(3, Split::Train);
//! assert_eq!(samples.count, 100);
//! assert_eq!(samples.inputs.len(), 100 * 28 * 28);
//! # Ok::<(), fedsi_data::DataError>(())
//! ```

pub mod catalogue;
mod check;
mod digits;
mod error;
mod federation;
mod fetch;
mod images;
mod label_table;
mod partition;
mod pool;
mod read;
mod scale;
mod spec;

pub use check::{CheckReport, SplitReport, check};
pub use digits::draw_digit;
pub use error::DataError;
pub use federation::{Federation, Samples, Scaling, Split, Targets, Task};
pub use fetch::{FetchOptions, FetchProgress, FetchReport, FetchedFile, fetch};
pub use label_table::{LabelRow, LabelTable, label_table, printable};
pub use read::{InputForm, InputRows, TargetForm, read_inputs, read_labelled};
pub use spec::{
    DataSpec, DatasetName, FilesSpec, PartitionKind, PartitionSpec, Size, TaskKind, UnknownDataset,
};

/// Opens a dataset and divides it among clients.
///
/// Reads and checks all files of the dataset, and keeps them in memory (MNIST 55 MB, CIFAR-10 184 MB; the built-in
/// digits nothing). The same settings and seed give the same clients.
///
/// # Errors
/// Where a file is missing, damaged or hostile, or the partition cannot be had from it: see [`DataError`].
pub fn open(data: &DataSpec, partition: &PartitionSpec, seed: u64) -> Result<Box<dyn Federation>, DataError> {
    let (pool, standardize) = match data.dataset {
        DatasetName::Digits => return Ok(Box::new(digits::Digits::open(partition, seed)?)),
        DatasetName::Mnist | DatasetName::FashionMnist => (images::open_idx(data.dataset, &data.dir)?, false),
        DatasetName::Cifar10 => (images::open_cifar(&data.dir)?, false),
        DatasetName::Files => (read::open_files(&data.files)?, data.files.standardize),
    };
    Ok(Box::new(pool::Pooled::new(pool, partition, standardize, seed)?))
}
