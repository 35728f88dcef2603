//! Clients that could not be scored, and other things that results must not hide: in the headline, in comparisons, and on
//! stderr whatever `--quiet` says.

use serde_json::Value;

use crate::support::Scratch;

/// A table of four clients. The inputs of one are so large that plain gradient descent on them diverges.
fn table(scratch: &Scratch) {
    let mut text = "a,b,who,y\n".to_owned();
    for row in 0..160_u32 {
        let (a, b) = (f64::from(row * 7 % 13) / 6.0 - 1.0, f64::from(row * 5 % 11) / 5.0 - 1.0);
        let (who, scale) =
            [("oslo", 1.0), ("bergen", 1.0), ("hard", 1e30), ("molde", 1.0)][(row % 4) as usize];
        let class = if a > 0.0 { "yes" } else { "no" };
        text.push_str(&format!("{},{},{who},{class}\n", a * scale, b * scale));
    }
    scratch.write("d.csv", text);
}

const SETTINGS: [&str; 15] = [
    "--dataset=files",
    "--set",
    "data.files.train=d.csv",
    "--set",
    "data.files.target=y",
    "--set",
    "data.files.client=who",
    "--set",
    "data.files.standardize=false",
    "--set",
    "training.optimizer=sgd",
    "--lr=0.1",
    "--rounds=2",
    "--epochs=1",
    "--threads=1",
];

const SENTENCE: &str = "3 of 4 clients scored; accuracy ";

fn run(scratch: &Scratch, more: &[&str]) -> crate::support::Ended {
    scratch.succeeds(&[&["run"], &SETTINGS[..], more].concat())
}

#[test]
fn a_client_that_diverged_is_in_the_headline() {
    let scratch = Scratch::new();
    table(&scratch);
    let ended = run(&scratch, &["--method=fedavg-ft", "--out=r"]);
    let summary = scratch.json("r/summary.json");
    assert_eq!(
        (&summary["total_clients"], &summary["tested_clients"], &summary["scored_clients"]),
        (&4.into(), &4.into(), &3.into())
    );
    let number = |key: &str| summary[key].as_f64().unwrap();
    assert!((number("accuracy_all") - 0.75 * number("accuracy")).abs() < 1e-12, "{summary}");
    let failed =
        summary["clients"].as_array().unwrap().iter().find(|client| client["name"] == "hard").unwrap();
    assert!(failed["accuracy"].is_null(), "{failed}");
    assert!(failed["problem"].as_str().is_some_and(|problem| problem.contains("not finite")), "{failed}");
    assert_eq!(summary["device"], "cpu");
    assert!(summary["cpu"].as_str().is_some_and(|cpu| !cpu.is_empty()));

    let sentence = format!(
        "{SENTENCE}{:.2}% over those, {:.2}% if the others count as wrong",
        100.0 * number("accuracy"),
        100.0 * number("accuracy_all")
    );
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[2], sentence, "before the table:\n{}", ended.stdout);
    assert!(
        lines[3].contains(" hard: its personal model predicts values that are not finite"),
        "{}",
        lines[3]
    );
    let page = scratch.text("r/report.html");
    assert!(page.contains(&sentence) && page.contains("not scored: its personal model predicts"), "{page}");

    // A run whose clients are all scored says nothing of it.
    let whole = run(&scratch, &["--method=fedavg", "--out=w"]);
    let summary = scratch.json("w/summary.json");
    assert_eq!((&summary["scored_clients"], &summary["accuracy_all"]), (&4.into(), &summary["accuracy"]));
    assert!(!whole.stdout.contains("clients scored"), "{}", whole.stdout);
}

