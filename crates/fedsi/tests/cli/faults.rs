//! Faults and privacy from end to end.

use fedsi_fl::config::{COVERED_FILES, UNCOVERED_FILES};
use serde_json::Value;

use crate::bad_input::refuses;
use crate::support::Scratch;

const FAULTS: [&str; 6] =
    ["--set", "faults.drop=0.3", "--set", "faults.straggle=0.1", "--set", "faults.corrupt=0.05"];

fn accuracy(summary: &Value) -> f64 {
    summary["accuracy"].as_f64().unwrap()
}

/// 30% never answer, 10% are late, 5% send something damaged: within 1.5 points of the run without, and every one of
/// them is on record.
#[test]
fn fedsi_stands_a_federation_in_trouble() {
    let scratch = Scratch::new();
    let run = |name: &str, more: &[&str]| {
        let typed =
            ["run", "--rounds", "30", "--json", "--set", "output.personal_models=false", "--out", name];
        scratch.succeeds(&[&typed[..], more].concat()).json()
    };
    let (clean, faulty) = (run("clean", &[]), run("faulty", &FAULTS));
    let (with, without) = (accuracy(&faulty), accuracy(&clean));
    assert!(with > without - 0.015, "{with} with faults, {without} without");
    assert!(clean.get("trouble").is_none() && clean.get("epsilon").is_none());

    let lines = scratch.json_lines("faulty/metrics.jsonl");
    assert_eq!(lines.len(), 30, "skipped rounds are rounds");
    let outs: Vec<&Value> = lines.iter().flat_map(|line| line["left_out"].as_array().unwrap()).collect();
    let counted: u64 = faulty["trouble"]["left_out"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(counted, outs.len() as u64);
    let dropped = outs.iter().filter(|out| out["kind"] == "dropped").count();
    assert!((70..120).contains(&dropped), "{dropped} of 300 dropped");
    assert!(outs.iter().all(|out| out["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
    let skipped = lines.iter().filter(|line| line["skipped"] == true).count();
    assert_eq!(faulty["trouble"]["skipped_rounds"], skipped);
}

#[test]
fn the_closing_words_tell_of_faults_and_privacy() {
    let scratch = Scratch::new();
    let typed = ["run", "--method", "fedrep", "--rounds", "4", "--clients", "6", "--epochs", "1"];
    let faults = ["--set", "faults.drop=0.6"];
    let private = ["--set", "privacy.noise=1", "--set", "privacy.clip=1"];
    let without = scratch.succeeds(&[&typed[..], &faults, &["--out", "open"]].concat());
    let ended = scratch.succeeds(&[&typed[..], &faults, &private, &["--out", "r"]].concat());
    for (ended, expected) in [
        (&without, &["left out: ", " dropped)", "skipped: ", " of 4 rounds"][..]),
        (&ended, &["left out: ", " dropped)", "privacy: epsilon ", " at delta 1e-5"]),
    ] {
        for expected in expected {
            assert!(ended.stdout.contains(expected), "no `{expected}` in:\n{}", ended.stdout);
        }
        assert!(
            !ended.stderr.contains("WARN"),
            "faults that were asked for are no warning: {}",
            ended.stderr
        );
    }
    assert!(!ended.stdout.contains("skipped: "), "with privacy no round is skipped:\n{}", ended.stdout);
    let summary = scratch.json("r/summary.json");
    let lines = scratch.json_lines("r/metrics.jsonl");
    assert_eq!(summary["delta"], 1e-5);
    assert_eq!(summary["epsilon"], lines[3]["epsilon"]);
    let epsilons: Vec<f64> = lines.iter().map(|line| line["epsilon"].as_f64().unwrap()).collect();
    assert!(epsilons.is_sorted_by(|a, b| a < b), "{epsilons:?}");
}

/// What is published depends on a key that is nowhere: the same command gives other noise, and no file keeps the key.
#[test]
fn noise_cannot_be_repeated_from_what_a_run_leaves() {
    let scratch = Scratch::new();
    let run = |name: &str| {
        let typed =
            ["run", "--method", "fedavg", "--rounds", "2", "--clients", "4", "--epochs", "1", "--json"];
        let private = ["--set", "privacy.noise=1", "--set", "privacy.clip=1", "--out", name];
        scratch.succeeds(&[&typed[..], &private].concat());
        let folder = scratch.path(name);
        let left: Vec<String> = std::fs::read_dir(folder.join("checkpoint"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, ["server.safetensors"], "checkpoints, which have the key, are removed");
        for (path, content) in scratch.below(name) {
            let covered = COVERED_FILES.contains(&path.as_str());
            let uncovered = UNCOVERED_FILES.iter().any(|(file, _)| {
                let folder = file.split('*').next().unwrap_or(file);
                path == *file || path.starts_with(&format!("{folder}/"))
            });
            assert!(covered != uncovered || content.is_none(), "{path} is in neither list, or in both");
        }
        for file in ["summary.json", "config.toml", "metrics.jsonl", "checkpoint/server.safetensors"] {
            let bytes = std::fs::read(folder.join(file)).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("privacy_key"), "{file}");
        }
        std::fs::read(folder.join("checkpoint/server.safetensors")).unwrap()
    };
    assert_ne!(run("a"), run("b"));
}

/// A delta at which one client may be known completely is allowed, and said.
#[test]
fn a_delta_that_promises_nothing_is_warned_of() {
    let scratch = Scratch::new();
    let typed =
        ["run", "--method", "fedavg", "--rounds", "1", "--clients", "3", "--epochs", "1", "--out", "r"];
    let private = ["--set", "privacy.noise=1", "--set", "privacy.clip=1", "--set", "privacy.delta=0.4"];
    let ended = scratch.succeeds(&[&typed[..], &private].concat());
    assert!(ended.stderr.contains("WARN") && ended.stderr.contains("privacy.delta"), "{}", ended.stderr);
}

/// A table of one's own with privacy: scales and classes are given, not looked for in everybody's rows.
#[test]
fn a_table_with_privacy_needs_no_look_at_all_rows() {
    let scratch = Scratch::new();
    let rows = |client: usize| {
        (0..6).map(move |row| format!("{}.5,c{client},{}\n", row % 3, ["no", "yes"][row % 2]))
    };
    let table: String = (0..5).flat_map(rows).collect();
    scratch.write("t.csv", format!("x,who,sick\n{table}"));
    let typed = [
        "run",
        "--method",
        "fedavg",
        "--dataset",
        "files",
        "--rounds",
        "2",
        "--epochs",
        "1",
        "--set",
        "data.files.train=t.csv",
        "--set",
        "data.files.target=sick",
        "--set",
        "data.files.client=who",
        "--set",
        "partition.kind=natural",
        "--set",
        "privacy.noise=1",
        "--set",
        "privacy.clip=1",
    ];
    let fixed = ["--set", "data.files.standardize=false"];
    refuses(
        &scratch,
        &typed,
        &[(&[], &["data.files.standardize", "false", "ranges"]), (&fixed, &["data.files.classes"])],
    );
    let listed = ["--set", "data.files.classes=[\"no\", \"yes\"]", "--out", "r", "--json"];
    let summary = scratch.succeeds(&[&typed[..], &fixed, &listed].concat()).json();
    assert!(summary["epsilon"].as_f64().is_some_and(|epsilon| epsilon > 0.0), "{summary}");
}

#[test]
fn settings_of_faults_and_privacy_that_cannot_run() {
    refuses(
        &Scratch::new(),
        &["run"],
        &[
            (&["--set", "faults.drop=1.5"], &["faults.drop", "1.5", "0 to 1"]),
            (&["--set", "faults.drop=0.6", "--set", "faults.straggle=0.6"], &["faults", "at most 1"]),
            (&["--set", "faults.drp=0.5"], &["faults.drp", "did you mean `faults.drop`?"]),
            (&["--set", "federation.aggregate=mode"], &["federation.aggregate", "trimmed-mean"]),
            (&["--set", "privacy.noise=1"], &["privacy.clip", "above 0"]),
            (
                &["--set", "privacy.noise=1", "--set", "privacy.clip=1"],
                &["fedsi.prior_variance", "auto", "fedsi.prior_variance=1"],
            ),
            (
                &[
                    "--set",
                    "privacy.noise=1",
                    "--set",
                    "privacy.clip=1",
                    "--set",
                    "federation.aggregate=median",
                ],
                &["federation.aggregate", "median", "use mean"],
            ),
        ],
    );
}
