//! The same settings give the same bytes.

use std::collections::BTreeMap;

use crate::support::Scratch;

const METHODS: [&str; 12] = [
    "fedsi",
    "fedsi-fac",
    "local",
    "fedavg",
    "fedavg-ft",
    "fedper",
    "fedrep",
    "fedbabu",
    "lg-fedavg",
    "pfedbayes",
    "bpfed",
    "fedpop",
];

/// Every file that is the same in equal runs: all but times (`summary.json`, `metrics.jsonl`, the report) and the
/// settings, which name the number of threads.
fn results(scratch: &Scratch, folder: &str) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut files = scratch.below(folder);
    files.retain(|name, _| name.ends_with(".safetensors"));
    assert!(files.len() > 2, "no results in {folder}");
    files
}

/// The names of files that differ.
fn differing(scratch: &Scratch, one: &str, other: &str) -> Vec<String> {
    let (one, other) = (results(scratch, one), results(scratch, other));
    assert!(one.keys().eq(other.keys()), "other files");
    one.into_iter().filter(|(name, bytes)| other[name] != *bytes).map(|(name, _)| name).collect()
}

#[test]
fn the_number_of_threads_changes_no_byte_of_any_method() {
    let scratch = Scratch::new();
    for method in METHODS {
        let folders = ["1", "2"].map(|threads| {
            let folder = format!("{method}-{threads}");
            scratch.succeeds(&[
                "run",
                "--method",
                method,
                "--rounds",
                "2",
                "--clients",
                "6",
                "--participants",
                "3",
                "--threads",
                threads,
                "--out",
                &folder,
                "--quiet",
            ]);
            folder
        });
        let [one, two] = &folders;
        assert_eq!(differing(&scratch, one, two), [""; 0], "{method}: two threads differ from one");
    }
}

#[test]
fn a_runs_config_reruns_to_the_same_bytes_from_any_folder() {
    let scratch = Scratch::new();
    scratch.succeeds(&[
        "run",
        "--method",
        "fedrep",
        "--rounds",
        "2",
        "--lr",
        "0.002",
        "--seed",
        "3",
        "--participants",
        "4",
        "--set",
        "partition.kind=dirichlet",
        "--set",
        "validation.fraction=0.1",
        "--out",
        "first",
        "--quiet",
    ]);
    scratch.write("elsewhere/config.toml", scratch.bytes("first/config.toml"));
    let here = crate::support::program(&scratch.path("elsewhere"))
        .args(["run", "config.toml", "--out", "again", "--quiet"])
        .output()
        .unwrap();
    assert!(here.status.success(), "{}", String::from_utf8_lossy(&here.stderr));
    assert_eq!(differing(&scratch, "first", "elsewhere/again"), [""; 0]);
    assert_eq!(scratch.text("first/config.toml"), scratch.text("elsewhere/again/config.toml"));
}

#[test]
fn another_seed_gives_another_run() {
    let scratch = Scratch::new();
    for seed in ["1", "2"] {
        scratch.succeeds(&[
            "run",
            "--rounds",
            "1",
            "--clients",
            "3",
            "--seed",
            seed,
            "--out",
            seed,
            "--quiet",
        ]);
    }
    let files = results(&scratch, "1").into_keys().collect::<Vec<_>>();
    assert_eq!(differing(&scratch, "1", "2"), files, "files that do not depend on the seed");
}

#[test]
fn the_methods_are_not_one_method_under_twelve_names() {
    let scratch = Scratch::new();
    let mut seen: BTreeMap<Vec<u8>, &str> = BTreeMap::new();
    for method in METHODS {
        scratch.succeeds(&[
            "run",
            "--method",
            method,
            "--rounds",
            "2",
            "--epochs",
            "2",
            "--clients",
            "6",
            "--participants",
            "3",
            "--out",
            method,
            "--quiet",
        ]);
        let same = seen.insert(scratch.bytes(&format!("{method}/predictions.safetensors")), method);
        assert_eq!(same, None, "{method} predicts what another method does");
    }
}
