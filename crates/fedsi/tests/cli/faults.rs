//! Faults and privacy from end to end.

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
    let typed =
        ["run", "--method", "fedrep", "--rounds", "4", "--clients", "6", "--epochs", "1", "--out", "r"];
    let private = ["--set", "privacy.noise=1", "--set", "privacy.clip=1", "--set", "faults.drop=0.6"];
    let ended = scratch.succeeds(&[&typed[..], &private].concat());
    for expected in
        ["left out: ", " dropped)", "skipped: ", " of 4 rounds", "privacy: epsilon ", " at delta 1e-5"]
    {
        assert!(ended.stdout.contains(expected), "no `{expected}` in:\n{}", ended.stdout);
    }
    assert!(!ended.stderr.contains("WARN"), "faults that were asked for are no warning: {}", ended.stderr);
    let summary = scratch.json("r/summary.json");
    let lines = scratch.json_lines("r/metrics.jsonl");
    assert_eq!(summary["delta"], 1e-5);
    assert_eq!(summary["epsilon"], lines[3]["epsilon"]);
    let epsilons: Vec<f64> = lines.iter().map(|line| line["epsilon"].as_f64().unwrap()).collect();
    assert!(epsilons.is_sorted_by(|a, b| a < b), "{epsilons:?}");
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
