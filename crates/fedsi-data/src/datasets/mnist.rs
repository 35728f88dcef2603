//! MNIST: its files, mirrors and defaults. How its files are read: [`super::idx`].

use std::path::{Path, PathBuf};

use super::idx;
use crate::dataset::{CheckReport, DataForm, Dataset, DatasetDefaults, RemoteFile};
use crate::error::DataError;
use crate::federation::Federation;
use crate::spec::{DataSpec, PartitionSpec, Size};

const FILES: &[RemoteFile] = &[
    RemoteFile {
        name: "train-images-idx3-ubyte.gz",
        size: 9_912_422,
        sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        unpacked: Some((47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db")),
    },
    RemoteFile {
        name: "train-labels-idx1-ubyte.gz",
        size: 28_881,
        sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        unpacked: Some((60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")),
    },
    RemoteFile {
        name: "t10k-images-idx3-ubyte.gz",
        size: 1_648_877,
        sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        unpacked: Some((7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7")),
    },
    RemoteFile {
        name: "t10k-labels-idx1-ubyte.gz",
        size: 4_542,
        sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        unpacked: Some((10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")),
    },
];

const MIRRORS: &[&str] = &[
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
];

/// Handwritten digits, 28x28, 70,000 images.
#[derive(Debug)]
pub(crate) struct Mnist;

impl Dataset for Mnist {
    fn name(&self) -> &'static str {
        "mnist"
    }

    fn description(&self) -> &'static str {
        "handwritten digits (LeCun, Cortes, Burges 1998)"
    }

    fn form(&self) -> Option<DataForm<'_>> {
        Some(idx::FORM)
    }

    fn defaults(&self, size: Size) -> DatasetDefaults {
        idx::defaults(size)
    }

    fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        idx::open(self, &data.dir, partition, seed)
    }

    fn input_files(&self, data: &DataSpec) -> Vec<PathBuf> {
        idx::input_files(self, &data.dir)
    }

    fn samples(&self) -> Option<(usize, usize)> {
        Some(idx::SAMPLES)
    }

    fn files(&self) -> &[RemoteFile] {
        FILES
    }

    fn mirrors(&self) -> &[&str] {
        MIRRORS
    }

    fn check(&self, dir: &Path) -> Option<CheckReport> {
        idx::check(self, dir)
    }
}
