//! Hand-made good and bad files, and damage done to good ones.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

use super::*;
use crate::federation::{Federation, Split, Targets, Task};
use crate::spec::{DataSpec, DatasetName, FilesSpec, PartitionKind, PartitionSpec, Size, TaskKind};

fn idx_bytes(dimensions: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dimensions.len() as u8];
    bytes.extend(dimensions.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend_from_slice(data);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// `count` images of 28x28, labels 0 to 9 in turn.
fn images(count: usize) -> Vec<u8> {
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
    PartitionSpec {
        clients: 2,
        train: 3,
        test: 2,
        ..PartitionSpec::defaults(DatasetName::Mnist, Size::Small)
    }
}

fn open_in(dataset: DatasetName, dir: &Path) -> Result<Box<dyn Federation>, DataError> {
    let data = DataSpec { dir: dir.to_path_buf(), ..DataSpec::defaults(dataset, Size::Small) };
    crate::open(&data, &small_partition(), 1)
}

fn complaint<T>(result: Result<T, DataError>) -> String {
    let text = result.err().expect("an error was expected").to_string();
    assert!(!text.contains('\n'), "more than one line: {text}");
    text
}

#[test]
fn idx_is_read_plain_and_gzipped() {
    let dir = mnist();
    let federation = open_in(DatasetName::Mnist, dir.path()).unwrap();
    assert_eq!(federation.input_shape(), [1, 28, 28]);
    assert_eq!(federation.task(), Task::Classification { classes: 10 });
    let samples = federation.samples(1, Split::Train);
    assert_eq!(samples.count, 15);
    assert_eq!(federation.label_counts(1, Split::Train), [0, 0, 0, 0, 0, 3, 3, 3, 3, 3]);
    assert!(samples.inputs.iter().all(|value| (-1.0..=1.0).contains(value)));
}

#[test]
fn a_missing_dataset_says_how_to_fetch_it() {
    let dir = TempDir::new().unwrap();
    for dataset in [DatasetName::Mnist, DatasetName::FashionMnist, DatasetName::Cifar10] {
        let text = complaint(open_in(dataset, dir.path()));
        let folder = dir.path().display();
        assert!(text.contains(&format!("run `fedsi data fetch {dataset} --data-dir {folder}`")), "{text}");
        assert!(text.contains(&format!("point --data-dir at a folder that holds {dataset}/")), "{text}");
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
        let text = complaint(open_in(DatasetName::Mnist, dir.path()));
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("-idx"), "names the file: {text}");
        assert!(!crate::check(dir.path())[0].problems.is_empty(), "check finds it too");
    }
}

fn batch(records: usize) -> Vec<u8> {
    (0..records).flat_map(|at| [vec![(at % 10) as u8], vec![at as u8; cifar::PIXELS]].concat()).collect()
}

/// A data folder with a tiny CIFAR-10.
fn cifar_dir() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("cifar-10/cifar-10-batches-bin");
    fs::create_dir_all(&folder).unwrap();
    for name in crate::catalogue::CIFAR_BATCHES {
        fs::write(folder.join(name), batch(20)).unwrap();
    }
    (dir, folder)
}

#[test]
fn cifar_is_read_and_bad_batches_are_refused() {
    let (dir, folder) = cifar_dir();
    let federation = open_in(DatasetName::Cifar10, dir.path()).unwrap();
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
        let text = complaint(open_in(DatasetName::Cifar10, dir.path()));
        assert!(text.contains(expected) && text.contains("data_batch_3.bin"), "{text}");
    }
}

fn files(dir: &Path, train: &str) -> FilesSpec {
    FilesSpec { train: dir.join(train), ..FilesSpec::default() }
}

fn open_spec(files: FilesSpec, kind: PartitionKind) -> Result<Box<dyn Federation>, DataError> {
    let data = DataSpec { files, ..DataSpec::defaults(DatasetName::Files, Size::Small) };
    let defaults = PartitionSpec::defaults(DatasetName::Files, Size::Small);
    let partition = PartitionSpec { kind, clients: 2, test_fraction: 0.25, ..defaults };
    crate::open(&data, &partition, 1)
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| (at as f32).to_le_bytes()).collect()
}

