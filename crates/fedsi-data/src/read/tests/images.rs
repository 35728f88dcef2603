//! MNIST's and CIFAR-10's formats.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::*;

fn idx_bytes(dimensions: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dimensions.len() as u8];
    bytes.extend(dimensions.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend_from_slice(data);
    bytes
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// `count` images of 28x28, labels 0 to 9 in turn.
pub(super) fn images(count: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..count * 784).map(|at| (at / 784 + at % 7) as u8).collect();
    idx_bytes(&[count as u32, 28, 28], &data)
}

fn labels(count: usize) -> Vec<u8> {
    idx_bytes(&[count as u32], &(0..count).map(|at| (at % 10) as u8).collect::<Vec<_>>())
}

/// A data folder with a tiny MNIST.
fn mnist() -> TempDir {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("mnist");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("train-images-idx3-ubyte"), images(60)).unwrap();
    fs::write(folder.join("train-labels-idx1-ubyte.gz"), gzip(&labels(60))).unwrap();
    fs::write(folder.join("t10k-images-idx3-ubyte.gz"), gzip(&images(20))).unwrap();
    fs::write(folder.join("t10k-labels-idx1-ubyte"), labels(20)).unwrap();
    dir
}

fn small_partition() -> PartitionSpec {
    PartitionSpec { clients: 2, train: 3, test: 2, ..PartitionSpec::labels(10, 50, 950) }
}

fn open_in(dataset: &str, dir: &Path) -> Result<Box<dyn Federation>, DataError> {
    let data = DataSpec { dir: dir.to_path_buf(), ..DataSpec::defaults(dataset, Size::Small) };
    crate::open(&data, &small_partition(), 1)
}

#[test]
fn idx_is_read_plain_and_gzipped() {
    let dir = mnist();
    let federation = open_in("mnist", dir.path()).unwrap();
    assert_eq!(federation.input_shape(), [1, 28, 28]);
    assert_eq!(federation.task(), Task::Classification { classes: 10 });
    let samples = federation.samples(1, Split::Train);
    assert_eq!(samples.count, 15);
    assert_eq!(federation.label_counts(1, Split::Train), [0, 0, 0, 0, 0, 3, 3, 3, 3, 3]);
    assert!(samples.inputs.iter().all(|value| (-1.0..=1.0).contains(value)));
}

#[test]
fn the_official_sets_are_one_pool() {
    let dir = mnist();
    let data = DataSpec { dir: dir.path().to_path_buf(), ..DataSpec::defaults("mnist", Size::Small) };
    // Of each class there are 6 official training images and 2 test images: 7 come from both.
    let partition = PartitionSpec { clients: 2, train: 7, test: 1, ..small_partition() };
    let federation = crate::open(&data, &partition, 1).unwrap();
    assert_eq!(federation.label_counts(0, Split::Train), [7, 7, 7, 7, 7, 0, 0, 0, 0, 0]);
}

#[test]
fn a_missing_dataset_says_which_file_is_missing() {
    let dir = TempDir::new().unwrap();
    for dataset in ["mnist", "fashion-mnist", "cifar-10"] {
        let text = complaint(open_in(dataset, dir.path()));
        let folder = dir.path().display();
        assert!(text.starts_with(&format!("no {dataset} in {folder}: {folder}/{dataset}/")), "{text}");
        assert!(text.contains(&format!("set data.dir to a folder that holds {dataset}/")), "{text}");
    }
}

#[test]
fn bad_idx_files_are_refused() {
    let bomb = gzip(&idx_bytes(&[60, 28, 28], &vec![0; 5_000_000]));
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("train-images-idx3-ubyte", b"GIF89a..........".to_vec(), "magic"),
        ("train-images-idx3-ubyte", labels(60), "magic"),
        ("train-images-idx3-ubyte", vec![0, 0], "end of the file"),
        ("train-images-idx3-ubyte", Vec::new(), "end of the file"),
        ("train-images-idx3-ubyte", images(60)[..1000].to_vec(), "a promise of more data"),
        ("train-images-idx3-ubyte", [images(60), vec![1]].concat(), "47041 bytes of data, expected 47040"),
        ("train-images-idx3-ubyte", idx_bytes(&[u32::MAX; 3], &[0; 9]), "a promise of more data"),
        ("train-images-idx3-ubyte", gzip(&images(60)[..1000]), "984 bytes of data"),
        ("train-images-idx3-ubyte", gzip(&[images(60), vec![1]].concat()), "more bytes of data"),
        ("train-images-idx3-ubyte", bomb, "more bytes of data"),
        ("train-images-idx3-ubyte", gzip(&images(60))[..100].to_vec(), "gzip"),
        ("train-images-idx3-ubyte", idx_bytes(&[60, 4, 4], &[0; 960]), "28 x 28"),
        ("train-images-idx3-ubyte", images(59), "60 labels for the 59 images"),
        ("t10k-labels-idx1-ubyte", idx_bytes(&[20], &[10; 20]), "byte 8: found label 10, expected 0 to 9"),
    ];
    for (name, bytes, expected) in cases {
        let dir = mnist();
        fs::write(dir.path().join("mnist").join(name), bytes).unwrap();
        let text = complaint(open_in("mnist", dir.path()));
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("-idx"), "names the file: {text}");
        assert!(!crate::check(dir.path())[0].problems.is_empty(), "check finds it too");
    }
}

pub(super) fn batch(records: usize) -> Vec<u8> {
    (0..records).flat_map(|at| [vec![(at % 10) as u8], vec![at as u8; cifar::PIXELS]].concat()).collect()
}

/// A data folder with a tiny CIFAR-10.
fn cifar_dir() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("cifar-10/cifar-10-batches-bin");
    fs::create_dir_all(&folder).unwrap();
    for name in crate::datasets::for_tests::CIFAR_BATCHES {
        fs::write(folder.join(name), batch(20)).unwrap();
    }
    (dir, folder)
}

#[test]
fn cifar_is_read_and_bad_batches_are_refused() {
    let (dir, folder) = cifar_dir();
    let federation = open_in("cifar-10", dir.path()).unwrap();
    assert_eq!(federation.input_shape(), [3, 32, 32]);
    assert_eq!(federation.class_names().unwrap()[9], "truck");
    let report = &crate::check(dir.path())[0];
    assert_eq!((report.splits[0].samples, report.splits[1].samples), (100, 20));
    assert_eq!(report.splits[1].per_class, [2; 10]);
    assert_eq!((report.official, report.problems.len()), (None, 0));

    for (bytes, expected) in [
        (Vec::new(), "0 bytes"),
        (batch(20)[1..].to_vec(), "61459 bytes, expected a positive multiple of 3073"),
        (
            [batch(3), vec![77; cifar::RECORD]].concat(),
            "record 3, byte 9219: found label 77, expected 0 to 9",
        ),
    ] {
        fs::write(folder.join("data_batch_3.bin"), bytes).unwrap();
        let text = complaint(open_in("cifar-10", dir.path()));
        assert!(text.contains(expected) && text.contains("data_batch_3.bin"), "{text}");
    }
}
