//! Two hundred thousand hostile files: read or refused on one line, without a panic, and without memory that the file
//! cannot back.

use std::fs;
use std::path::PathBuf;

use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use rand::RngExt as _;
use tempfile::TempDir;

use super::arrays::{floats, npy, tensors_bytes};
use super::images::{batch, gzip, images};
use super::tables::{TABLE, table_spec};
use super::*;

/// Damaged files of each format.
const CASES: usize = 30_000;

/// A file of a kilobyte may cost this much and no more, whatever its header says.
const MAX_BYTES: u64 = 8 << 20;

/// Bytes that mean something in one of the formats.
const TELLING: [u8; 12] = [0, 1, 8, 127, 128, 255, b'9', b'(', b',', b'"', b'{', b'\n'];

/// A folder in memory where there is one: files are written and read thousands of times a second.
fn folder() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

/// Overwrites, moves, repeats, cuts off or adds bytes: mostly near the beginning, where headers are.
fn damaged(good: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..rng.random_range(1..6) {
        let reach = if rng.random_bool(0.7) { bytes.len().min(200) } else { bytes.len() };
        if reach == 0 {
            break;
        }
        let at = rng.random_range(0..reach);
        let byte =
            if rng.random_bool(0.5) { TELLING[rng.random_range(0..TELLING.len())] } else { rng.random() };
        match rng.random_range(0..8) {
            0..4 => bytes[at] = byte,
            4 => bytes.insert(at, byte),
            5 => drop(bytes.remove(at)),
            6 => {
                // A number that promises much: eight equal bytes.
                let end = (at + 8).min(bytes.len());
                bytes[at..end].fill(byte);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Damages `good` over and over; `read` says what is wrong with the outcome.
fn hostile(name: &str, good: &[u8], read: impl Fn(&Path) -> Result<(), DataError>) {
    let dir = folder();
    let path = dir.path().join(name);
    let mut rng = Streams::new(good.len() as u64).stream(Purpose::Batches, 0, 0);
    let (mut refused, mut taken) = (0, 0);
    for case in 0..CASES {
        let bytes = damaged(good, &mut rng);
        fs::write(&path, &bytes).unwrap();
        let mut outcome = Ok(());
        let used = allocation_counter::measure(|| outcome = read(&path));
        assert!(used.bytes_max < MAX_BYTES, "{name}, case {case}: {} bytes for {bytes:?}", used.bytes_max);
        match outcome {
            Ok(()) => taken += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains('\n'), "{name}, case {case}: {error}");
            }
        }
    }
    assert!(
        refused > CASES / 20 && taken > 0,
        "{name}: {refused} refused, {taken} taken: damage of the wrong kind"
    );
}

fn used(result: Result<Box<dyn Federation>, DataError>) -> Result<(), DataError> {
    result.map(|federation| drop(federation.samples(0, Split::Train)))
}

#[test]
fn tables() {
    hostile("t.csv", TABLE.as_bytes(), |path| {
        let spec = FilesSpec { train: path.to_owned(), ..table_spec(path.parent().unwrap()) };
        used(open_spec(spec, PartitionKind::Natural))
    });
}

#[test]
fn arrays() {
    hostile("X.npy", &npy("<f4", "(4, 2)", &floats(8)), |path| {
        let targets = path.with_file_name("y.npy");
        if !targets.exists() {
            fs::write(&targets, npy("|u1", "(4,)", &[0, 1, 0, 1])).unwrap();
        }
        let spec = FilesSpec { target: "y.npy".into(), ..files(path.parent().unwrap(), "X.npy") };
        used(open_spec(spec, PartitionKind::Iid))
    });
}

#[test]
fn safetensors() {
    hostile("d.safetensors", &tensors_bytes(), |path| {
        used(open_spec(files(path.parent().unwrap(), "d.safetensors"), PartitionKind::Iid))
    });
}

#[test]
fn idx_images() {
    hostile("images", &images(2), |path| idx::read(path, 3).map(drop));
}

#[test]
fn compressed_idx_images() {
    hostile("images.gz", &gzip(&images(2)), |path| idx::read(path, 3).map(drop));
}

#[test]
fn cifar_batches() {
    hostile("batch.bin", &batch(2), |path| cifar::read_batch(path, &mut Vec::new(), &mut Vec::new()));
}

#[test]
fn pictures() {
    let mut good = Vec::new();
    let mut encoder = png::Encoder::new(&mut good, 4, 4);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(&[7; 16]).unwrap();
    let (spec, shape) = (FilesSpec::default(), [1, 4, 4]);
    hostile("p.png", &good, |path| {
        let form = InputForm { pixels: true, files: None, ..form(&spec, &shape, None) };
        read_inputs(path, &form).map(drop)
    });
}
