//! What a dataset is: one implementation of [`Dataset`] says all facts about it, its own defaults among them.

use std::fmt;
use std::path::{Path, PathBuf};

use fedsi_nn::LayerSpec;

use crate::error::{DataError, shown};
use crate::federation::{Federation, Task};
use crate::spec::{DataSpec, FilesSpec, PartitionSpec, Size, TaskKind};

/// A dataset that can be opened by its name.
///
/// The built-in ones are in [`Datasets::builtin`](crate::Datasets::builtin). One written elsewhere implements the
/// methods without a default and is added by [`Datasets::with`](crate::Datasets::with).
pub trait Dataset: fmt::Debug + Send + Sync {
    /// The name in configs and folders: lower-case letters, digits and hyphens.
    fn name(&self) -> &str;

    /// One line for help texts.
    fn description(&self) -> &str;

    /// The shape of one input and the task, where they are known before the data is opened.
    fn form(&self) -> Option<DataForm<'_>>;

    /// Whether classes or numbers are predicted: as [`form`](Self::form) says, and where it says nothing, as the
    /// setting `data.files.task`.
    fn task_kind(&self, data: &DataSpec) -> TaskKind {
        self.form().map_or(data.files.task, |form| form.task.kind())
    }

    /// The defaults of a run on this dataset.
    fn defaults(&self, size: Size) -> DatasetDefaults;

    /// Reads the data, checks all of it and divides it among clients. The same settings and seed must give the same
    /// clients.
    ///
    /// # Errors
    /// Where a file is missing or malformed, or the partition cannot be had from it.
    fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError>;

    /// What the classes are called; empty where their numbers say it, or the data decides.
    fn class_names(&self) -> &[&str] {
        &[]
    }

    /// Training and test samples of the official sets; `None` where there is no limit.
    fn samples(&self) -> Option<(usize, usize)> {
        None
    }

    /// What the dataset is called in reports and folders.
    fn label(&self, _data: &DataSpec) -> String {
        self.name().to_owned()
    }

    /// The files that [`open`](Self::open) reads, in a fixed order; those that are missing may be left out. A run whose
    /// files have changed is not continued.
    fn input_files(&self, _data: &DataSpec) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether [`open`](Self::open) reads the folder `data.dir`.
    fn reads_dir(&self) -> bool {
        true
    }

    /// The settings of the user's own files, where the data is read from those.
    fn own_files<'a>(&self, _data: &'a DataSpec) -> Option<&'a FilesSpec> {
        None
    }

    /// The first setting under which something is computed from the rows of all clients together and known to all of them: a
    /// scale, a list of classes. No noise covers that, so that it is refused with differential privacy.
    fn pooled(&self, _data: &DataSpec) -> Option<PooledSetting> {
        None
    }

    /// What there is to download; empty where nothing is.
    fn files(&self) -> &[RemoteFile] {
        &[]
    }

    /// Base addresses to try in order; a file's name is appended.
    fn mirrors(&self) -> &[&str] {
        &[]
    }

    /// Why there is nothing to download, for the message that says so.
    fn not_fetchable(&self) -> &'static str {
        "it has no files to download"
    }

    /// Whether the content of a downloaded archive (`.tar.gz`) is in the dataset's folder already.
    fn is_unpacked(&self, _folder: &Path) -> bool {
        false
    }

    /// Unpacks a downloaded archive (`.tar.gz`) into the dataset's folder. The archive is removed after that.
    ///
    /// # Errors
    /// An archive that does not hold what it should, or a folder that cannot be written.
    fn unpack(&self, archive: &Path, _folder: &Path) -> Result<(), DataError> {
        let advice = "implement `Dataset::unpack` for this dataset";
        Err(DataError::malformed(archive, "the file", "an archive", "files that need no unpacking", advice))
    }

    /// Reads the dataset's files under a data folder and reports what they hold; `None` where nothing of it is there.
    /// Costs reading everything once or twice.
    fn check(&self, _dir: &Path) -> Option<CheckReport> {
        None
    }
}

