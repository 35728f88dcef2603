//! `fedsi paper`: tables and figures, made again with the same digits, continued, merged from several machines.

use std::fs;

use serde_json::{Value, json};

use crate::bad_input::refuses;
use crate::resume::{start, wait_for};
use crate::support::Scratch;

/// The quick form, shorter still: three rows, two seeds.
fn quick<'a>(experiment: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let rows = "--methods=fedavg,fedsi-paper,fedsi";
    [&["paper", experiment, "--quick", "--rounds=2", rows, "--out", out][..], more].concat()
}

fn runs(scratch: &Scratch, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(scratch.path(file)).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    found["runs"].as_array().unwrap().clone()
}

#[test]
fn a_table_is_made_again_with_the_same_digits() {
    let scratch = Scratch::new();
    let first = scratch.succeeds(&quick("table1", "a", &["--runs=ra"]));
    assert!(first.stdout.contains("FedSI (calibrated)"), "{}", first.stdout);
    for name in ["README.md", "results.json", "config.toml", "accuracy.md", "accuracy.tex", "accuracy.svg"] {
        assert!(scratch.path("a").join(name).is_file(), "{name} is missing");
    }
    let found = runs(&scratch, "a/results.json");
    assert_eq!(found.len(), 6, "three rows on two seeds");
    for run in &found {
        for key in ["version", "device", "accuracy", "seed"] {
            assert!(!run["summary"][key].is_null(), "a run lacks {key}: {run}");
        }
    }
    let again =
        scratch.succeeds(&quick("table1", "b", &["--runs=rb", "--threads=1", "--check=a/results.json"]));
    assert!(again.stdout.contains("check: 6 runs have the same digits\n"), "{}", again.stdout);
    for name in ["accuracy.md", "nll.tex", "accuracy.svg", "config.toml", "README.md"] {
        let read = |folder: &str| fs::read_to_string(scratch.path(folder).join(name)).unwrap();
        assert_eq!(read("a"), read("b"), "{name} differs");
    }
}

#[test]
fn digits_that_differ_are_named() {
    let scratch = Scratch::new();
    scratch.succeeds(&quick("table1", "a", &["--methods=fedavg", "--seeds=1"]));
    let path = scratch.path("a/results.json");
    let text = fs::read_to_string(&path).unwrap();
    let accuracy = text.find("\"accuracy\":").unwrap() + "\"accuracy\":".len();
    fs::write(scratch.path("other.json"), format!("{}9{}", &text[..accuracy + 2], &text[accuracy + 3..]))
        .unwrap();
    let ended =
        scratch.fedsi(&quick("table1", "a", &["--methods=fedavg", "--seeds=1", "--check=other.json"]));
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("1 of 1 runs have other digits: digits-small-2r/fedavg-s101"),
        "{}",
        ended.stderr
    );
}

/// Runs are made once: for the same table, for another one that has them too, and from another machine's results.
#[test]
fn runs_are_shared_continued_and_merged() {
    let scratch = Scratch::new();
    scratch.succeeds(&quick("table1", "t1", &["--methods=fedsi", "--seeds=1"]));
    let marker = scratch.path("runs/paper/runs/digits-small-2r/fedsi-s101/summary.json");
    let made = fs::metadata(&marker).unwrap().modified().unwrap();
    scratch.succeeds(&quick("table1", "t1", &[]));
    assert_eq!(runs(&scratch, "t1/results.json").len(), 6);
    scratch.succeeds(&quick("table2", "t2", &["--methods=fedsi"]));
    assert_eq!(fs::metadata(&marker).unwrap().modified().unwrap(), made, "the run was made again");
    // Elsewhere, without the folders of the runs.
    scratch.succeeds(&quick("table2", "t3", &["--runs=none", "--no-runs", "--merge=t1/results.json"]));
    assert_eq!(runs(&scratch, "t3/results.json").len(), 6);
    assert!(!scratch.path("none").exists(), "--no-runs makes no folder for runs");
    let page = fs::read_to_string(scratch.path("t3/README.md")).unwrap();
    assert!(page.contains("unseen classes"), "strange inputs came along:\n{page}");
}

/// Results are there as runs end: what was killed has lost none of them.
#[test]
fn results_are_written_as_runs_end() {
    let scratch = Scratch::new();
    let slow = ["--methods=fedavg,fedbabu,fedsi", "--rounds=30", "--jobs=1", "--threads=1", "--quiet"];
    let mut child = start(&scratch, &quick("table1", "t", &slow));
    assert!(wait_for(&mut child, || scratch.path("t/results.json").exists()));
    child.kill().unwrap();
    child.wait().unwrap();
    let first = runs(&scratch, "t/results.json");
    assert!((1..6).contains(&first.len()), "{} of 6 runs", first.len());
    assert!(!scratch.path("t/README.md").exists(), "it was killed before the page");
    let marker =
        format!("runs/paper/runs/digits-small-30r/{}-s101/summary.json", first[0]["row"].as_str().unwrap());
    let made = fs::metadata(scratch.path(&marker)).unwrap().modified().unwrap();
    scratch.succeeds(&quick("table1", "t", &slow));
    let all = runs(&scratch, "t/results.json");
    assert_eq!(all.len(), 6);
    assert!(first.iter().all(|run| all.contains(run)), "what was written down is kept");
    assert_eq!(
        fs::metadata(scratch.path(&marker)).unwrap().modified().unwrap(),
        made,
        "a run was made again"
    );
}

