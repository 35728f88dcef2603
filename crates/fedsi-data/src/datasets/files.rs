//! The user's own files. How they are read: [`crate::read`].

use std::path::PathBuf;

use crate::dataset::{DataForm, Dataset, DatasetDefaults, PooledSetting};
use crate::error::DataError;
use crate::federation::Federation;
use crate::pool::Pooled;
use crate::read;
use crate::spec::{DataSpec, FilesSpec, PartitionSpec, Size, TaskKind};

/// CSV, Parquet, NPY or safetensors files of the user's own: `[data.files]`.
#[derive(Debug)]
pub(super) struct Files;

impl Dataset for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn description(&self) -> &'static str {
        "your own tables (CSV, Parquet) or arrays (NPY, safetensors)"
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
        let pool = read::open_files(&data.files, partition)?;
        Ok(Box::new(Pooled::new(pool, partition, data.files.standardize, seed)?))
    }

    fn input_files(&self, data: &DataSpec) -> Vec<PathBuf> {
        read::input_files(&data.files)
    }

    fn label(&self, data: &DataSpec) -> String {
        let files = &data.files;
        if !files.name.is_empty() {
            return files.name.clone();
        }
        let stem = files.train.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.unwrap_or_else(|| self.name().to_owned())
    }

    fn own_files<'a>(&self, data: &'a DataSpec) -> Option<&'a FilesSpec> {
        Some(&data.files)
    }

    fn pooled(&self, data: &DataSpec) -> Option<PooledSetting> {
        let files = &data.files;
        if files.standardize {
            let instead = "means and standard deviations of all clients' rows would become known without noise; use \
                           false, with columns that were scaled by ranges known beforehand";
            return Some(PooledSetting { key: "data.files.standardize", found: "true".to_owned(), instead });
        }
        let listed = files.task == TaskKind::Regression || !files.classes.is_empty();
        let instead =
            "which classes there are in all clients' rows would become known without noise; give their names";
        (!listed).then(|| PooledSetting { key: "data.files.classes", found: "[]".to_owned(), instead })
    }

    fn not_fetchable(&self) -> &'static str {
        "it is your own: set data.files.train"
    }
}
