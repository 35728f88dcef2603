//! The datasets fedsi knows by name: what they are, which files they consist of, where those can be had, and
//! how to recognise them.

use crate::spec::DatasetName;

/// A known dataset.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: DatasetName,
    /// One line for a person.
    pub description: &'static str,
    /// The shape of one input; empty where the user's files decide.
    pub input_shape: &'static [usize],
    /// The number of classes; 0 where the user's files decide.
    pub classes: usize,
    /// What the classes are called; empty where their numbers say it.
    pub class_names: &'static [&'static str],
    /// Training and test samples of the official sets; 0 where there is no limit.
    pub samples: (usize, usize),
    /// What there is to download; empty where nothing is.
    pub files: &'static [RemoteFile],
    /// Base addresses to try in order; a file's name is appended.
    pub mirrors: &'static [&'static str],
}

/// A file to download.
#[derive(Clone, Copy, Debug)]
pub struct RemoteFile {
    /// Its name at the mirror and in the dataset's folder.
    pub name: &'static str,
    /// Its official size in bytes.
    pub size: u64,
    /// Its official SHA-256.
    pub sha256: &'static str,
    /// Size and SHA-256 of what a `.gz` unpacks to. A mirror may have packed the same bytes anew, so that these
    /// decide; `None` where the file itself must match.
    pub unpacked: Option<(u64, &'static str)>,
}

/// The official images and labels: training, then test.
pub(crate) const IDX_FILES: [[&str; 2]; 2] = [
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
    ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
];

/// The folder inside CIFAR-10's archive.
pub(crate) const CIFAR_FOLDER: &str = "cifar-10-batches-bin";
/// The batches in it: training, then test.
pub(crate) const CIFAR_BATCHES: [&str; 6] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];

/// All known datasets, in the order of [`DatasetName::ALL`].
pub const ENTRIES: [Entry; 5] = [DIGITS, MNIST, FASHION_MNIST, CIFAR_10, FILES];

/// The entry of a dataset.
#[must_use]
pub const fn entry(name: DatasetName) -> &'static Entry {
    match name {
        DatasetName::Digits => &ENTRIES[0],
        DatasetName::Mnist => &ENTRIES[1],
        DatasetName::FashionMnist => &ENTRIES[2],
        DatasetName::Cifar10 => &ENTRIES[3],
        DatasetName::Files => &ENTRIES[4],
    }
}

const DIGITS: Entry = Entry {
    name: DatasetName::Digits,
    description: "hand-drawn digits, built in: drawn on demand for any number of clients",
    input_shape: &[1, 28, 28],
    classes: 10,
    class_names: &[],
    samples: (0, 0),
    files: &[],
    mirrors: &[],
};

const MNIST: Entry = Entry {
    name: DatasetName::Mnist,
    description: "handwritten digits (LeCun, Cortes, Burges 1998)",
    input_shape: &[1, 28, 28],
    classes: 10,
    class_names: &[],
    samples: (60_000, 10_000),
    files: &[
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
    ],
    mirrors: &[
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ],
};

const FASHION_MNIST: Entry = Entry {
    name: DatasetName::FashionMnist,
    description: "articles of clothing (Xiao, Rasul, Vollgraf 2017)",
    input_shape: &[1, 28, 28],
    classes: 10,
    class_names: &[
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
    ],
    samples: (60_000, 10_000),
    files: &[
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
    ],
    mirrors: &[
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ],
};

const CIFAR_10: Entry = Entry {
    name: DatasetName::Cifar10,
    description: "colour photographs of ten kinds of things (Krizhevsky 2009)",
    input_shape: &[3, 32, 32],
    classes: 10,
    class_names: &["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
    samples: (50_000, 10_000),
    files: &[RemoteFile {
        name: "cifar-10-binary.tar.gz",
        size: 170_052_171,
        sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        unpacked: None,
    }],
    mirrors: &[
        "https://www.cs.toronto.edu/~kriz/",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
    ],
};

const FILES: Entry = Entry {
    name: DatasetName::Files,
    description: "your own CSV, NPY or safetensors files",
    input_shape: &[],
    classes: 0,
    class_names: &[],
    samples: (0, 0),
    files: &[],
    mirrors: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dataset_has_its_entry() {
        for (name, listed) in DatasetName::ALL.into_iter().zip(&ENTRIES) {
            assert_eq!(entry(name).name, name);
            assert_eq!(listed.name, name);
            assert_eq!(listed.files.is_empty(), listed.mirrors.is_empty());
            for file in listed.files {
                assert_eq!(file.sha256.len(), 64);
            }
        }
    }
}
