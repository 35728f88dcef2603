//! The built-in datasets, a file each, and the registry that finds datasets by name.
//!
//! To add one here: write a file beside these and list it in [`Datasets::builtin`]. One written elsewhere is added by
//! [`Datasets::with`].

mod cifar;
mod cifar_archive;
mod digits;
mod fashion_mnist;
mod files;
mod idx;
mod mnist;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::dataset::{CheckReport, Dataset};
use crate::error::{DataError, UnknownDataset};
use crate::federation::{Federation, Task};
use crate::pool::{Inputs, Pool, PoolInputs, PoolTargets};
use crate::pooled::open_dataset;
use crate::spec::{DataSpec, DatasetName, PartitionSpec};

use cifar::Cifar10;
use mnist::Mnist;

/// What tests of downloads and readers make small copies of.
#[cfg(test)]
pub(crate) mod for_tests {
    pub(crate) use super::cifar::{BATCHES as CIFAR_BATCHES, Cifar10, FOLDER as CIFAR_FOLDER};
    pub(crate) use super::cifar_archive::SUMS as CIFAR_SUMS;
    pub(crate) use super::mnist::Mnist;
}

/// The datasets that can be opened by name. Cheap to clone.
#[derive(Clone)]
pub struct Datasets {
    all: Vec<Arc<dyn Dataset>>,
}

impl fmt::Debug for Datasets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Default for Datasets {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Datasets {
    /// The datasets of this crate.
    #[must_use]
    pub fn builtin() -> Self {
        Self {
            all: vec![
                Arc::new(digits::Digits),
                Arc::new(Mnist),
                Arc::new(fashion_mnist::FashionMnist),
                Arc::new(Cifar10),
                Arc::new(files::Files),
            ],
        }
    }

    /// The same with one more dataset; it takes the place of one with the same name.
    #[must_use]
    pub fn with(mut self, dataset: Arc<dyn Dataset>) -> Self {
        match self.all.iter_mut().find(|known| known.name() == dataset.name()) {
            Some(known) => *known = dataset,
            None => self.all.push(dataset),
        }
        self
    }

    /// All of them, in the order in which they are listed in help texts.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Dataset>> {
        self.all.iter()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|dataset| dataset.name())
    }

    /// The dataset of this name.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn find(&self, name: &str) -> Result<&Arc<dyn Dataset>, UnknownDataset> {
        let found = self.all.iter().find(|dataset| dataset.name() == name);
        found.ok_or_else(|| UnknownDataset::new(name, self.names()))
    }

    /// Opens the dataset that the settings name, and divides it among clients: see [`open`](crate::open).
    ///
    /// # Errors
    /// An unknown name, and where the dataset cannot be opened.
    pub fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        open_dataset(self.find(data.dataset.as_str())?.as_ref(), data, partition, seed)
    }

    /// Reads every dataset found in a data folder. Problems are reported, never an error; no report where no dataset
    /// is there. Costs reading everything once or twice.
    #[must_use]
    pub fn check(&self, dir: &Path) -> Vec<CheckReport> {
        self.all.iter().filter_map(|dataset| dataset.check(dir)).collect()
    }
}

/// The folder of a dataset that is missing a file.
fn missing(dataset: &dyn Dataset, dir: &Path, file: &Path) -> DataError {
    DataError::MissingDataset {
        dataset: DatasetName::from(dataset.name()),
        dir: dir.to_path_buf(),
        missing: file.to_path_buf(),
    }
}

/// Images of bytes with a class each.
fn image_pool(dataset: &dyn Dataset, classes: usize, images: Vec<u8>, labels: Vec<u32>) -> Pool {
    let names = dataset.class_names();
    Pool {
        rows: labels.len(),
        shape: dataset.form().map_or_else(Vec::new, |form| form.input_shape.to_vec()),
        inputs: PoolInputs::Array(Inputs::Bytes(images)),
        targets: PoolTargets::Classes(labels),
        task: Task::Classification { classes },
        class_names: (!names.is_empty()).then(|| names.iter().map(|&name| name.to_owned()).collect()),
        owners: None,
        train_rows: None,
    }
}

#[cfg(test)]
mod tests;
