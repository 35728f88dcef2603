//! Fetching from a server of our own, with every kind of misbehaviour.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use fedsi_random::{Purpose, Streams};
use flate2::Compression;
use flate2::write::GzEncoder;
use rand::Rng as _;
use tempfile::TempDir;

use super::*;
use crate::dataset::{CheckReport, DataForm, DatasetDefaults};
use crate::datasets::for_tests::{CIFAR_BATCHES, CIFAR_FOLDER, CIFAR_SUMS, Cifar10, Mnist};
use crate::federation::Federation;
use crate::spec::{DataSpec, PartitionSpec, Size};

/// A built-in dataset with another file to download.
#[derive(Debug)]
struct With {
    known: &'static dyn Dataset,
    files: Vec<RemoteFile>,
}

impl Dataset for With {
    fn name(&self) -> &str {
        self.known.name()
    }
    fn description(&self) -> &str {
        self.known.description()
    }
    fn form(&self) -> Option<DataForm<'_>> {
        self.known.form()
    }
    fn defaults(&self, size: Size) -> DatasetDefaults {
        self.known.defaults(size)
    }
    fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        self.known.open(data, partition, seed)
    }
    fn files(&self) -> &[RemoteFile] {
        &self.files
    }
    fn is_unpacked(&self, folder: &Path) -> bool {
        self.known.is_unpacked(folder)
    }
    fn unpack(&self, archive: &Path, folder: &Path) -> Result<(), DataError> {
        self.known.unpack(archive, folder)
    }
    fn check(&self, dir: &Path) -> Option<CheckReport> {
        self.known.check(dir)
    }
}

/// How the server answers.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Good,
    /// Knows no ranges: always the whole file.
    IgnoresRange,
    Missing,
    /// Other bytes of the same length.
    Wrong,
    /// Promises everything and closes after 1000 bytes.
    BreaksOff,
    /// Never ends.
    Endless,
    /// Answers 206 with all of it, whatever was asked for.
    Partial,
    /// Answers 206 without saying of what.
    PartialOfNothing,
    /// Points to itself, again and again.
    Redirects,
    /// No HTTP at all.
    Noise,
}

struct Server {
    url: String,
    /// The Range header of each request, "" where there was none.
    ranges: Arc<Mutex<Vec<String>>>,
}

fn serve(content: &[u8], manner: Manner) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/data", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let (content, log) = (content.to_vec(), Arc::clone(&ranges));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut range = String::new();
            for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.to_lowercase().strip_prefix("range: ") {
                    value.clone_into(&mut range);
                }
            }
            log.lock().unwrap().push(range.clone());
            // A client that has seen enough hangs up: no fault of the server.
            let _ = stream.write_all(&answer(&content, &range, manner));
        }
    });
    Server { url, ranges }
}

fn answer(content: &[u8], range: &str, manner: Manner) -> Vec<u8> {
    let start =
        range.strip_prefix("bytes=").and_then(|range| range.trim_end_matches('-').parse::<usize>().ok());
    let head = |status: &str, length: usize, more: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n")
            .into_bytes()
    };
    let total = content.len();
    match (manner, start) {
        (Manner::Missing, _) => [head("404 Not Found", 4, ""), b"none".to_vec()].concat(),
        (Manner::Wrong, None) => [head("200 OK", total, ""), vec![7; total]].concat(),
        (Manner::Endless, _) => [head("200 OK", 1 << 24, ""), vec![7; 1 << 24]].concat(),
        (Manner::Partial, _) => {
            let more = format!("Content-Range: bytes 0-{}/{total}\r\n", total - 1);
            [head("206 Partial Content", total, &more), content.to_vec()].concat()
        }
        (Manner::PartialOfNothing, _) => [head("206 Partial Content", total, ""), content.to_vec()].concat(),
        (Manner::Redirects, _) => head("302 Found", 0, "Location: /data/again\r\n"),
        (Manner::Noise, _) => vec![0xff; 4000],
        (Manner::Good | Manner::BreaksOff | Manner::Wrong, Some(start)) if start >= total => {
            head("416 Range Not Satisfiable", 0, "")
        }
        (Manner::Good | Manner::BreaksOff | Manner::Wrong, Some(start)) => {
            let more = format!("Content-Range: bytes {start}-{}/{total}\r\n", total - 1);
            let end = if manner == Manner::BreaksOff { (start + 1000).min(total) } else { total };
            [head("206 Partial Content", total - start, &more), content[start..end].to_vec()].concat()
        }
        (Manner::BreaksOff, None) => {
            [head("200 OK", total, ""), content[..1000.min(total)].to_vec()].concat()
        }
        (Manner::Good, None) | (Manner::IgnoresRange, _) => {
            [head("200 OK", total, ""), content.to_vec()].concat()
        }
    }
}

fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn sum(bytes: &[u8]) -> &'static str {
    Box::leak(checksum::digest(bytes, u64::MAX - 1).unwrap().0.into_boxed_str())
}

/// Bytes that do not compress, so that parts of them are long.
fn plain() -> Vec<u8> {
    let mut bytes = vec![0; 3000];
    Streams::new(1).stream(Purpose::Digits, 0, 0).fill_bytes(&mut bytes);
    bytes
}

/// A dataset of one `.gz` file.
fn one_file() -> (With, Vec<u8>) {
    let packed = gzip(&plain(), 9);
    let file = RemoteFile {
        name: "train-images-idx3-ubyte.gz",
        size: packed.len() as u64,
        sha256: sum(&packed),
        unpacked: Some((3000, sum(&plain()))),
    };
    (With { known: &Mnist, files: vec![file] }, packed)
}

fn run(entry: &With, dir: &Path, servers: &[&Server]) -> Result<FetchReport, DataError> {
    let mirrors = servers.iter().map(|server| server.url.clone()).collect();
    let options = FetchOptions { mirrors, patience: Duration::from_secs(5) };
    fetch(entry, dir, &options, &mut |_| {})
}

fn arrived(dir: &Path) -> Vec<u8> {
    let folder = dir.join("mnist");
    assert!(!folder.join("train-images-idx3-ubyte.gz.part").exists(), "nothing temporary stays");
    fs::read(folder.join("train-images-idx3-ubyte.gz")).unwrap()
}

#[test]
fn a_file_is_fetched_once() {
    let (entry, packed) = one_file();
    let (dir, server) = (TempDir::new().unwrap(), serve(&packed, Manner::Good));
    let report = run(&entry, dir.path(), &[&server]).unwrap();
    assert_eq!(report.files[0].mirror.as_deref(), Some(server.url.as_str()));
    assert_eq!(arrived(dir.path()), packed);
    let report = run(&entry, dir.path(), &[&server]).unwrap();
    assert_eq!(report.files[0].mirror, None);
    assert_eq!(server.ranges.lock().unwrap().len(), 1, "the second time nothing is asked for");
}

#[test]
fn progress_is_reported() {
    let (entry, packed) = one_file();
    let (dir, server) = (TempDir::new().unwrap(), serve(&packed, Manner::Good));
    let options = FetchOptions { mirrors: vec![server.url], ..FetchOptions::default() };
    let mut reported = Vec::new();
    fetch(&entry, dir.path(), &options, &mut |progress| reported.push(progress)).unwrap();
    let total = packed.len() as u64;
    let last = FetchProgress::Received { file: entry.files[0].name.to_owned(), done: total, total };
    assert!(reported.contains(&last));
}

#[test]
fn the_plain_file_will_do() {
    let (entry, _) = one_file();
    let (dir, server) = (TempDir::new().unwrap(), serve(&[], Manner::Missing));
    fs::create_dir(dir.path().join("mnist")).unwrap();
    fs::write(dir.path().join("mnist/train-images-idx3-ubyte"), plain()).unwrap();
    assert_eq!(run(&entry, dir.path(), &[&server]).unwrap().files[0].mirror, None);

    // One with other bytes would be read in place of the fetched file, and may be the user's own.
    fs::write(dir.path().join("mnist/train-images-idx3-ubyte"), b"mine").unwrap();
    let error = run(&entry, dir.path(), &[&server]).unwrap_err().to_string();
    assert!(error.contains("remove or rename it"), "{error}");
}

