//! IDX, the format of MNIST: a magic number, big-endian dimensions, bytes. Plain or gzipped.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::error::DataError;
use crate::file::open_file;

const AGAIN: &str = "the file is damaged or of another kind: fetch or copy it again";
/// More than any file of this kind has; a header that promises more is refused.
const MAX_BYTES: u64 = 1 << 32;
/// Deflate packs at most this many bytes into one.
const BEST_RATIO: u64 = 1032;

/// Bytes with their dimensions.
#[derive(Debug)]
pub(crate) struct Idx {
    pub(crate) dimensions: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// The file of this name in a folder: plain, gzipped, or with a dot as some distributions have it.
pub(crate) fn locate(dir: &Path, name: &str) -> Option<PathBuf> {
    let dotted = name.replace("-idx", ".idx");
    [name.to_owned(), format!("{name}.gz"), dotted.clone(), format!("{dotted}.gz")]
        .into_iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file())
}

/// Reads an array of bytes with so many dimensions. Memory follows what the file really holds.
pub(crate) fn read(path: &Path, dimensions: usize) -> Result<Idx, DataError> {
    let (mut file, length) = open_file(path)?;
    let failed = |source| DataError::io("read", path, source);
    let mut start = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut start).map_err(failed)?;
    let zipped = start == [0x1f, 0x8b];
    let whole = std::io::Cursor::new(start).chain(file);
    if zipped {
        let limit = length.saturating_mul(BEST_RATIO).min(MAX_BYTES);
        parse(BufReader::new(MultiGzDecoder::new(BufReader::new(whole))), path, dimensions, limit, false)
    } else {
        parse(BufReader::new(whole), path, dimensions, length.min(MAX_BYTES), true)
    }
}

/// `limit`: most bytes there can be; `exact`: there are exactly so many.
fn parse(
    mut reader: impl Read,
    path: &Path,
    dimensions: usize,
    limit: u64,
    exact: bool,
) -> Result<Idx, DataError> {
    let expected_magic = [0, 0, 8, dimensions as u8];
    let mut magic = [0_u8; 4];
    fill(&mut reader, &mut magic, path, "byte 0")?;
    if magic != expected_magic {
        let found = format!("the magic bytes {magic:02x?}");
        let expected = format!("{expected_magic:02x?}, an IDX array of bytes with {dimensions} dimension(s)");
        return Err(DataError::malformed(path, "byte 0", found, expected, AGAIN));
    }
    let mut sizes = Vec::with_capacity(dimensions);
    for at in 0..dimensions {
        let mut word = [0_u8; 4];
        fill(&mut reader, &mut word, path, &format!("byte {}", 4 + 4 * at))?;
        sizes.push(u32::from_be_bytes(word) as usize);
    }
    let header = 4 + 4 * dimensions as u64;
    let promised = sizes.iter().try_fold(1_u64, |product, &size| product.checked_mul(size as u64));
    let place = format!("the dimensions {sizes:?} at byte 4");
    let Some(promised) = promised.filter(|&promised| promised.saturating_add(header) <= limit) else {
        let expected = format!("at most the {} bytes that the file can hold", limit.saturating_sub(header));
        return Err(DataError::malformed(path, place, "a promise of more data", expected, AGAIN));
    };
    if exact && promised + header != limit {
        let found = format!("{} bytes of data", limit - header);
        return Err(DataError::malformed(path, place, found, format!("{promised}"), AGAIN));
    }
    let mut bytes = Vec::new();
    // One byte more than promised tells a file that goes on; a gzip bomb is read no further.
    reader.take(promised + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 != promised {
        let more = bytes.len() as u64 > promised;
        let found =
            if more { "more bytes of data".to_owned() } else { format!("{} bytes of data", bytes.len()) };
        return Err(DataError::malformed(path, place, found, format!("{promised}"), AGAIN));
    }
    Ok(Idx { dimensions: sizes, bytes })
}

fn fill(reader: &mut impl Read, buffer: &mut [u8], path: &Path, place: &str) -> Result<(), DataError> {
    reader.read_exact(buffer).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            DataError::malformed(path, place, "the end of the file", "an IDX header", AGAIN)
        }
        _ => unreadable(path, &error),
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> DataError {
    let found = crate::error::one_line(&error.to_string());
    DataError::malformed(path, "the compressed data", found, "a whole gzip stream", AGAIN)
}

/// Images and labels of MNIST's kind.
#[derive(Debug)]
pub(crate) struct Labelled {
    pub(crate) images: Vec<u8>,
    pub(crate) labels: Vec<u32>,
    /// Height and width.
    pub(crate) size: [usize; 2],
}

/// Reads images with their labels and checks that they fit together.
pub(crate) fn read_labelled(images: &Path, labels: &Path, classes: usize) -> Result<Labelled, DataError> {
    let pictures = read(images, 3)?;
    let names = read(labels, 1)?;
    let [count, height, width] = pictures.dimensions[..] else {
        return Err(DataError::malformed(images, "byte 4", "other dimensions", "three", AGAIN));
    };
    if count != names.bytes.len() {
        let found =
            format!("{} labels for the {count} images of {}", names.bytes.len(), crate::error::shown(images));
        let advice = "take both files from the same source";
        return Err(DataError::malformed(
            labels,
            "the dimensions at byte 4",
            found,
            format!("{count}"),
            advice,
        ));
    }
    if let Some(at) = names.bytes.iter().position(|&label| usize::from(label) >= classes) {
        let found = format!("label {}", names.bytes[at]);
        let expected = format!("0 to {}", classes - 1);
        return Err(DataError::malformed(labels, format!("byte {}", 8 + at), found, expected, AGAIN));
    }
    let labels = names.bytes.into_iter().map(u32::from).collect();
    Ok(Labelled { images: pictures.bytes, labels, size: [height, width] })
}
