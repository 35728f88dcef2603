//! The user's own files. How they are read: [`crate::read`].

use crate::dataset::{DataForm, Dataset, DatasetDefaults};
use crate::error::DataError;
use crate::federation::Federation;
use crate::pool::Pooled;
use crate::read;
use crate::spec::{DataSpec, FilesSpec, PartitionSpec, Size};

/// CSV, NPY or safetensors files of the user's own: `[data.files]`.
#[derive(Debug)]
pub(super) struct Files;

impl Dataset for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn description(&self) -> &'static str {
        "your own CSV, NPY or safetensors files"
    }

    fn form(&self) -> Option<DataForm<'_>> {
        None
    }

    /// All rows, divided at random among ten clients. No weight noise: nothing is known of the data.
    fn defaults(&self, _size: Size) -> DatasetDefaults {
        DatasetDefaults::new(PartitionSpec::iid(10))
    }

    fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        let pool = read::open_files(&data.files)?;
        Ok(Box::new(Pooled::new(pool, partition, data.files.standardize, seed)?))
    }

    fn label(&self, data: &DataSpec) -> String {
        data.files.name.clone()
    }

    fn own_files<'a>(&self, data: &'a DataSpec) -> Option<&'a FilesSpec> {
        Some(&data.files)
    }

    fn not_fetchable(&self) -> &'static str {
        "it is your own: set data.files.train"
    }
}