/// What a dataset's samples look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataForm<'a> {
    /// The shape of one input: `[channels, height, width]` for images, `[features]` for tables.
    pub input_shape: &'a [usize],
    /// What is predicted.
    pub task: Task,
}

/// A setting under which something is computed from the rows of all clients together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PooledSetting {
    /// Its key in a config.
    pub key: &'static str,
    /// Its value.
    pub found: String,
    /// What would become known, and what to set instead.
    pub instead: &'static str,
}

/// The defaults of a run on a dataset. What a config sets wins.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetDefaults {
    /// Who gets which samples.
    pub partition: PartitionSpec,
    /// Rounds of training.
    pub rounds: usize,
    /// The layers below the head.
    pub body: Vec<LayerSpec>,
    /// Standard deviation of the weight noise that methods with a calibrated profile train with.
    pub weight_noise: f64,
    /// Share of the body's parameters that have a distribution, for methods with a posterior over a subnetwork.
    pub subnetwork: f64,
}

impl DatasetDefaults {
    /// For this partition: 60 rounds, the paper's MLP with one hidden layer of 100, no weight noise, a subnetwork of 5%.
    #[must_use]
    pub fn new(partition: PartitionSpec) -> Self {
        let body = vec![LayerSpec::Flatten, LayerSpec::Linear(100), LayerSpec::Relu];
        Self { partition, rounds: 60, body, weight_noise: 0.0, subnetwork: 0.05 }
    }
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
    /// Size and SHA-256 of what a `.gz` unpacks to. A mirror may have compressed the same bytes again, so that these
    /// decide; `None` where the file itself must match.
    pub unpacked: Option<(u64, &'static str)>,
}

/// What is in a dataset's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The dataset.
    pub dataset: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The shape of one input.
    pub input_shape: Vec<usize>,
    /// Training and test samples, as far as they can be read.
    pub splits: Vec<SplitReport>,
    /// Whether every file has the official bytes; `None` where that cannot be known.
    pub official: Option<bool>,
    /// What keeps the dataset from being opened, one line each; empty: nothing.
    pub problems: Vec<String>,
}

/// The samples of an official split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitReport {
    /// "train" or "test".
    pub name: &'static str,
    /// How many samples.
    pub samples: usize,
    /// How many of each class.
    pub per_class: Vec<usize>,
}

impl CheckReport {
    /// A report of a folder in which nothing was read yet.
    #[must_use]
    pub fn new(dataset: &dyn Dataset, folder: PathBuf) -> Self {
        let input_shape = dataset.form().map_or_else(Vec::new, |form| form.input_shape.to_vec());
        let (splits, problems) = (Vec::new(), Vec::new());
        Self { dataset: dataset.name().to_owned(), folder, input_shape, splits, official: None, problems }
    }
}

impl SplitReport {
    /// Counts the classes of a split.
    #[must_use]
    pub fn count(name: &'static str, labels: &[u32], classes: usize) -> Self {
        let mut per_class = vec![0; classes];
        for &label in labels {
            if let Some(count) = per_class.get_mut(label as usize) {
                *count += 1;
            }
        }
        Self { name, samples: labels.len(), per_class }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match self.official {
            Some(true) => "official bytes",
            Some(false) => "not the official bytes",
            None => "origin unknown",
        };
        let state = if self.problems.is_empty() { bytes } else { "cannot be used" };
        write!(f, "{}: {} in {}", self.dataset, state, shown(&self.folder))?;
        for split in &self.splits {
            let shape: Vec<String> = self.input_shape.iter().map(ToString::to_string).collect();
            let counts: Vec<String> = split.per_class.iter().map(ToString::to_string).collect();
            write!(f, "\n  {:<5} {} samples of {}", split.name, split.samples, shape.join("x"))?;
            write!(f, "\n        per class {}", counts.join(" "))?;
        }
        for problem in &self.problems {
            write!(f, "\n  problem: {problem}")?;
        }
        Ok(())
    }
}
