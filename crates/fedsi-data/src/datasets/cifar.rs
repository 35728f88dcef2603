//! CIFAR-10: its files, mirrors and defaults, and how its batches are read.

use std::fs::File;
use std::path::{Path, PathBuf};

use fedsi_nn::{ConvSpec, LayerSpec, PoolSpec};

use super::{cifar_archive, image_pool, missing};
use crate::checksum;
use crate::dataset::{CheckReport, DataForm, Dataset, DatasetDefaults, RemoteFile, SplitReport};
use crate::error::DataError;
use crate::federation::{Federation, Task};
use crate::pool::Pooled;
use crate::read::cifar::read_batch;
use crate::spec::{DataSpec, PartitionSpec, Size};

/// The folder inside the archive.
pub(crate) const FOLDER: &str = "cifar-10-batches-bin";

/// The batches in it: training, then test.
pub(crate) const BATCHES: [&str; 6] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];

const FILES: &[RemoteFile] = &[RemoteFile {
    name: "cifar-10-binary.tar.gz",
    size: 170_052_171,
    sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    unpacked: None,
}];

const MIRRORS: &[&str] = &[
    "https://www.cs.toronto.edu/~kriz/",
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
];

const CLASS_NAMES: &[&str] =
    &["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

const CLASSES: usize = CLASS_NAMES.len();

/// Colour photographs, 32x32, 60,000 images.
#[derive(Debug)]
pub(crate) struct Cifar10;

impl Dataset for Cifar10 {
    fn name(&self) -> &'static str {
        "cifar-10"
    }

    fn description(&self) -> &'static str {
        "colour photographs of ten kinds of things (Krizhevsky 2009)"
    }

    fn form(&self) -> Option<DataForm<'_>> {
        Some(DataForm { input_shape: &[3, 32, 32], task: Task::Classification { classes: CLASSES } })
    }

    /// The paper's partitions, rounds, convolutional network and subnetwork. No weight noise: a tenth cost 18 points of
    /// accuracy at 40 rounds.
    fn defaults(&self, size: Size) -> DatasetDefaults {
        let partition = match size {
            Size::Small => PartitionSpec::labels(20, 25, 475),
            Size::Large => PartitionSpec::labels(20, 450, 150),
        };
        DatasetDefaults { partition, rounds: 800, body: body(), weight_noise: 0.1, subnetwork: 0.07 }
    }

    /// The five training batches and the test batch pooled, in this order.
    fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        let folder = data.dir.join(self.name()).join(FOLDER);
        let paths = BATCHES.map(|name| folder.join(name));
        if let Some(path) = paths.iter().find(|path| !path.is_file()) {
            return Err(missing(self, &data.dir, path));
        }
        let (mut images, mut labels) = (Vec::new(), Vec::new());
        for path in &paths {
            read_batch(path, &mut images, &mut labels)?;
        }
        let pool = image_pool(self, CLASSES, images, labels);
        Ok(Box::new(Pooled::new(pool, partition, false, seed)?))
    }

    fn input_files(&self, data: &DataSpec) -> Vec<PathBuf> {
        let folder = data.dir.join(self.name()).join(FOLDER);
        BATCHES.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).collect()
    }

    fn class_names(&self) -> &[&str] {
        CLASS_NAMES
    }

    fn samples(&self) -> Option<(usize, usize)> {
        Some((50_000, 10_000))
    }

    fn files(&self) -> &[RemoteFile] {
        FILES
    }

    fn mirrors(&self) -> &[&str] {
        MIRRORS
    }

    fn is_unpacked(&self, folder: &Path) -> bool {
        cifar_archive::is_unpacked(folder)
    }

    fn unpack(&self, archive: &Path, folder: &Path) -> Result<(), DataError> {
        cifar_archive::unpack(archive, folder)
    }

    fn check(&self, dir: &Path) -> Option<CheckReport> {
        if !dir.join(self.name()).is_dir() {
            return None;
        }
        let folder = dir.join(self.name()).join(FOLDER);
        let mut report = CheckReport::new(self, folder.clone());
        let (train, test) = BATCHES.split_at(BATCHES.len() - 1);
        for (name, batches) in [("train", train), ("test", test)] {
            let mut labels = Vec::new();
            for batch in batches {
                let path = folder.join(batch);
                if !path.is_file() {
                    report.problems.push(missing(self, dir, &path).to_string());
                } else if let Err(error) = read_batch(&path, &mut Vec::new(), &mut labels) {
                    report.problems.push(error.to_string());
                }
            }
            report.splits.push(SplitReport::count(name, &labels, CLASSES));
        }
        if report.problems.is_empty() {
            report.official = has_noted_sums(&folder);
        }
        Some(report)
    }
}

/// The paper's convolutional network, without its head.
fn body() -> Vec<LayerSpec> {
    use LayerSpec::{Conv, Flatten, Linear, MaxPool, Relu};
    let conv = |out| Conv(ConvSpec { out, kernel: 5, stride: 1, padding: 0 });
    let pool = || MaxPool(PoolSpec::square(2));
    vec![conv(6), Relu, pool(), conv(16), Relu, pool(), Flatten, Linear(120), Relu, Linear(84), Relu]
}

/// Compares the batches with the sums that were noted when the official archive was unpacked. Batches that came in
/// another way have no such note, and may well be the official images.
fn has_noted_sums(folder: &Path) -> Option<bool> {
    let text = std::fs::read_to_string(folder.join(cifar_archive::SUMS)).ok()?;
    let noted = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once("  ").filter(|(_, file)| *file == name).map(|(sum, _)| sum))
    };
    BATCHES.into_iter().try_fold(true, |all, name| {
        let (sum, _) = checksum::digest(File::open(folder.join(name)).ok()?, u64::MAX - 1).ok()?;
        Some(all && noted(name)? == sum)
    })
}
