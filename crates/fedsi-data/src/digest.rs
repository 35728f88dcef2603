//! Which data something was made from: digests of the files that were read and of who has which rows.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::checksum;
use crate::dataset::Dataset;
use crate::error::{DataError, shown};
use crate::federation::{Federation, Split};
use crate::file::open_file;
use crate::spec::{DataSpec, PartitionSpec};

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Where it was.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes, as hexadecimal digits.
    pub sha256: String,
}

impl InputFile {
    /// Of a file as it is now. Costs reading it once, a piece at a time.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(path: &Path) -> Result<Self, DataError> {
        let (file, _) = open_file(path)?;
        let digest = checksum::digest(file, u64::MAX - 1);
        let (sha256, bytes) = digest.map_err(|source| DataError::io("read", path, source))?;
        Ok(Self { path: path.to_owned(), bytes, sha256 })
    }
}

/// Identifies data: the same files, divided in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDigest {
    /// The files in the order in which the dataset names them; none where the data is drawn.
    pub files: Vec<InputFile>,
    /// SHA-256 of who has which rows, for training and for testing.
    pub partition: String,
}

/// What differs between two sets of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataChange {
    /// A file has other bytes.
    File {
        /// Where it is now.
        path: PathBuf,
    },
    /// There are other files.
    Files {
        /// How many there were.
        before: usize,
        /// How many there are.
        now: usize,
    },
    /// The files are the same, and their rows are divided in another way.
    Partition,
}

impl fmt::Display for DataChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path } => write!(f, "{} has other bytes", shown(path)),
            Self::Files { before, now } => write!(f, "the data is in {now} files and was in {before}"),
            Self::Partition => f.write_str("clients have other rows"),
        }
    }
}

impl DataDigest {
    /// What changed from this data to `now`; none where they are the same. Where files are does not matter.
    #[must_use]
    pub fn change(&self, now: &Self) -> Option<DataChange> {
        let other_rows = || (self.partition != now.partition).then_some(DataChange::Partition);
        self.changed_file(&now.files).or_else(other_rows)
    }

    /// The same for files alone: what can be known before the data is opened.
    #[must_use]
    pub fn changed_file(&self, now: &[InputFile]) -> Option<DataChange> {
        if self.files.len() != now.len() {
            return Some(DataChange::Files { before: self.files.len(), now: now.len() });
        }
        let mut pairs = self.files.iter().zip(now);
        let other = pairs.find(|(before, now)| (before.bytes, &before.sha256) != (now.bytes, &now.sha256));
        other.map(|(_, now)| DataChange::File { path: now.path.clone() })
    }
}

/// Digests of the files that `dataset` reads under these settings. Costs reading them once.
///
/// # Errors
/// A file that cannot be read.
pub fn input_files(
    dataset: &dyn Dataset,
    data: &DataSpec,
    partition: &PartitionSpec,
) -> Result<Vec<InputFile>, DataError> {
    let mut paths = dataset.input_files(data);
    if !partition.path.as_os_str().is_empty() {
        paths.push(partition.path.clone());
    }
    paths.iter().map(|path| InputFile::of(path)).collect()
}

/// SHA-256 of who has which rows. Costs no samples.
#[must_use]
pub fn partition_digest(federation: &dyn Federation) -> String {
    let mut hash = Sha256::new();
    let number = |hash: &mut Sha256, value: usize| hash.update((value as u64).to_le_bytes());
    number(&mut hash, federation.clients());
    for client in 0..federation.clients() {
        let name = federation.client_name(client).unwrap_or_default();
        number(&mut hash, name.len());
        hash.update(name);
        for split in [Split::Train, Split::Test] {
            number(&mut hash, federation.count(client, split));
            match federation.row_numbers(client, split) {
                Some(rows) => rows.iter().for_each(|&row| number(&mut hash, row as usize)),
                None => federation
                    .label_counts(client, split)
                    .into_iter()
                    .for_each(|count| number(&mut hash, count)),
            }
        }
    }
    checksum::hexadecimal(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, sha256: &str) -> InputFile {
        InputFile { path: name.into(), bytes: 3, sha256: sha256.to_owned() }
    }

    #[test]
    fn the_file_that_changed_is_named_and_one_that_moved_is_not() {
        let before =
            DataDigest { files: vec![file("a/x", "1"), file("a/y", "2")], partition: "p".to_owned() };
        let moved = DataDigest { files: vec![file("b/x", "1"), file("b/y", "2")], ..before.clone() };
        assert_eq!(before.change(&moved), None);
        let changed = DataDigest { files: vec![file("b/x", "1"), file("b/y", "3")], ..before.clone() };
        assert_eq!(before.change(&changed), Some(DataChange::File { path: "b/y".into() }));
        let fewer = DataDigest { files: vec![file("a/x", "1")], ..before.clone() };
        assert_eq!(before.change(&fewer), Some(DataChange::Files { before: 2, now: 1 }));
        let divided = DataDigest { partition: "q".to_owned(), ..before.clone() };
        assert_eq!(before.change(&divided), Some(DataChange::Partition));
    }

    /// Every file that decides what is read is among those that are digested.
    #[test]
    fn all_files_of_a_table_count() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let datasets = crate::Datasets::builtin();
        let dataset = datasets.find("files").unwrap();
        let mut data = DataSpec::defaults("files", crate::Size::Small);
        data.files.train = write("train.csv", "x,y\n1,0\n");
        data.files.test = write("test.csv", "x,y\n2,1\n");
        let mut partition = PartitionSpec::iid(2);
        partition.path = write("who.csv", "index,client\n0,a\n");
        let names = |files: Vec<InputFile>| -> Vec<String> {
            files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let found = input_files(dataset.as_ref(), &data, &partition).unwrap();
        assert_eq!(names(found), ["train.csv", "test.csv", "who.csv"]);

        data.files.train = write("train_x.npy", "");
        data.files.test = write("test_x.npy", "");
        (data.files.target, data.files.client) = ("{split}_y.npy".to_owned(), "{split}_who.npy".to_owned());
        for name in ["train_y.npy", "train_who.npy", "test_y.npy", "test_who.npy"] {
            write(name, name);
        }
        partition.path = PathBuf::new();
        let found = names(input_files(dataset.as_ref(), &data, &partition).unwrap());
        let expected =
            ["train_x.npy", "train_y.npy", "train_who.npy", "test_x.npy", "test_y.npy", "test_who.npy"];
        assert_eq!(found, expected);
    }
}