#[test]
fn a_wrong_file_is_replaced() {
    let (entry, packed) = one_file();
    let (dir, server) = (TempDir::new().unwrap(), serve(&packed, Manner::Good));
    fs::create_dir(dir.path().join("mnist")).unwrap();
    fs::write(dir.path().join("mnist/train-images-idx3-ubyte.gz"), b"damaged").unwrap();
    run(&entry, dir.path(), &[&server]).unwrap();
    assert_eq!(arrived(dir.path()), packed);
}

#[test]
fn another_packing_of_the_same_bytes_will_do() {
    let (entry, packed) = one_file();
    let other = gzip(&plain(), 0);
    assert_ne!(packed, other);
    let (dir, server) = (TempDir::new().unwrap(), serve(&other, Manner::Good));
    run(&entry, dir.path(), &[&server]).unwrap();
    assert_eq!(arrived(dir.path()), other);
}

fn with_part(bytes: &[u8]) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("mnist")).unwrap();
    fs::write(dir.path().join("mnist/train-images-idx3-ubyte.gz.part"), bytes).unwrap();
    dir
}

#[test]
fn a_part_is_taken_up_again() {
    let (entry, packed) = one_file();
    let (dir, server) = (with_part(&packed[..500]), serve(&packed, Manner::Good));
    run(&entry, dir.path(), &[&server]).unwrap();
    assert_eq!(arrived(dir.path()), packed);
    assert_eq!(*server.ranges.lock().unwrap(), ["bytes=500-"]);
}

#[test]
fn a_server_without_ranges_starts_over() {
    let (entry, packed) = one_file();
    let (dir, server) = (with_part(&packed[..500]), serve(&packed, Manner::IgnoresRange));
    run(&entry, dir.path(), &[&server]).unwrap();
    assert_eq!(arrived(dir.path()), packed);
}

#[test]
fn a_part_of_something_else_is_given_up() {
    let (entry, packed) = one_file();
    for part in [vec![9; 500], vec![9; 100_000], packed.clone()] {
        let (dir, server) = (with_part(&part), serve(&packed, Manner::Good));
        run(&entry, dir.path(), &[&server]).unwrap();
        assert_eq!(arrived(dir.path()), packed);
    }
}

#[test]
fn a_broken_connection_is_resumed() {
    let (entry, packed) = one_file();
    let (dir, server) = (TempDir::new().unwrap(), serve(&packed, Manner::BreaksOff));
    run(&entry, dir.path(), &[&server]).unwrap();
    assert_eq!(arrived(dir.path()), packed);
    assert!(server.ranges.lock().unwrap().len() > 2);
}

#[test]
fn the_next_mirror_helps() {
    let (entry, packed) = one_file();
    let manners = [
        Manner::Missing,
        Manner::Wrong,
        Manner::Endless,
        Manner::Partial,
        Manner::PartialOfNothing,
        Manner::Redirects,
        Manner::Noise,
    ];
    for manner in manners {
        for dir in [TempDir::new().unwrap(), with_part(&packed[..500])] {
            let (bad, good) = (serve(&packed, manner), serve(&packed, Manner::Good));
            let report = run(&entry, dir.path(), &[&bad, &good]).unwrap();
            // With a part that is right, the rest of it is right even from a mirror that answers otherwise with nonsense.
            let resumed = manner == Manner::Wrong && bad.ranges.lock().unwrap()[0] == "bytes=500-";
            let expected = if resumed { &bad } else { &good };
            assert_eq!(report.files[0].mirror.as_deref(), Some(expected.url.as_str()));
            assert_eq!(arrived(dir.path()), packed);
        }
    }
}

#[test]
fn when_every_mirror_fails_each_is_named() {
    let (entry, packed) = one_file();
    let dir = TempDir::new().unwrap();
    let (missing, wrong) = (serve(&packed, Manner::Missing), serve(&packed, Manner::Wrong));
    let nobody = Server { url: "http://127.0.0.1:1/x".into(), ranges: Arc::default() };
    let error = run(&entry, dir.path(), &[&missing, &wrong, &nobody]).unwrap_err().to_string();
    for part in ["HTTP status 404", "wrong SHA-256", "127.0.0.1:1/x", "train-images-idx3-ubyte.gz"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains('\n'));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing half-written stays");
}

