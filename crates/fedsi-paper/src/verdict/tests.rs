//! Sentences from made-up runs: what is established, tied, behind, missing.

use fedsi_data::Size;
use serde_json::json;

use super::*;
use crate::entry::find_entry;
use crate::experiment::{Experiment, Form};
use crate::plan::{Plan, values};
use crate::record::RunRecord;
use crate::results::Results;
use crate::setting::{Partition, Setting};

fn plan() -> Plan {
    let experiment = Experiment::Table1;
    let mnist = Setting::new("mnist", Size::Small, Partition::Labels);
    Plan {
        experiment,
        partition: Partition::Labels,
        form: Form::Full,
        settings: vec![mnist],
        entries: experiment.entries(),
        runs: Vec::new(),
    }
}

/// A run of a row on MNIST-small with two clients of about this accuracy.
fn run(row: &str, seed: u64, rounds: usize, accuracy: f64) -> RunRecord {
    run_on("mnist", row, seed, rounds, accuracy)
}

fn run_on(dataset: &'static str, row: &str, seed: u64, rounds: usize, accuracy: f64) -> RunRecord {
    let setting = Setting { rounds, ..Setting::new(dataset, Size::Small, Partition::Labels) };
    let entry = find_entry(row).unwrap();
    let scores = |accuracy: f64| {
        json!({"accuracy": accuracy, "ece": 0.01, "mce": 0.1, "brier": 1.0 - accuracy, "nll": 2.0 - accuracy,
            "mce_1pct": 0.05, "aurc": 0.01, "ece_floor": 0.002})
    };
    let client = |id: usize, accuracy: f64| {
        let mut client = scores(accuracy);
        client["id"] = json!(id);
        client["samples"] = json!(100);
        client
    };
    let mut summary = scores(accuracy);
    for (key, value) in [
        ("method", json!(entry.method)),
        ("dataset", json!(dataset)),
        ("size", json!("small")),
        ("seed", json!(seed)),
        ("rounds", json!(rounds)),
        ("clients", json!([client(0, accuracy - 0.01), client(1, accuracy + 0.01)])),
        ("seconds", json!({"train": 1.0, "posterior": 1.0, "evaluate": 1.0, "total": 3.0})),
        ("bytes", json!({"up": 1, "down": 1})),
        ("peak_rss_bytes", json!(1)),
        ("version", json!("0.2.0")),
    ] {
        summary[key] = value;
    }
    RunRecord {
        setting: setting.id.clone(),
        row: row.to_owned(),
        settings: values(&setting, entry, seed),
        config_sha256: String::new(),
        bins: Vec::new(),
        error_at_80: None,
        strange_inputs: std::collections::BTreeMap::new(),
        summary: serde_json::from_value(summary).unwrap(),
    }
}

/// Six seeds of a row around an accuracy, each a little different.
fn runs(row: &str, accuracy: f64, wobble: f64) -> Vec<RunRecord> {
    let each = |seed: u64| run(row, seed, 800, accuracy + wobble * ((seed * 7 % 5) as f64 - 2.0));
    (101..107).map(each).collect()
}

fn found(all: Vec<Vec<RunRecord>>) -> Option<String> {
    of_all(all, |cells| verdict(cells, "accuracy"))
}