/// Rounds and seeds that are fewer than wanted stand in the cell, and how to make those runs below.
#[test]
fn what_is_not_run_in_full_says_so() {
    let scratch = Scratch::new();
    scratch.succeeds(&quick("fig3", "f", &["--methods=fedsi", "--settings=digits-small", "--seeds=1"]));
    let more = ["--methods=fedsi", "--settings=digits-small", "--rounds=4", "--seeds=3", "--no-runs"];
    scratch.succeeds(&quick("fig3", "f", &more));
    let table = fs::read_to_string(scratch.path("f/accuracy.md")).unwrap();
    assert!(table.contains("digits small, 5% (2 rounds, 1 seed)"), "in the head of the column:\n{table}");
    let page = fs::read_to_string(scratch.path("f/README.md")).unwrap();
    assert!(page.contains("--settings digits-small --methods fedsi --rounds 2 --seeds 1"), "{page}");
    assert!(page.contains("2 rounds (the protocol has 16)"), "{page}");
    assert!(table.contains("| FedSI (paper) | - |"), "all rows are there:\n{table}");
}

#[test]
fn every_experiment_has_a_quick_form() {
    let scratch = Scratch::new();
    for (experiment, figure) in [
        ("table2", "ece.svg"),
        ("fig3", "curves.svg"),
        ("fig4", "reliability.svg"),
        ("fig5", "accuracy.svg"),
        ("fig6", "curves.svg"),
    ] {
        scratch.succeeds(&quick(experiment, experiment, &["--methods=fedsi", "--rounds=1", "--seeds=1"]));
        let figure = fs::read_to_string(scratch.path(experiment).join(figure)).unwrap();
        assert!(figure.starts_with("<svg"), "{experiment}: {figure}");
        let page = fs::read_to_string(scratch.path(experiment).join("README.md")).unwrap();
        assert!(
            page.contains("## What came out") && page.contains("FedSI (calibrated)"),
            "{experiment}:\n{page}"
        );
    }
}

/// The other partitions, and everything that only some rows have.
#[test]
fn other_partitions_and_networks_of_pooled_data() {
    let scratch = Scratch::new();
    let rows = "--methods=pooled,pooled-own,fedavg-own,fedbabu-noise,fedsi";
    for partition in ["dirichlet-0.1", "dirichlet-0.5", "clients-100"] {
        let partition_flag = format!("--partition={partition}");
        scratch.succeeds(&quick("table1", partition, &[rows, "--rounds=1", "--seeds=1", &partition_flag]));
        let found = runs(&scratch, &format!("{partition}/results.json"));
        let clients = |row: &str| {
            let run = found.iter().find(|run| run["row"] == row).unwrap();
            run["summary"]["clients"].as_array().unwrap().clone()
        };
        assert_eq!(clients("pooled").len(), 1);
        let samples: Vec<u64> = clients("fedsi").iter().map(|one| one["samples"].as_u64().unwrap()).collect();
        assert_eq!(samples.len(), if partition == "clients-100" { 100 } else { 10 });
        let is_equal = samples.iter().all(|own| *own == samples[0]);
        assert_eq!(is_equal, partition == "clients-100", "{partition}: {samples:?}");
        // Everybody is tested on their own test samples, and nobody else trains.
        let mut tested = clients("pooled-own");
        let all = tested.pop().unwrap();
        assert_eq!(
            (&all["name"], &all["samples"], &all["novel"]),
            (&json!("pooled"), &json!(0), &Value::Null)
        );
        assert!(tested.iter().all(|one| one["novel"] == json!(true)));
        let own: Vec<u64> = tested.iter().map(|one| one["samples"].as_u64().unwrap()).collect();
        assert_eq!(own, samples, "{partition}");
    }
}

#[test]
fn bad_input_is_refused_and_nothing_written() {
    let scratch = Scratch::new();
    scratch.write("notes/mine.txt", "mine");
    scratch.write("wrong.json", "{\"format\": \"other\"}");
    refuses(&scratch, &["paper"], &[(&["table3"], &["table3"])]);
    refuses(
        &scratch,
        &quick("table1", "o", &[]),
        &[
            (&["--methods=fedsy"], &["no method `fedsy`", "did you mean `fedsi`?"]),
            (&["--settings=mnist-small"], &["mnist-small", "known: digits-small"]),
            (&["--seeds=0"], &["--seeds 0"]),
            (&["--rounds=0"], &["--rounds 0"]),
            (&["--merge=nothing.json"], &["nothing.json: there is no such file"]),
            (&["--check=nothing.json"], &["nothing.json: there is no such file"]),
            (&["--merge=wrong.json"], &["wrong.json: not results of fedsi paper"]),
            (&["--out=notes"], &["mine.txt", "--out"]),
            // The full form needs data, and says how to get it.
            (&["--data-dir=nowhere"], &["fedsi data fetch mnist"]),
        ],
    );
    // Results of one experiment are not continued by another.
    scratch.succeeds(&quick("table1", "t1", &["--methods=fedavg", "--rounds=1", "--seeds=1"]));
    refuses(&scratch, &quick("fig6", "t1", &[]), &[(&[], &["results of table1 (labels), not of fig6"])]);
}