#[test]
fn npy_arrays_are_read() {
    let dir = TempDir::new().unwrap();
    let put = |name: &str, bytes: Vec<u8>| fs::write(dir.path().join(name), bytes).unwrap();
    put("X.npy", npy("|u1", "(8, 1, 2, 2)", &[255; 32]));
    put("y_train.npy", npy("<i8", "(8,)", &[0_i64, 1, 0, 1, 0, 1, 2, 2].map(i64::to_le_bytes).concat()));
    put("who.npy", npy(">i4", "(8, 1)", &[7_i32, 7, 7, 7, 10, 10, 10, 10].map(i32::to_be_bytes).concat()));
    let spec =
        FilesSpec { target: "y_{split}.npy".into(), client: "who.npy".into(), ..files(dir.path(), "X.npy") };
    let federation = open_spec(spec, PartitionKind::Natural).unwrap();
    assert_eq!(federation.input_shape(), [1, 2, 2]);
    assert_eq!(federation.task(), Task::Classification { classes: 3 });
    assert_eq!((federation.client_name(0), federation.client_name(1)), (Some("7"), Some("10")));
    assert_eq!(federation.samples(0, Split::Train).inputs, [1.0; 12]);
    assert!(federation.input_scaling().is_none());
}

#[test]
fn bad_npy_arrays_are_refused() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("y.npy"), npy("|u1", "(4,)", &[0, 1, 0, 1])).unwrap();
    let deep = npy("<f4", &"(".repeat(9000), &[]);
    let mut long = npy("<f4", "(4, 2)", &floats(8));
    (long[6], long[8], long[9], long[10], long[11]) = (2, 255, 255, 255, 255);
    for (bytes, expected) in [
        (b"nothing".to_vec(), "no magic bytes"),
        (npy("<f4", "(4, 2)", &floats(7)), "28 bytes, expected 32"),
        (npy("<f4", "(4, 2)", &floats(9)), "36 bytes, expected 32"),
        (npy("<f4", "(4000000000, 4000000000, 4000000000)", &[]), "cannot be counted"),
        (npy("<f4", "(4000000000, 4000000000, 4000000000, 0)", &[]), "cannot be counted"),
        (npy("|O", "(4, 2)", &[0; 8]), "type"),
        (npy("<c8", "(4, 2)", &[0; 64]), "the type '<c8'"),
        (npy("<f4", "(3, 2)", &floats(6)), "4 rows, expected 3"),
        (npy("<f4", "(4, 0)", &[]), "4 rows of 0 features"),
        (npy("<f4", "()", &floats(1)), "4 rows, expected 0"),
        (npy("<f4", "(4,)", &[f32::NAN; 4].map(f32::to_le_bytes).concat()), "row 0, number 0: found NaN"),
        (npy("<f8", "(4,)", &[1e300_f64; 4].map(f64::to_le_bytes).concat()), "found inf"),
        (deep, "nested"),
        (long, "longer header"),
    ] {
        fs::write(dir.path().join("X.npy"), bytes).unwrap();
        let spec = FilesSpec { target: "y.npy".into(), ..files(dir.path(), "X.npy") };
        let text = complaint(open_spec(spec, PartitionKind::Iid));
        assert!(text.contains(expected), "{text}");
    }
    fs::write(dir.path().join("X.npy"), npy("<f4", "(4, 2)", &floats(8))).unwrap();
    for (label, found) in [(-1, "-1"), (70_000, "70000")] {
        let labels: [i32; 4] = [0, 1, label, 0];
        fs::write(dir.path().join("y.npy"), npy("<i4", "(4,)", &labels.map(i32::to_le_bytes).concat()))
            .unwrap();
        let spec = FilesSpec { target: "y.npy".into(), ..files(dir.path(), "X.npy") };
        let text = complaint(open_spec(spec, PartitionKind::Iid));
        assert!(text.contains(&format!("row 2: found {found}, expected a class")), "{text}");
    }
}

fn tensors_bytes() -> Vec<u8> {
    let inputs = floats(24);
    let target: Vec<u8> = (0..8).flat_map(|at| (f64::from(at) * 2.0).to_le_bytes()).collect();
    let client: Vec<u8> = (0..8_i64).flat_map(|at| (at % 2).to_le_bytes()).collect();
    let view = |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data).unwrap();
    let arrays = HashMap::from([
        ("inputs", view(Dtype::F32, &[8, 3], &inputs)),
        ("target", view(Dtype::F64, &[8], &target)),
        ("client", view(Dtype::I64, &[8], &client)),
    ]);
    safetensors::serialize(arrays, None).unwrap()
}