/// What is said of these runs.
fn of_all(all: Vec<Vec<RunRecord>>, say: impl Fn(&SettingCells<'_>) -> Option<String>) -> Option<String> {
    let plan = plan();
    let mut results = Results::new(&plan);
    all.into_iter().flatten().for_each(|run| results.add(run));
    say(&SettingCells::all(&plan, &results)[0])
}

/// What is tested is drawn, seed by seed, with the sign of the tables.
#[test]
fn differences_are_drawn_where_they_are_tested() {
    let drawn = |seeds: usize| {
        let plan = plan();
        let mut results = Results::new(&plan);
        for (row, accuracy, wobble) in
            [("fedsi", 0.96, 1e-3), ("fedavg", 0.90, 2e-3), ("fedbabu", 0.95, -1e-3)]
        {
            runs(row, accuracy, wobble).into_iter().take(seeds).for_each(|run| results.add(run));
        }
        let figures = crate::figures::figures(&plan, &SettingCells::all(&plan, &results)).unwrap();
        figures.into_iter().find(|figure| figure.file == "differences.svg").map(|figure| figure.svg)
    };
    let svg = drawn(6).unwrap();
    for words in
        ["FedAvg 6.00%", "FedBABU 1.00%", "FedSI (calibrated) 0.00%", "FedBABU -0.0100", "FedSI better"]
    {
        assert!(svg.contains(words), "{words} is missing");
    }
    assert!(!svg.contains("FedPer"), "a method without runs has no row");
    assert!(drawn(4).is_none(), "four seeds are not tested");
}

#[test]
fn settings_with_a_single_row_to_show_are_not_drawn_beside_others() {
    let fashion = Setting::new("fashion-mnist", Size::Small, Partition::Labels);
    let mut plan = plan();
    plan.settings.push(fashion);
    let drawn = |all: Vec<RunRecord>| {
        let mut results = Results::new(&plan);
        all.into_iter().for_each(|run| results.add(run));
        let figures = crate::figures::figures(&plan, &SettingCells::all(&plan, &results)).unwrap();
        figures.into_iter().find(|figure| figure.file == "accuracy.svg").unwrap().svg
    };
    let mnist = [run("fedsi", 101, 800, 0.96), run("fedavg", 101, 800, 0.90)];
    let on_fashion = |rounds: usize| {
        [
            run_on("fashion-mnist", "fedsi", 101, 800, 0.89),
            run_on("fashion-mnist", "fedavg", 101, rounds, 0.8),
        ]
    };
    let both = |rounds: usize| drawn([&mnist[..], &on_fashion(rounds)[..]].concat());
    assert!(both(800).contains("Fashion-MNIST small"));
    let svg = both(6);
    assert!(svg.contains("MNIST small") && !svg.contains("Fashion-MNIST small"));
    assert!(drawn(on_fashion(6).to_vec()).contains("Fashion-MNIST small"), "a figure has something to show");
}

/// Rows over own classes are compared with each other, beside the ranks; networks of pooled data count among no ranks and tests.
#[test]
fn rows_over_own_classes_are_compared_with_each_other() {
    let fedsi = || [runs("fedsi", 0.96, 1e-3), runs("fedsi-own", 0.962, 1e-3), runs("local", 0.90, 2e-3)];
    let others =
        || [runs("fedavg-own", 0.95, 2e-3), runs("pooled", 0.92, 1e-3), runs("pooled-own", 0.97, 2e-3)];
    let all = || [&fedsi()[..], &others()[..]].concat();
    let line = of_all(all(), |cells| over_own_classes(cells, "accuracy")).unwrap();
    let start = "accuracy % where all know their classes: FedSI (own classes) 96.20%; FedAvg (own classes) 95.00% (FedSI (own \
                 classes) minus it: +1.20, 95% interval ";
    assert!(line.starts_with(start), "{line}");
    let second = "after Holm over 2, 6 seeds); All data pooled (own classes) 97.00% (FedSI (own classes) minus it: -0.80, ";
    assert!(line.contains(second), "{line}");
    // Its temperature is of another network: no scores of probabilities.
    let line = of_all(all(), |cells| over_own_classes(cells, "nll")).unwrap();
    assert!(line.contains("FedAvg (own classes)") && !line.contains("pooled"), "{line}");
    // Means are those of the seeds in common, and other rounds do not compare.
    let mut mixed = [runs("fedsi-own", 0.96, 1e-3), runs("fedavg-own", 0.95, 2e-3)];
    mixed[1].truncate(5);
    mixed[1].push(run("fedavg-own", 222, 800, 0.5));
    let line = of_all(mixed.to_vec(), |cells| over_own_classes(cells, "accuracy")).unwrap();
    assert!(
        line.contains("FedAvg (own classes) 95.") && line.contains("after Holm over 1, 5 seeds"),
        "{line}"
    );
    let short = vec![runs("fedsi-own", 0.96, 1e-3), vec![run("fedavg-own", 101, 100, 0.9)]];
    assert_eq!(of_all(short, |cells| over_own_classes(cells, "accuracy")), None);
    let found = found(all()).unwrap();
    assert!(found.contains("all 2 rivals") && found.contains("next: FedAvg (own classes)"), "{found}");
    assert_eq!(of_all(all(), |cells| left_out(cells, "accuracy")), None);
    let of_one = |id: &str, accuracy: f64| vec![run(id, 101, 800, accuracy)];
    let few = vec![of_one("fedsi-own", 0.962), of_one("pooled-own", 0.97)];
    let line = of_all(few, |cells| over_own_classes(cells, "accuracy")).unwrap();
    assert!(line.ends_with("All data pooled (own classes) 97.00% (1 seed: no test)"), "{line}");
    assert_eq!(
        of_all(vec![runs("fedsi-own", 0.96, 1e-3)], |cells| over_own_classes(cells, "accuracy")),
        None
    );
    let without = vec![runs("fedsi", 0.96, 1e-3), runs("fedavg-own", 0.95, 1e-3)];
    assert_eq!(of_all(without, |cells| over_own_classes(cells, "accuracy")), None);
}

#[test]
fn words_follow_the_test() {
    let best = found(vec![runs("fedsi", 0.96, 1e-3), runs("fedavg", 0.90, 2e-3)]).unwrap();
    assert!(
        best.starts_with("**FedSI (calibrated) is ahead of the one rival**: 96.00%; next: FedAvg 90.00% ("),
        "{best}"
    );
    assert!(best.contains("FedSI minus it: +6.00"), "{best}");
    let behind = found(vec![runs("fedsi", 0.90, 1e-3), runs("fedavg", 0.96, 2e-3)]).unwrap();
    assert!(
        behind.starts_with("**FedSI (calibrated) is behind**, 2nd of 2: 90.00%; best: FedAvg 96.00%"),
        "{behind}"
    );
    assert!(behind.contains("FedSI minus it: -6.00"), "{behind}");
    let tied = found(vec![runs("fedsi", 0.9501, 1e-3), runs("fedavg", 0.95, -2e-3)]).unwrap();
    assert!(
        tied.starts_with(
            "**FedSI (calibrated) has the best mean beside the one rival**, not significantly ahead"
        ),
        "{tied}"
    );
    let other = found(vec![runs("fedsi", 0.95, 1e-3), runs("fedavg", 0.9501, -2e-3)]).unwrap();
    assert!(other.starts_with("**FedSI (calibrated) is not significantly behind the best of"), "{other}");
    // One that is further behind and varies more is not established to be.
    let wild = found(vec![runs("fedsi", 0.96, 1e-3), runs("fedavg", 0.90, 2e-3), runs("fedper", 0.85, 9e-2)])
        .unwrap();
    assert!(wild.starts_with("**FedSI (calibrated) has the best mean beside all 2 rivals**"), "{wild}");
    assert!(wild.contains("no significant difference from FedPer"), "{wild}");
}

/// The family's own rows are no rivals, unless there are no others.
#[test]
fn the_best_of_the_others_is_another_method() {
    let fac = || runs("fedsi-fac", 0.955, 1.4e-3);
    let with = found(vec![runs("fedsi", 0.96, 1e-3), fac(), runs("fedavg", 0.90, 2e-3)]).unwrap();
    assert!(with.contains("; next: FedAvg 90.00%"), "{with}");
    assert!(
        with.contains("; FedSI-Fac (calibrated) 95.50% is worse than FedSI (FedSI minus it: +0.50"),
        "{with}"
    );
    assert!(with.contains("after Holm over 2)"), "{with}");
    let better = || runs("fedsi-fac", 0.965, 1.5e-3);
    let with = found(vec![runs("fedsi", 0.96, 1e-3), better(), runs("fedavg", 0.90, 2e-3)]).unwrap();
    assert!(with.starts_with("**FedSI (calibrated) is ahead of the one rival**"), "{with}");
    assert!(with.contains("; FedSI-Fac (calibrated) 96.50% is **better** than FedSI"), "{with}");
    let alone = found(vec![runs("fedsi", 0.96, 1e-3), fac()]).unwrap();
    assert!(alone.contains("next: FedSI-Fac (calibrated)"), "{alone}");
}

#[test]
fn what_is_missing_is_neither_ranked_nor_hidden() {
    assert_eq!(found(vec![runs("fedavg", 0.9, 1e-3)]), None, "without FedSI there is no verdict");
    let plan = plan();
    let mut results = Results::new(&plan);
    runs("fedavg", 0.9, 1e-3).into_iter().for_each(|run| results.add(run));
    let cells = SettingCells::all(&plan, &results);
    let row = plan.entries.iter().position(|entry| entry.id == "fedavg").unwrap();
    assert!(
        (cells[0].spread(row, "accuracy").unwrap().mean - 0.9).abs() < 1e-3,
        "its mean is shown all the same"
    );
    // One more seed of a rival than of FedSI takes nothing from the others.
    let mut more = runs("fedavg", 0.9, 2e-3);
    more.push(run("fedavg", 107, 800, 0.9));
    let best = found(vec![runs("fedsi", 0.96, 1e-3), more]).unwrap();
    assert!(best.starts_with("**FedSI (calibrated) is ahead of the one rival**"), "{best}");
    // A rival with fewer rounds is not compared.
    let short = (101..107).map(|seed| run("fedavg", seed, 200, 0.99)).collect();
    let alone = found(vec![runs("fedsi", 0.96, 1e-3), short]).unwrap();
    assert!(alone.contains("no other method has all of its seeds and rounds yet"), "{alone}");
    // Nor is one with fewer seeds, however good.
    let fewer = vec![run("fedper", 101, 800, 0.99)];
    let best = found(vec![runs("fedsi", 0.96, 1e-3), runs("fedavg", 0.90, 2e-3), fewer]).unwrap();
    assert!(best.starts_with("**FedSI (calibrated) is ahead of the one rival that is ranked**"), "{best}");
    let fewer = || vec![run("fedper", 101, 800, 0.99), run("fedrep", 101, 200, 0.99)];
    let names = of_all(vec![runs("fedsi", 0.96, 1e-3), fewer()], |cells| left_out(cells, "accuracy"));
    assert_eq!(
        names.as_deref(),
        Some("not ranked, too few seeds, rounds or clients: FedPer, FedRep"),
        "both are named"
    );
    let rounds = of_all(vec![runs("fedsi", 0.96, 1e-3), fewer()], |cells| {
        Some(format!("{}, {}", cells.setting.title, cells.other_rounds()?))
    });
    assert_eq!(rounds.as_deref(), Some("MNIST small, 200 to 800 rounds"));
    let rows = of_all(vec![runs("fedsi", 0.96, 1e-3), fewer()], |cells| {
        Some(format!("{}, {}", cells.setting.title, cells.rows_by_rounds()?))
    });
    assert_eq!(rows.as_deref(), Some("MNIST small, 800 rounds in 2 rows, 200 rounds in 1 row"));
    // Too few seeds for a test.
    let few = |row: &str, accuracy: f64| (101..104).map(|seed| run(row, seed, 800, accuracy)).collect();
    let untested = found(vec![few("fedsi", 0.96), few("fedavg", 0.9)]).unwrap();
    assert!(
        untested.contains("has the best mean beside the one rival**, not tested")
            && untested.contains("3 seeds: no test"),
        "{untested}"
    );
}

/// What an experiment that varies something is about comes first, with the runs it rests on.
#[test]
fn values_over_what_is_varied() {
    let base = plan().settings.remove(0);
    let settings = [3, 5].map(|percent| base.clone().varied(Variation::SubnetworkPercent(percent)));
    let plan = Plan { experiment: Experiment::Fig3, settings: settings.to_vec(), ..plan() };
    let mut results = Results::new(&plan);
    runs("fedsi", 0.96, 0.0).into_iter().for_each(|run| results.add(run));
    let mut other = run("fedsi", 101, 800, 0.95);
    other.setting = plan.settings[0].id.clone();
    other.settings = values(&plan.settings[0], find_entry("fedsi").unwrap(), 101);
    results.add(other);
    assert_eq!(
        variation_values(&SettingCells::all(&plan, &results), "accuracy"),
        ["FedSI (calibrated), MNIST small: 95.00% at 3%, 96.00% at 5% (800 rounds, 1 to 6 seeds)"]
    );
}

/// Rows with fewer seeds are not ranked with the others, so that their place on the seeds that all have is said.
#[test]
fn where_both_profiles_stand_on_the_seeds_that_all_have() {
    let one = |row: &str, accuracy: f64| vec![run(row, 101, 800, accuracy)];
    let say = |cells: &SettingCells<'_>| on_common_seeds(cells, "accuracy");
    let all =
        vec![runs("fedsi", 0.96, 0.0), one("fedsi-paper", 0.86), one("fedavg", 0.97), one("pooled", 0.99)];
    assert_eq!(
        of_all(all, say).as_deref(),
        Some(
            "accuracy % on seed 101, which all 3 rows have: FedSI (calibrated) 96.00%, 2nd of 3; FedSI (paper) 86.00%, 3rd"
        )
    );
    let other_rounds = vec![run("fedavg", 101, 200, 0.97)];
    assert_eq!(of_all(vec![runs("fedsi", 0.96, 0.0), other_rounds], say), None, "nothing to compare with");
    let [first, second, eleventh, twenty_third] = [1, 2, 11, 23].map(ordinal);
    assert_eq!([first, second, eleventh, twenty_third], ["1st", "2nd", "11th", "23rd"]);
}

/// A calibration error stands beside what chance alone gives.
#[test]
fn calibration_errors_have_their_floor() {
    let found =
        of_all(vec![runs("fedsi", 0.96, 1e-3), runs("fedavg", 0.9, 1e-3)], |cells| verdict(cells, "ece"));
    assert!(found.as_ref().is_some_and(|text| text.contains("0.0100 (floor 0.0020)")), "{found:?}");
}

/// Whether models notice strange inputs is said by kind of input, with a test where there are seeds enough.
#[test]
fn strange_inputs_are_tested_against_the_named_rival() {
    let seen = |row: &str, area: f64, seeds: std::ops::Range<u64>| -> Vec<RunRecord> {
        let each = |seed: u64| {
            let mut run = run(row, seed, 800, 0.9);
            let wobble = 0.01 * (seed * 7 % 5) as f64 * area;
            let told = crate::record::StrangeInputs { entropy: Some(area + wobble), strangeness: None };
            run.strange_inputs.insert("unseen classes".to_owned(), told);
            run
        };
        seeds.map(each).collect()
    };
    let say = |cells: &SettingCells<'_>| Some(strange_verdicts(cells).join("\n"));
    let rival = |seeds| seen("fedbabu-noise", 0.6, seeds);
    let tested = of_all(vec![seen("fedsi", 0.8, 101..107), rival(101..107)], say).unwrap();
    assert!(
        tested.starts_with(
            "AUROC on unseen classes: by entropy 0.816, FedBABU + noise 0.612 (FedSI minus it, 95%: +0.20"
        ),
        "{tested}"
    );
    assert!(!tested.contains("strangeness"), "what was not measured is not said: {tested}");
    let few = of_all(vec![seen("fedsi", 0.8, 101..104), rival(101..104)], say).unwrap();
    assert!(few.ends_with("FedBABU + noise 0.614 (not tested)"), "{few}");
    let alone = of_all(vec![seen("fedsi", 0.8, 101..104)], say).unwrap();
    assert_eq!(alone, "AUROC on unseen classes: by entropy 0.819");
}
