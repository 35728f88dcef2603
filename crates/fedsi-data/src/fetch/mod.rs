//! Downloads of known datasets: resumed, checked, and never half there.

mod download;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::checksum;
use crate::dataset::{Dataset, RemoteFile};
use crate::error::DataError;

pub(crate) use download::part_of;

/// How to fetch.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Base addresses to use instead of the dataset's, in order; empty: the dataset's. Whatever comes from
    /// there must have the official checksum.
    pub mirrors: Vec<String>,
    /// How long to wait for a connection, and for each piece of data.
    pub patience: Duration,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { mirrors: Vec::new(), patience: Duration::from_secs(30) }
    }
}

/// What is happening, for a progress bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchProgress {
    /// The file is there already, and right.
    Present {
        /// The file's name.
        file: String,
    },
    /// So many bytes have arrived, those of an earlier attempt included.
    Received {
        /// The file's name.
        file: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all, as the dataset says.
        total: u64,
    },
    /// The checksum is being computed.
    Checking {
        /// The file's name.
        file: String,
    },
    /// An archive is being unpacked.
    Unpacking {
        /// The file's name.
        file: String,
    },
    /// A mirror failed; the next attempt follows.
    Failed {
        /// The file's name.
        file: String,
        /// The mirror's address.
        mirror: String,
        /// Why, on one line.
        reason: String,
    },
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchReport {
    /// The dataset.
    pub dataset: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its files.
    pub files: Vec<FetchedFile>,
}

/// One file of a [`FetchReport`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedFile {
    /// The file's name at the mirror.
    pub name: String,
    /// Where it came from; `None` where it was there already.
    pub mirror: Option<String>,
}

/// Fetches a dataset into `dir/<name>/`. What is there and right is left alone, so that it may be called again.
///
/// A file is downloaded under a temporary name (`.part`), taken up again where an earlier attempt stopped, compared
/// with its official SHA-256, and renamed only then. Mirrors are tried in order. A fetch that fails leaves behind what has
/// arrived, and no empty folders.
///
/// # Errors
/// Where the dataset is not one to download, the folder cannot be written, or every mirror fails.
pub fn fetch(
    dataset: &dyn Dataset,
    dir: &Path,
    options: &FetchOptions,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<FetchReport, DataError> {
    if dataset.files().is_empty() {
        let why = dataset.not_fetchable();
        return Err(DataError::NotFetchable { dataset: dataset.name().to_owned(), why });
    }
    let folder = dir.join(dataset.name());
    let mirrors: Vec<String> = if options.mirrors.is_empty() {
        dataset.mirrors().iter().map(|&mirror| mirror.to_owned()).collect()
    } else {
        options.mirrors.clone()
    };
    let fetched = dataset.files().iter().map(|file| {
        let mirror = fetch_file(dataset, file, &folder, &mirrors, options, progress)?;
        Ok(FetchedFile { name: file.name.to_owned(), mirror })
    });
    let files = in_folder(&folder, || fetched.collect::<Result<_, _>>())?;
    Ok(FetchReport { dataset: dataset.name().to_owned(), folder, files })
}

/// Does some work in a folder, which is made where it is missing. Where the work fails, the folders made for it are
/// removed again, unless something lies in them.
pub(crate) fn in_folder<T>(
    folder: &Path,
    work: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let made: Vec<&Path> = folder.ancestors().take_while(missing).collect();
    let created = std::fs::create_dir_all(folder).map_err(|source| DataError::io("create", folder, source));
    created.and_then(|()| work()).inspect_err(|_| {
        for path in made {
            // Only an empty folder can be removed; one that holds something, or is not there, is meant to stay so.
            let _ = std::fs::remove_dir(path);
        }
    })
}

/// Answers the mirror it came from, `None` where it was there already.
fn fetch_file(
    dataset: &dyn Dataset,
    file: &RemoteFile,
    folder: &Path,
    mirrors: &[String],
    options: &FetchOptions,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<Option<String>, DataError> {
    let name = || file.name.to_owned();
    let target = folder.join(file.name);
    let archive = file.name.ends_with(".tar.gz");
    progress(FetchProgress::Checking { file: name() });
    let present = if archive { dataset.is_unpacked(folder) } else { is_present(file, folder, &target)? };
    if present {
        progress(FetchProgress::Present { file: name() });
        return Ok(None);
    }
    let mut mirror = None;
    if !(archive && target.is_file() && checksum::is_right(file, &target)?) {
        mirror = Some(download::download(file, &target, mirrors, options, progress)?);
    }
    if archive {
        progress(FetchProgress::Unpacking { file: name() });
        dataset.unpack(&target, folder)?;
        std::fs::remove_file(&target).map_err(|source| DataError::io("remove", &target, source))?;
    }
    Ok(mirror)
}

/// Whether the official file is there. Another file that would be read in its place is not ours to remove.
fn is_present(file: &RemoteFile, folder: &Path, target: &Path) -> Result<bool, DataError> {
    match checksum::is_there(file, folder)? {
        Some((_, true)) => Ok(true),
        Some((path, false)) if path != target => Err(DataError::malformed(
            &path,
            "the file",
            "other bytes than the official ones",
            format!("SHA-256 {}", file.unpacked.map_or(file.sha256, |(_, sum)| sum)),
            "remove or rename it, and fetch again",
        )),
        Some(_) | None => Ok(false),
    }
}

#[cfg(test)]
mod tests;
