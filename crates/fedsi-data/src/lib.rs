//! Datasets and partitions for federated learning: who holds which samples.
//!
//! [`open`] reads a dataset once, checks all of it, divides it among clients, and answers with a
//! [`Federation`]: from then on nothing can fail, and a client's samples are materialised only while it takes
//! part.
//!
//! A dataset is an implementation of [`Dataset`]: one file that says all facts about it. [`Datasets`] finds them by
//! name, the built-in ones and those that a program adds.
//!
//! ```
//! use fedsi_data::{DataSpec, Datasets, Size, Split};
//!
//! let data = DataSpec::defaults("digits", Size::Small);
//! let partition = Datasets::builtin().find("digits")?.defaults(Size::Small).partition;
//! let federation = fedsi_data::open(&data, &partition, 1)?;
//! let samples = federation.samples(3, Split::Train);
//! assert_eq!(samples.count, 100);
//! assert_eq!(samples.inputs.len(), 100 * 28 * 28);
//! # Ok::<(), fedsi_data::DataError>(())
//! ```

mod checksum;
mod corruption;
mod csv_text;
mod dataset;
mod datasets;
mod digest;
mod digits;
mod display_name;
mod error;
mod federation;
mod fetch;
mod file;
mod label_table;
mod partition;
mod pool;
mod pooled;
mod read;
mod scale;
pub mod site;
mod spec;
pub mod table;

use std::path::Path;

pub use checksum::hexadecimal;
pub use corruption::{Corruption, Strength};
pub use csv_text::csv_text;
pub use dataset::{CheckReport, DataForm, Dataset, DatasetDefaults, PooledSetting, RemoteFile, SplitReport};
pub use datasets::Datasets;
pub use digest::{DataChange, DataDigest, InputFile, input_files, partition_digest};
pub use digits::draw_digit;
pub use display_name::{display_name, printable, shortened};
pub use error::{DataError, UnknownDataset};
pub use federation::{Federation, Samples, Split, Targets, Task};
pub use fetch::{FetchOptions, FetchProgress, FetchReport, FetchedFile, fetch};
pub use label_table::{LabelRow, LabelTable, label_table};
pub use partition::{ClientRows, RowArrays, partition_rows};
pub use pooled::open_dataset;
pub use read::{
    ArrayNumbers, InputForm, InputRows, InputTable, LabelledRows, TargetForm, array_inputs, npy_numbers,
    read_inputs, read_labelled,
};
pub use scale::Scaling;
pub use spec::{DataSpec, DatasetName, FilesSpec, PartitionKind, PartitionSpec, Size, TaskKind};
pub use table::{
    BadCell, ColumnEncoding, ColumnKind, ColumnRange, DataSummary, OutsideValue, SiteSummary, TableEncoding,
    outside,
};

/// Opens a built-in dataset and divides it among clients; [`Datasets::open`] knows others too.
///
/// Reads and checks all files of the dataset, and keeps them in memory (MNIST 55 MB, CIFAR-10 184 MB; the built-in
/// digits nothing). The same settings and seed give the same clients.
///
/// # Errors
/// Where a file is missing or malformed, or the partition cannot be had from it: see [`DataError`].
pub fn open(data: &DataSpec, partition: &PartitionSpec, seed: u64) -> Result<Box<dyn Federation>, DataError> {
    Datasets::builtin().open(data, partition, seed)
}

/// Reads every built-in dataset found in a data folder: see [`Datasets::check`].
#[must_use]
pub fn check(dir: &Path) -> Vec<CheckReport> {
    Datasets::builtin().check(dir)
}