#[test]
fn safetensors_are_read() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("d.safetensors"), tensors_bytes()).unwrap();
    let spec = FilesSpec {
        task: TaskKind::Regression,
        client: "client".into(),
        ..files(dir.path(), "d.safetensors")
    };
    let federation = open_spec(spec.clone(), PartitionKind::Natural).unwrap();
    assert_eq!(federation.task(), Task::Regression { outputs: 1 });
    assert_eq!((federation.count(0, Split::Train), federation.count(0, Split::Test)), (3, 1));
    let scaling = federation.target_scaling().unwrap().clone();
    let Targets::Values(values) = federation.samples(1, Split::Test).targets else { panic!("a regression") };
    let restored = scaling.restore(0, f64::from(values[0]));
    assert!((restored / 2.0 - (restored / 2.0).round()).abs() < 1e-5, "{restored}");
    assert!(federation.label_counts(0, Split::Train).is_empty());
    let rows = read_inputs(&spec.train, &spec, &[3], federation.input_scaling()).unwrap();
    assert_eq!((rows.count, rows.inputs.len()), (8, 24));
    assert!(complaint(read_inputs(&spec.train, &spec, &[4], None)).contains("8 rows of 3 numbers"));

    let text = complaint(open_spec(FilesSpec { target: "y".into(), ..spec.clone() }, PartitionKind::Iid));
    assert!(text.contains("array \"y\"") && text.contains("client, inputs, target"), "{text}");
    let text = complaint(open_spec(FilesSpec { shape: vec![2], ..spec }, PartitionKind::Iid));
    assert!(text.contains("data.files.shape = [2]"), "{text}");
}

const TABLE: &str = "\u{feff}age,who,weight,sick\n1,anna,2,yes\n3,anna,4,no\n5,bert,6,yes\n7,bert,8,no\n";

fn table_spec(dir: &Path) -> FilesSpec {
    FilesSpec { target: "sick".into(), client: "who".into(), ..files(dir, "t.csv") }
}

#[test]
fn csv_tables_are_read() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), TABLE).unwrap();
    let federation = open_spec(table_spec(dir.path()), PartitionKind::Natural).unwrap();
    assert_eq!(federation.input_shape(), [2]);
    assert_eq!(federation.class_names().unwrap(), ["no", "yes"]);
    assert_eq!(federation.client_name(1), Some("bert"));

    fs::write(dir.path().join("test.csv"), "age,who,weight,sick\n9,bert,1,no\n").unwrap();
    let spec = FilesSpec { test: dir.path().join("test.csv"), standardize: false, ..table_spec(dir.path()) };
    let federation = open_spec(spec.clone(), PartitionKind::Natural).unwrap();
    assert_eq!((federation.count(0, Split::Test), federation.count(1, Split::Test)), (0, 1));
    assert_eq!(federation.samples(1, Split::Test).inputs, [9.0, 1.0]);
    assert_eq!(federation.samples(0, Split::Train).inputs, [1.0, 2.0, 3.0, 4.0]);

    let numbers =
        FilesSpec { task: TaskKind::Regression, target: "age, weight".into(), client: String::new(), ..spec };
    let text = complaint(open_spec(numbers, PartitionKind::Iid));
    assert!(text.contains("column \"who\": found \"anna\", expected a finite number"), "{text}");
}

#[test]
fn bad_csv_tables_are_refused() {
    let dir = TempDir::new().unwrap();
    for (text, expected) in [
        ("", "line 1"),
        ("age,who,weight,sick\n", "line 2: found the end of the file"),
        ("1,2,3,4\n5,6,7,8\n", "expected a column \"sick\""),
        ("age,age,who,sick\n1,2,a,b\n", "column \"age\" twice"),
        ("age,who,weight,sick\n1,anna,2\n", "line 2: found 3 cells, expected 4"),
        ("age,who,weight,sick\n1,anna,2,yes\n1,anna,,no\n", "line 3, column \"weight\": found \"\""),
        ("age,who,weight,sick\n1,anna,NaN,yes\n", "found \"NaN\", expected a finite number"),
        ("age,who,weight,sick\n1,anna,inf,yes\n", "found \"inf\""),
        ("age,who,weight,sick\n1,anna,1e60,yes\n", "found \"1e60\""),
        ("age,who,weight,sick\n1,anna,2,\n", "column \"sick\": found an empty cell"),
        ("who,sick\nanna,yes\n", "1 rows of 0 features"),
    ] {
        fs::write(dir.path().join("t.csv"), text).unwrap();
        let text = complaint(open_spec(table_spec(dir.path()), PartitionKind::Natural));
        assert!(text.contains(expected), "{text}");
    }
    fs::write(dir.path().join("t.csv"), b"age,who,weight,sick\n1,\xff,2,yes\n").unwrap();
    assert!(complaint(open_spec(table_spec(dir.path()), PartitionKind::Natural)).contains("UTF-8"));
}

