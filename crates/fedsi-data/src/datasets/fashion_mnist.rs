//! Fashion-MNIST: its files, mirrors and defaults. How its files are read: [`super::idx`].

use std::path::{Path, PathBuf};

use super::idx;
use crate::dataset::{CheckReport, DataForm, Dataset, DatasetDefaults, RemoteFile};
use crate::error::DataError;
use crate::federation::Federation;
use crate::spec::{DataSpec, PartitionSpec, Size};

const FILES: &[RemoteFile] = &[
    RemoteFile {
        name: "train-images-idx3-ubyte.gz",
        size: 26_421_880,
        sha256: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        unpacked: Some((47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888")),
    },
    RemoteFile {
        name: "train-labels-idx1-ubyte.gz",
        size: 29_515,
        sha256: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        unpacked: Some((60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9")),
    },
    RemoteFile {
        name: "t10k-images-idx3-ubyte.gz",
        size: 4_422_102,
        sha256: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        unpacked: Some((7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b")),
    },
    RemoteFile {
        name: "t10k-labels-idx1-ubyte.gz",
        size: 5_148,
        sha256: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        unpacked: Some((10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34")),
    },
];

const MIRRORS: &[&str] = &[
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
];

const CLASS_NAMES: &[&str] = &[
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
];

/// Articles of clothing, 28x28, 70,000 images.
#[derive(Debug)]
pub(super) struct FashionMnist;

impl Dataset for FashionMnist {
    fn name(&self) -> &'static str {
        "fashion-mnist"
    }

    fn description(&self) -> &'static str {
        "articles of clothing (Xiao, Rasul, Vollgraf 2017)"
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

    fn class_names(&self) -> &[&str] {
        CLASS_NAMES
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
