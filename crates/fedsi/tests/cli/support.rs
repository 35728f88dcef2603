//! A folder of its own for each test, and the program run in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::Value;

/// What would reach the program from outside and change what it prints or where it connects.
const OUTSIDE: [&str; 8] = [
    "COLUMNS",
    "RUST_LOG",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// The program with its working folder.
pub(crate) fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedsi"));
    command.current_dir(folder).timeout(Duration::from_secs(120));
    for name in OUTSIDE {
        command.env_remove(name);
    }
    command
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// stdout as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON ({error}):\n{}", self.stdout))
    }
}

/// An empty folder, gone at the end of the test.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program here and says how it ended.
    pub(crate) fn fedsi(&self, arguments: &[&str]) -> Ended {
        let output = program(self.0.path()).args(arguments).output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs the program here; anything but success fails the test.
    pub(crate) fn succeeds(&self, arguments: &[&str]) -> Ended {
        let ended = self.fedsi(arguments);
        assert_eq!(ended.code, Some(0), "`fedsi {}` failed: {}", arguments.join(" "), ended.stderr);
        ended
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap_or_else(|error| panic!("{name} is no JSON: {error}"))
    }

    /// A line of JSON each.
    pub(crate) fn json_lines(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Everything below, empty folders included, with the content of files; but no hidden files of fedsi's: a process that
    /// was killed leaves a lock or a temporary file, and the next one removes it.
    pub(crate) fn everything(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        self.below("")
    }

    /// The same below one of the folders, names counted from there.
    pub(crate) fn below(&self, name: &str) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        let root = self.path(name);
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                if path.is_file() && name.rsplit('/').next().is_some_and(|last| last.starts_with(".fedsi-")) {
                    continue;
                }
                found.insert(name, path.is_file().then(|| fs::read(&path).unwrap()));
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        found
    }

    /// The names of everything below.
    pub(crate) fn names(&self) -> Vec<String> {
        self.everything().into_keys().collect()
    }
}

/// The arrays of a safetensors file: type, shape and numbers.
pub(crate) fn arrays(bytes: &[u8]) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<f64>)> {
    let file = SafeTensors::deserialize(bytes).expect("a safetensors file");
    let read = |view: &TensorView<'_>| -> Vec<f64> {
        let data = view.data();
        match view.dtype() {
            Dtype::F32 => {
                data.as_chunks::<4>().0.iter().map(|&four| f64::from(f32::from_le_bytes(four))).collect()
            }
            Dtype::F64 => data.as_chunks::<8>().0.iter().map(|&eight| f64::from_le_bytes(eight)).collect(),
            Dtype::I64 => {
                data.as_chunks::<8>().0.iter().map(|&eight| i64::from_le_bytes(eight) as f64).collect()
            }
            other => panic!("an array of {other:?}"),
        }
    };
    let arrays =
        file.iter().map(|(name, view)| (name.to_owned(), (view.dtype(), view.shape().to_vec(), read(&view))));
    arrays.collect()
}

/// Numbers in -1..1 that follow from a seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> f64 {
        // The constants of Knuth's MMIX; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// MNIST's four files below `folder`/mnist, with so many images a split, all of them grey.
pub(crate) fn write_mnist(scratch: &Scratch, folder: &str, count: u8) {
    for split in ["train", "t10k"] {
        let images = idx(&[u32::from(count), 28, 28], &vec![128; usize::from(count) * 784]);
        let labels: Vec<u8> = (0..count).map(|row| row % 10).collect();
        scratch.write(&format!("{folder}/mnist/{split}-images-idx3-ubyte"), images);
        scratch
            .write(&format!("{folder}/mnist/{split}-labels-idx1-ubyte"), idx(&[u32::from(count)], &labels));
    }
}

/// An IDX file of bytes.
pub(crate) fn idx(dimensions: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, u8::try_from(dimensions.len()).unwrap()];
    bytes.extend(dimensions.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(data);
    bytes
}