#[test]
fn settings_of_files_are_checked() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), TABLE).unwrap();
    let text = complaint(open_spec(FilesSpec::default(), PartitionKind::Iid));
    assert!(text.contains("data.files.train"), "{text}");
    let text = complaint(open_spec(files(dir.path(), "t.txt"), PartitionKind::Iid));
    assert!(text.contains(".csv, .npy or .safetensors"), "{text}");
    let text = complaint(open_spec(files(dir.path(), "none.csv"), PartitionKind::Iid));
    assert!(text.contains("cannot read") && text.contains("none.csv"), "{text}");
    let unlike = FilesSpec { test: "x.npy".into(), ..table_spec(dir.path()) };
    assert!(complaint(open_spec(unlike, PartitionKind::Iid)).contains("data.files.test"));
    fs::create_dir(dir.path().join("folder.csv")).unwrap();
    assert!(
        complaint(open_spec(files(dir.path(), "folder.csv"), PartitionKind::Iid)).contains("cannot read")
    );
}

/// What may be done to a file: bytes overwritten, cut off, or added.
#[derive(Clone, Debug)]
struct Damage {
    overwrite: Vec<(prop::sample::Index, u8)>,
    keep: Option<prop::sample::Index>,
    add: Vec<u8>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop_oneof![any::<u8>(), Just(0), Just(255), Just(b'9'), Just(b'('), Just(b',')];
    let overwrite = prop::collection::vec((any::<prop::sample::Index>(), bytes), 0..4);
    let keep = prop::option::weighted(0.3, any::<prop::sample::Index>());
    let add = prop::collection::vec(any::<u8>(), 0..3);
    (overwrite, keep, add).prop_map(|(overwrite, keep, add)| Damage { overwrite, keep, add })
}

impl Damage {
    /// Most of it near the beginning, where the headers are.
    fn apply(&self, mut bytes: Vec<u8>, near: bool) -> Vec<u8> {
        let reach = if near { bytes.len().min(160) } else { bytes.len() };
        for (at, byte) in &self.overwrite {
            bytes[at.index(reach)] = *byte;
        }
        if let Some(keep) = self.keep {
            bytes.truncate(keep.index(bytes.len()));
        }
        bytes.extend(&self.add);
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens to a file: it is read or refused on one line; nothing panics.
    #[test]
    fn damaged_files_never_panic(damage in damage(), near in any::<bool>()) {
        let dir = TempDir::new().unwrap();
        let put = |name: &str, bytes: Vec<u8>| fs::write(dir.path().join(name), bytes).unwrap();
        let outcome = |result: Result<Box<dyn Federation>, DataError>| match result {
            Ok(federation) => drop(federation.samples(0, Split::Train)),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        };
        put("d.safetensors", damage.apply(tensors_bytes(), near));
        outcome(open_spec(files(dir.path(), "d.safetensors"), PartitionKind::Iid));
        put("t.csv", damage.apply(TABLE.into(), near));
        outcome(open_spec(table_spec(dir.path()), PartitionKind::Natural));
        put("y.npy", npy("|u1", "(4,)", &[0, 1, 0, 1]));
        put("X.npy", damage.apply(npy("<f4", "(4, 2)", &floats(8)), near));
        let arrays = FilesSpec { target: "y.npy".into(), ..files(dir.path(), "X.npy") };
        outcome(open_spec(arrays, PartitionKind::Iid));
        for bytes in [images(2), gzip(&images(2))] {
            put("images", damage.apply(bytes, near));
            if let Err(error) = idx::read(&dir.path().join("images"), 3) {
                prop_assert!(!error.to_string().contains('\n'), "{}", error);
            }
        }
        put("batch.bin", damage.apply(batch(2), near));
        let _ = cifar::read_batch(&dir.path().join("batch.bin"), &mut Vec::new(), &mut Vec::new());
    }
}