#[test]
fn a_comparison_ranks_only_who_was_scored_on_the_same_clients() {
    let scratch = Scratch::new();
    table(&scratch);
    let typed = ["compare", "--methods=fedavg,fedavg-ft", "--seeds=2", "--jobs=1", "--out=c"];
    let ended = scratch.succeeds(&[&typed[..], &SETTINGS].concat());
    for words in [
        "FedAvg-FT (6 of 8 clients)",
        "* best, + second best, - not ranked",
        "not ranked: FedAvg-FT: with seed 1",
    ] {
        assert!(ended.stdout.contains(words), "no `{words}` in:\n{}", ended.stdout);
    }
    let found = scratch.json("c/compare.json");
    let [whole, dropped] = ["fedavg", "fedavg-ft"].map(|name| {
        let methods = found["methods"].as_array().unwrap();
        methods.iter().find(|method| method["name"] == name).unwrap().clone()
    });
    assert_eq!((&whole["scored_clients"], &whole["unranked"]), (&8.into(), &Value::Null));
    assert_eq!((&dropped["scored_clients"], &dropped["tested_clients"]), (&6.into(), &8.into()));
    let reason = dropped["unranked"].as_str().unwrap();
    assert!(reason.contains("not scored on 1 client") && reason.contains("hard"), "{reason}");
    assert_eq!(dropped["runs"][0]["scored_clients"], 3);
    for metric in ["accuracy", "nll", "ece"] {
        assert_eq!(whole["metrics"][metric]["rank"], 1, "{metric}");
        let result = &dropped["metrics"][metric];
        assert!(
            result["rank"].is_null() && result["difference"].is_null() && !result["mean"].is_null(),
            "{result}"
        );
        assert_eq!(result["against_reference"]["wins"], 0);
    }
    let page = scratch.text("c/report.html");
    assert!(
        page.contains("Methods that are not ranked") && page.contains("the only method that can be ranked")
    );
    // Made again from finished runs, quietly: still said.
    let quiet = scratch.succeeds(&[&typed[..], &SETTINGS, &["-q"]].concat());
    assert!(quiet.stdout.is_empty() && quiet.stderr.contains("not ranked: FedAvg-FT"), "{}", quiet.stderr);
}

#[test]
fn quiet_hides_no_client_that_diverged() {
    let scratch = Scratch::new();
    table(&scratch);
    for (name, how) in [("--out=q", "-q"), ("--out=j", "--json")] {
        let ended = run(&scratch, &["--method=fedavg-ft", name, how]);
        for words in ["no predictions: its personal model predicts values that are not finite", SENTENCE] {
            assert!(ended.stderr.contains(words), "no `{words}` in {}", ended.stderr);
        }
        assert!(how == "--json" || ended.stdout.is_empty());
    }
}

#[test]
fn quiet_hides_no_skipped_round() {
    let scratch = Scratch::new();
    let typed = ["run", "-q", "--method=fedavg", "--rounds=4", "--clients=6", "--epochs=1", "--out=r"];
    let ended = scratch.succeeds(&[&typed[..], &["--set", "faults.drop=0.7"]].concat());
    let skipped = &scratch.json("r/summary.json")["trouble"]["skipped_rounds"];
    assert!(skipped.as_u64().is_some_and(|skipped| skipped > 0), "no round was skipped: {skipped}");
    let expected = format!(" WARN skipped: {skipped} of 4 rounds, with fewer updates than the quorum\n");
    assert_eq!(ended.stderr, expected);
}

#[test]
fn quiet_hides_no_missing_test_data() {
    let scratch = Scratch::new();
    table(&scratch);
    let ended = run(&scratch, &["-q", "--method=fedavg", "--out=r", "--set", "partition.test_fraction=0"]);
    assert!(ended.stderr.contains("no client has test data"), "{}", ended.stderr);
    assert!(ended.stderr.contains("0 of 4 clients scored (4 have no test data)"), "{}", ended.stderr);
    assert!(scratch.json("r/summary.json").get("accuracy_all").is_none());
}

#[test]
fn quiet_hides_no_report_that_failed() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "-q", "--method=fedavg", "--rounds=1", "--clients=2", "--out=r"]);
    std::fs::remove_file(scratch.path("r/report.html")).unwrap();
    std::fs::create_dir(scratch.path("r/report.html")).unwrap();
    let ended = scratch.fedsi(&["report", "-q", "r"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("report.html"), "{}", ended.stderr);
}

#[test]
fn quiet_hides_no_run_of_another_version() {
    let scratch = Scratch::new();
    let typed = [
        "compare",
        "-q",
        "--methods=fedavg",
        "--seeds=1",
        "--rounds=1",
        "--clients=2",
        "--epochs=1",
        "--out=c",
    ];
    scratch.succeeds(&typed);
    let mut summary = scratch.json("c/fedavg-s1/summary.json");
    summary["version"] = "0.0.9".into();
    scratch.write("c/fedavg-s1/summary.json", summary.to_string());
    let ended = scratch.succeeds(&typed);
    assert!(ended.stderr.contains("was made by fedsi 0.0.9"), "{}", ended.stderr);
}
