//! Folders that fedsi 0.1 wrote: `report`, `predict` and `compare` still open them.

use std::fs;
use std::path::Path;

use crate::support::Scratch;

const RUNS: [&str; 5] = ["fedsi-s1", "fedsi-fac-s1", "fedper-s1", "pfedbayes-s1", "fedpop-s1"];

/// A copy of the comparison in `fedsi-run`'s tests, whose runs learned from tables in the folder of the copy.
fn copied() -> Scratch {
    let scratch = Scratch::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fedsi-run/tests/version_0_1");
    copy(&from, &scratch, "");
    for run in RUNS {
        let name = format!("comparison/{run}/config.toml");
        let here = scratch.path("").canonicalize().unwrap().display().to_string();
        let text = scratch.text(&name).replace("/fixture", &here);
        scratch.write(&name, text);
    }
    scratch
}

fn copy(from: &Path, scratch: &Scratch, to: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{to}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            copy(&entry.path(), scratch, &format!("{name}/"));
        } else {
            scratch.write(&name, fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn pages_are_made_of_their_runs_and_of_their_comparison() {
    let scratch = copied();
    let folders: Vec<String> = RUNS.iter().map(|run| format!("comparison/{run}")).collect();
    let mut arguments = vec!["report", "comparison"];
    arguments.extend(folders.iter().map(String::as_str));
    scratch.succeeds(&arguments);
    for folder in &folders {
        let page = scratch.text(&format!("{folder}/report.html"));
        assert!(page.contains("Uncertain and wrong predictions"), "{folder}: report data of 0.1 is shown");
        assert!(!page.contains("saved no report data"), "{folder}");
    }
    let page = scratch.text("comparison/fedsi-s1/report.html");
    assert!(
        page.contains("AURC") && page.contains("(floor 0."),
        "scores that 0.1 did not write are computed"
    );
    let page = scratch.text("comparison/report.html");
    assert!(page.contains("an older version made this comparison"), "its tests are not shown");
    assert!(page.contains("FedSI") && !page.contains("cannot be read"), "all runs are on the page");
}

#[test]
fn their_models_predict() {
    let scratch = copied();
    for run in RUNS {
        let folder = format!("comparison/{run}");
        let with = |more: &[&str]| {
            scratch.succeeds(&[&["predict", "--run", &folder, "--input", "test.csv"], more].concat()).stdout
        };
        assert_eq!(with(&["--client", "south"]).lines().count(), 19, "{run}");
        assert_eq!(
            with(&["--fit", "train.csv", "--coverage", "0.5", "--quiet"]).lines().count(),
            19,
            "{run}"
        );
    }
}

#[test]
fn their_runs_are_reused_by_the_same_comparison() {
    let scratch = copied();
    let before: Vec<String> =
        RUNS.iter().map(|run| scratch.text(&format!("comparison/{run}/summary.json"))).collect();
    let settings = [
        "data.files.name=tiny",
        "data.files.train=train.csv",
        "data.files.test=test.csv",
        "data.files.target=y",
        "data.files.client=site",
        "partition.kind=natural",
        "model.body=[{linear=5},\"tanh\"]",
        "fedsi.subnetwork=0.5",
        // What has other defaults since.
        "data.files.strict=true",
        "federation.weighting=uniform",
        "pfedbayes.inner_steps=1",
        "fedpop.step=1e-4",
        "fedpop.final_steps=0",
    ];
    let mut arguments = vec!["compare", "--methods=fedsi,fedsi-fac,fedper,pfedbayes,fedpop", "--seeds=1"];
    arguments.extend(["--dataset=files", "--rounds=2", "--epochs=2", "--out=comparison", "--json"]);
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    let ended = scratch.succeeds(&arguments);
    let found = ended.json();
    assert_eq!(found["methods"].as_array().map(Vec::len), Some(5));
    assert!(found["methods"][0]["metrics"]["aurc"]["mean"].is_f64(), "{found}");
    for (run, before) in RUNS.iter().zip(before) {
        assert_eq!(scratch.text(&format!("comparison/{run}/summary.json")), before, "{run} was made again");
    }
}
