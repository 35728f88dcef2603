//! CIFAR-10's archive.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use flate2::read::GzDecoder;

use super::cifar::{BATCHES, FOLDER};
use crate::checksum;
use crate::error::{DataError, one_line};
use crate::fetch::{in_folder, part_of};
use crate::read::cifar::RECORD;

/// Records of a batch, at most.
const MAX_RECORDS: u64 = 10_000;
/// All bytes of the archive, unpacked, at most.
const MAX_BYTES: u64 = 1 << 28;
/// Sums of the unpacked batches, written when they come from the official archive.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// Whether all batches are there, each of whole records. Their order and origin are not judged.
pub(super) fn is_unpacked(folder: &Path) -> bool {
    BATCHES.iter().all(|name| {
        let length = folder.join(FOLDER).join(name).metadata().map_or(0, |metadata| metadata.len());
        length > 0 && length.is_multiple_of(RECORD as u64)
    })
}

/// Unpacks the six batches, and nothing else, whatever the archive may hold.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<(), DataError> {
    let folder = folder.join(FOLDER);
    in_folder(&folder, || unpack_batches(archive, &folder))
}

fn unpack_batches(archive: &Path, folder: &Path) -> Result<(), DataError> {
    let advice = "remove the archive and fetch it again";
    let broken = |error: &std::io::Error| {
        let found = one_line(&error.to_string());
        DataError::malformed(archive, "the compressed data", found, "a tar.gz archive", advice)
    };
    let file = File::open(archive).map_err(|source| DataError::io("read", archive, source))?;
    let mut tar = tar::Archive::new(GzDecoder::new(BufReader::new(file)).take(MAX_BYTES));
    let mut sums = BTreeMap::new();
    for entry in tar.entries().map_err(|error| broken(&error))? {
        let mut entry = entry.map_err(|error| broken(&error))?;
        let path = entry.path().map_err(|error| broken(&error))?.into_owned();
        // The name on disk is ours, never the archive's: no path can lead elsewhere.
        let wanted = BATCHES.into_iter().find(|name| path == Path::new(FOLDER).join(name));
        let Some(name) = wanted.filter(|_| entry.header().entry_type().is_file()) else { continue };
        let most = MAX_RECORDS * RECORD as u64;
        if entry.size() > most || !entry.size().is_multiple_of(RECORD as u64) {
            let (found, expected) =
                (format!("{} bytes", entry.size()), format!("{RECORD} for each record, at most {most}"));
            return Err(DataError::malformed(archive, name, found, expected, advice));
        }
        let target = folder.join(name);
        let part = part_of(&target);
        let write = |source| DataError::io("write", &part, source);
        let mut output = File::create(&part).map_err(write)?;
        let size = entry.size();
        let copied =
            std::io::copy(&mut entry.by_ref().take(most), &mut output).map_err(|error| broken(&error))?;
        if copied != size {
            return Err(DataError::malformed(
                archive,
                name,
                format!("{copied} bytes"),
                format!("{size}"),
                advice,
            ));
        }
        output.sync_all().map_err(write)?;
        std::fs::rename(&part, &target).map_err(|source| DataError::io("rename", &part, source))?;
        let (sum, _) = File::open(&target)
            .and_then(|file| checksum::digest(file, most))
            .map_err(|source| DataError::io("read", &target, source))?;
        sums.insert(name, sum);
    }
    if let Some(missing) = BATCHES.into_iter().find(|name| !sums.contains_key(name)) {
        return Err(DataError::malformed(archive, missing, "no such member", "all six batches", advice));
    }
    let mut text = String::new();
    for (name, sum) in &sums {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{sum}  {name}");
    }
    let path = folder.join(SUMS);
    std::fs::write(&path, text).map_err(|source| DataError::io("write", &path, source))
}