#[test]
fn a_failed_fetch_leaves_only_what_is_worth_keeping() {
    let (entry, packed) = one_file();
    let nobody = Server { url: "http://127.0.0.1:1/x".into(), ranges: Arc::default() };
    let dir = TempDir::new().unwrap();
    run(&entry, &dir.path().join("new/data"), &[&nobody]).unwrap_err();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "folders made for nothing are removed");

    fs::create_dir(dir.path().join("mnist")).unwrap();
    run(&entry, dir.path(), &[&nobody]).unwrap_err();
    assert!(dir.path().join("mnist").is_dir(), "a folder that was there stays");

    let dir = with_part(&packed[..500]);
    run(&entry, dir.path(), &[&nobody]).unwrap_err();
    let part = fs::read(dir.path().join("mnist/train-images-idx3-ubyte.gz.part")).unwrap();
    assert_eq!(part, packed[..500], "a part is kept");
}

/// A `.tar.gz` with these members.
fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        // Set by hand: the library refuses to write the paths that an attacker would.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, bytes.as_slice()).unwrap();
    }
    gzip(&builder.into_inner().unwrap(), 1)
}

fn cifar(archive: &[u8]) -> With {
    let file = RemoteFile {
        name: "cifar-10-binary.tar.gz",
        size: archive.len() as u64,
        sha256: sum(archive),
        unpacked: None,
    };
    With { known: &Cifar10, files: vec![file] }
}

fn batches() -> Vec<(String, Vec<u8>)> {
    CIFAR_BATCHES.iter().map(|name| (format!("{CIFAR_FOLDER}/{name}"), vec![3; 2 * 3073])).collect()
}

#[test]
fn an_archive_is_unpacked_and_nothing_else() {
    let members = batches();
    let mut members: Vec<(&str, Vec<u8>)> =
        members.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    members.insert(0, ("../../escaped", b"x".to_vec()));
    members.insert(0, ("/tmp/fedsi-escaped", b"x".to_vec()));
    members.push(("cifar-10-batches-bin/readme.html", b"x".to_vec()));
    let archive = archive(&members);
    let entry = cifar(&archive);
    let (dir, server) = (TempDir::new().unwrap(), serve(&archive, Manner::Good));
    run(&entry, dir.path(), &[&server]).unwrap();
    let mut names: Vec<String> = fs::read_dir(dir.path().join("cifar-10").join(CIFAR_FOLDER))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [&[CIFAR_SUMS], CIFAR_BATCHES.as_slice()].concat());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing outside the folder");
    assert!(!Path::new("/tmp/fedsi-escaped").exists());

    let report = &crate::check(dir.path())[0];
    assert_eq!((report.official, report.splits[0].samples), (Some(true), 10));
    assert_eq!(run(&entry, dir.path(), &[&server]).unwrap().files[0].mirror, None);
    fs::write(dir.path().join("cifar-10").join(CIFAR_FOLDER).join("test_batch.bin"), vec![4; 3073]).unwrap();
    assert_eq!(crate::check(dir.path())[0].official, Some(false));
}

#[test]
fn a_bad_archive_is_refused() {
    let all = batches();
    let five: Vec<_> = all[..5].iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let odd = [(all[0].0.as_str(), vec![3; 100])];
    for (archive, expected) in [
        (archive(&five), "test_batch.bin"),
        (archive(&odd), "data_batch_1.bin: found 100 bytes"),
        (gzip(b"no tar", 1), "found"),
        (b"no gzip".to_vec(), "found"),
    ] {
        let (dir, server) = (TempDir::new().unwrap(), serve(&archive, Manner::Good));
        let error = run(&cifar(&archive), dir.path(), &[&server]).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("cifar-10-binary.tar.gz"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_is_built_in_is_not_fetched() {
    let options = FetchOptions::default();
    for name in ["digits", "files"] {
        let dataset = crate::Datasets::builtin().find(name).unwrap().clone();
        let error = fetch(dataset.as_ref(), Path::new("/nonexistent"), &options, &mut |_| {})
            .unwrap_err()
            .to_string();
        assert!(error.contains("cannot be fetched"), "{error}");
    }
}
