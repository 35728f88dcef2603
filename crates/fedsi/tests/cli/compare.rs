//! `fedsi compare`: methods over seeds, stopped and continued, tuned, tabulated.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bad_input::refuses;
use crate::support::Scratch;

/// Settings that make a run a matter of moments.
const SHORT: [&str; 6] = ["--rounds=2", "--clients=4", "--epochs=1", "--set", "tuning.epochs=1", "--out=c"];

/// A short comparison of two methods on two seeds.
fn compare<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["compare", "--methods=fedbabu,fedavg", "--seeds=2"][..], &SHORT, more].concat()
}

/// Everything in the comparison's folder.
fn files(scratch: &Scratch, folder: &str) -> BTreeMap<String, Option<Vec<u8>>> {
    scratch.below(folder)
}

/// The files that hold results: the same whenever the settings are.
fn results(scratch: &Scratch, folder: &str) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut files = files(scratch, folder);
    files.retain(|name, _| name.ends_with(".safetensors"));
    assert!(files.len() > 8, "no results in {folder}: {:?}", files.keys());
    files
}

/// Names of files that are not the same in both.
fn changed(
    before: &BTreeMap<String, Option<Vec<u8>>>,
    after: &BTreeMap<String, Option<Vec<u8>>>,
) -> Vec<String> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// Starts the program and does not wait for it.
fn start(scratch: &Scratch, arguments: &[&str]) -> Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fedsi"));
    command.current_dir(scratch.path("")).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until it is so; a child that ends before is a failure of the test's own making.
fn wait_until(child: &mut Child, what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
        assert!(begun.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_table_a_file_and_a_folder_a_run() {
    let scratch = Scratch::new();
    let ended = scratch.succeeds(&compare(&[]));
    // In the order in which methods are listed, whatever was typed.
    let (first, second) = (ended.stdout.find("FedAvg").unwrap(), ended.stdout.find("FedBABU").unwrap());
    assert!(first < second, "{}", ended.stdout);
    for words in [
        "accuracy %",
        "AURC",
        "floor: the ECE that perfect calibration",
        "± ",
        " *",
        " +",
        "over 2 seeds (1 to 2)",
        "differences from FedAvg",
        "2 seeds: no interval and no test",
        "hint: 2 seeds cannot be tested. The same command with --seeds 5",
        "c/report.html",
    ] {
        assert!(ended.stdout.contains(words), "no `{words}` in:\n{}", ended.stdout);
    }
    let found = scratch.json("c/compare.json");
    assert_eq!(found["dataset"], "digits");
    assert_eq!(found["seeds"], serde_json::json!([1, 2]));
    assert_eq!(found["metrics"][0]["direction"], "higher");
    let methods = found["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 2);
    for method in methods {
        for run in method["runs"].as_array().unwrap() {
            let summary = scratch.json(&format!("c/{}/summary.json", run["folder"].as_str().unwrap()));
            assert_eq!(run["scores"]["accuracy"], summary["accuracy"]);
            assert_eq!(run["seed"], summary["seed"]);
        }
        let of = |index: usize| method["runs"][index]["scores"]["nll"].as_f64().unwrap();
        let mean = method["metrics"]["nll"]["mean"].as_f64().unwrap();
        assert!((mean - f64::midpoint(of(0), of(1))).abs() < 1e-12);
    }
    let ranks: Vec<&Value> = methods.iter().map(|method| &method["metrics"]["accuracy"]["rank"]).collect();
    assert!(ranks.contains(&&Value::from(1)), "{ranks:?}");
    assert!(scratch.text("c/report.html").contains("FedBABU"));

    // A run of it is what `fedsi run` makes of the same settings.
    let alone = ["run", "--method=fedavg", "--seed=2", "--rounds=2", "--clients=4", "--epochs=1", "--quiet"];
    scratch.succeeds(&[&alone[..], &["--set", "tuning.epochs=1", "--out=r"]].concat());
    let (run, part) = (scratch.below("r"), scratch.below("c/fedavg-s2"));
    assert!(run.keys().eq(part.keys()));
    assert_eq!(run["config.toml"], part["config.toml"]);
    assert_eq!(run["predictions.safetensors"], part["predictions.safetensors"]);
}

#[test]
fn what_is_finished_is_reused_and_what_is_missing_is_made() {
    let scratch = Scratch::new();
    scratch.succeeds(&compare(&["--quiet"]));
    let before = files(&scratch, "c");
    let again = scratch.succeeds(&compare(&["--json"]));
    assert_eq!(changed(&before, &files(&scratch, "c")), [""; 0], "a second call changes nothing");
    assert_eq!(again.json(), scratch.json("c/compare.json"));

    // A run without its summary is half a run, whatever else is there.
    std::fs::remove_file(scratch.path("c/fedbabu-s1/summary.json")).unwrap();
    scratch.write("c/fedbabu-s1/metrics.jsonl", "{\"half");
    scratch.succeeds(&compare(&["--quiet"]));
    let after = files(&scratch, "c");
    let touched = changed(&before, &after);
    let own = |name: &&String| {
        let is_summed_up =
            name.starts_with("plots/") || ["compare.json", "report.html"].contains(&name.as_str());
        !name.starts_with("fedbabu-s1/") && !is_summed_up
    };
    assert_eq!(touched.iter().filter(own).count(), 0, "{touched:?}");
    assert_eq!(changed(&results(&scratch, "c"), &results_of(&before)), [""; 0]);

    // More seeds are more runs beside those that are there.
    let more = scratch.succeeds(&[&compare(&["--json"])[..], &["--seeds=3"]].concat()).json();
    assert_eq!(more["seeds"].as_array().unwrap().len(), 3);
    let touched = changed(&after, &files(&scratch, "c"));
    assert!(!touched.iter().any(|name| name.contains("-s1/") || name.contains("-s2/")), "{touched:?}");
}

/// The files with results among these.
fn results_of(files: &BTreeMap<String, Option<Vec<u8>>>) -> BTreeMap<String, Option<Vec<u8>>> {
    files.clone().into_iter().filter(|(name, _)| name.ends_with(".safetensors")).collect()
}

#[test]
fn killed_and_started_again_it_gives_the_same_bytes() {
    let scratch = Scratch::new();
    let arguments = |out: &'static str| {
        let runs =
            ["compare", "--methods=fedavg,local", "--seeds=2", "--rounds=40", "--clients=4", "--epochs=2"];
        [&runs[..], &["--jobs=1", "--quiet", out]].concat()
    };
    let mut child = start(&scratch, &arguments("--out=killed"));
    wait_until(&mut child, || scratch.names().iter().any(|name| name.ends_with("summary.json")));
    // Into the middle of the next run.
    std::thread::sleep(Duration::from_millis(30));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!scratch.path("killed/compare.json").exists(), "there was nothing left to do");
    scratch.succeeds(&arguments("--out=killed"));
    scratch.succeeds(&arguments("--out=whole"));
    assert_eq!(changed(&results(&scratch, "killed"), &results(&scratch, "whole")), [""; 0]);
    // A temporary file may be left where the kill struck.
    let lasting = |name: &String| !name.contains("/.fedsi-");
    let names = |folder| files(&scratch, folder).into_keys().filter(lasting).collect::<Vec<_>>();
    assert_eq!(names("killed"), names("whole"));
}

#[test]
fn one_process_at_a_time() {
    let scratch = Scratch::new();
    let long =
        ["compare", "--methods=fedavg", "--seeds=1", "--rounds=100000", "--clients=4", "--out=c", "--quiet"];
    let mut child = start(&scratch, &long);
    wait_until(&mut child, || scratch.path("c/fedavg-s1/metrics.jsonl").exists());
    let second = scratch.fedsi(&compare(&[]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    let expected = "c is in use by another process that makes runs; wait until it ends, or choose another folder (--out; of fedsi paper --runs)\n";
    assert!(second.stderr.ends_with(expected), "{}", second.stderr);
    // A lock does not outlive its process. The killed run may have made a round by now, and is then kept unless asked for.
    scratch.succeeds(&compare(&["--quiet", "--force"]));
}

#[test]
fn other_settings_are_refused_by_their_key_and_replaced_with_force() {
    let scratch = Scratch::new();
    scratch.succeeds(&compare(&["--quiet"]));
    let cases: [(&[&str], &[&str]); 2] = [
        (&["--rounds=3"], &["c/fedavg-s1", "`rounds` is 2 there and 3 here", "--out", "--force"]),
        (&["--set", "training.batch_size=20"], &["`training.batch_size` is 50 there and 20 here"]),
    ];
    refuses(&scratch, &compare(&[]), &cases);
    let before = results(&scratch, "c");
    scratch.succeeds(&compare(&["--rounds=3", "--force", "--quiet"]));
    assert_eq!(scratch.json("c/compare.json")["rounds"], 3);
    assert!(
        changed(&before, &results(&scratch, "c")).contains(&"fedavg-s1/predictions.safetensors".to_owned())
    );
}

/// A summary that is there and cannot be read may be of a finished run: it is not replaced unless asked for.
#[test]
fn a_damaged_summary_is_named_and_replaced_with_force() {
    let scratch = Scratch::new();
    scratch.succeeds(&compare(&["--quiet"]));
    let before = results(&scratch, "c");
    scratch.write("c/fedavg-s1/summary.json", "{\"half");
    let cases: [(&[&str], &[&str]); 1] =
        [(&[], &["c/fedavg-s1/summary.json cannot be read", "--out", "--force"])];
    refuses(&scratch, &compare(&[]), &cases);
    assert_eq!(scratch.text("c/fedavg-s1/summary.json"), "{\"half");
    scratch.succeeds(&compare(&["--force", "--quiet"]));
    assert_eq!(scratch.json("c/fedavg-s1/summary.json")["seed"], 1);
    assert_eq!(changed(&before, &results(&scratch, "c")), [""; 0], "the same settings give the same bytes");
}

#[test]
fn threads_and_jobs_change_no_result() {
    let scratch = Scratch::new();
    scratch.succeeds(&compare(&["--quiet", "--threads=1", "--jobs=1"]));
    let before = files(&scratch, "c");
    // The number of threads is no setting that runs differ by.
    scratch.succeeds(&compare(&["--quiet", "--threads=4", "--jobs=1"]));
    assert_eq!(changed(&before, &files(&scratch, "c")), [""; 0]);
    scratch.succeeds(&compare(&["--quiet", "--threads=4", "--jobs=3", "--out=d"]));
    assert_eq!(changed(&results(&scratch, "c"), &results(&scratch, "d")), [""; 0]);
}

#[test]
fn tuning_chooses_on_held_out_data_and_says_what() {
    let scratch = Scratch::new();
    let ended = scratch.succeeds(&compare(&["--tune", "--tune-rounds=1"]));
    assert!(ended.stdout.contains("tuned: FedBABU: training.learning_rate = "), "{}", ended.stdout);
    let found = scratch.json("c/compare.json");
    assert_eq!(found["tuning"]["rounds"], 1);
    assert_eq!(found["tuning"]["finalists"], serde_json::json!({"count": 2, "rounds": 2}));
    let common = ["training.learning_rate", "training.weight_noise"];
    for (method, keys) in [(0, common.to_vec()), (1, [&common[..], &["tuning.learning_rate"]].concat())] {
        let method = &found["methods"][method];
        let tried = method["trials"].as_array().unwrap();
        // Seven of the search, then its best two and the defaults for all rounds; these decide.
        let (full, short): (Vec<&Value>, Vec<&Value>) = tried.iter().partition(|trial| trial["rounds"] == 2);
        assert_eq!((short.len(), full.len()), (7, 3), "the same for all: {method}");
        let score = |trial: &&&Value| trial["held_out_nll"].as_f64().unwrap();
        let best = full.iter().min_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
        let leader = short.iter().min_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
        assert!(full.iter().any(|trial| trial["values"] == leader["values"]), "the search's best: {method}");
        assert!(full.iter().any(|trial| trial["values"]["training.learning_rate"] == 1e-3), "the defaults");
        let config: toml::Table =
            scratch.text(&format!("c/{}-s2/config.toml", method["name"].as_str().unwrap())).parse().unwrap();
        for key in keys {
            let (section, name) = key.split_once('.').unwrap();
            assert_eq!(
                config[section][name].as_float(),
                method["tuned"][key].as_f64(),
                "{key} is not in the runs"
            );
        }
        assert_eq!(best["values"], method["tuned"]);
        // Runs learn from all their training data again.
        assert_eq!(config["validation"]["fraction"].as_float(), Some(0.0));
    }
    let before = files(&scratch, "c");
    scratch.succeeds(&compare(&["--tune", "--tune-rounds=1", "--quiet"]));
    assert_eq!(changed(&before, &files(&scratch, "c")), [""; 0], "trials are reused");
    // Without trials for all rounds the search decides: the second key is tried at the best first one, so its best trial.
    let found =
        scratch.succeeds(&compare(&["--tune", "--tune-rounds=1", "--tune-finalists=0", "--json", "--out=d"]));
    let found = found.json();
    assert!(found["tuning"]["finalists"].is_null());
    for method in found["methods"].as_array().unwrap() {
        let tried = method["trials"].as_array().unwrap();
        let score = |trial: &&Value| trial["held_out_nll"].as_f64().unwrap();
        let best = tried.iter().min_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
        assert_eq!((tried.len(), &best["values"]), (7, &method["tuned"]), "{method}");
    }
}

/// What was tried on one seed is reused, and the mean of all seeds decides.
#[test]
fn settings_are_tried_on_several_seeds() {
    let scratch = Scratch::new();
    let tune = |more: &[&'static str]| {
        let fixed = ["--tune", "--tune-rounds=1", "--tune-finalists=1", "--methods=fedavg", "--json"];
        scratch.succeeds(&compare(&[&fixed[..], more].concat())).json()
    };
    let trials = |found: &Value| found["methods"][0]["trials"].as_array().unwrap().clone();
    let alone = tune(&[]);
    assert!(alone["tuning"]["seeds"].is_null(), "one seed is not worth a word");
    let found = tune(&["--tune-seeds=3"]);
    assert_eq!((&found["tuning"]["seed"], &found["tuning"]["seeds"]), (&Value::from(1), &Value::from(3)));
    let all = trials(&found);
    let of_first: Vec<&Value> = all.iter().filter(|trial| trial["seed"].is_null()).collect();
    for trial in trials(&alone) {
        let same =
            of_first.iter().find(|other| ["values", "rounds"].iter().all(|key| other[key] == trial[key]));
        assert_eq!(same.map(|other| &other["held_out"]), Some(&trial["held_out"]), "{trial}");
    }
    let mut means: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trial in all.iter().filter(|trial| trial["rounds"] == 2) {
        means.entry(trial["values"].to_string()).or_default().push(trial["held_out_nll"].as_f64().unwrap());
    }
    // One seed may have had other finalists.
    means.retain(|_, scores| scores.len() == 3);
    assert_eq!(means.len(), 2, "the best of the search and the defaults, on every seed");
    assert!(means.values().all(|scores| scores.iter().any(|score| *score != scores[0])), "{means:?}");
    let sum = |scores: &[f64]| scores.iter().sum::<f64>();
    let best = means.iter().min_by(|a, b| sum(a.1).total_cmp(&sum(b.1))).unwrap();
    assert_eq!(*best.0, found["methods"][0]["tuned"].to_string());
    assert!(scratch.text("c/compare.toml").contains("tune_seeds = 3"));
    assert!(scratch.text("c/report.html").contains("seeds 1 to 3, whose mean counts"));
}

#[test]
fn a_run_that_fails_stops_no_other() {
    let scratch = Scratch::new();
    let ended = scratch.fedsi(&compare(&["--set", "tuning.learning_rate=1e38"]));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    for words in ["2 of 4 runs failed", "fedbabu seed 1", "not finite", "same command"] {
        assert!(last.contains(words), "no `{words}` in: {last}");
    }
    assert!(ended.stdout.contains("FedBABU (0 of 2 runs)"), "{}", ended.stdout);
    let found = scratch.json("c/compare.json");
    assert_eq!(found["methods"][1]["failures"].as_array().unwrap().len(), 2);
    assert_eq!(found["methods"][0]["metrics"]["accuracy"]["rank"], 1);
}

/// Five seeds have intervals and tests, against the method that is named; the same runs can be tested against another.
#[test]
fn five_seeds_are_tested_against_the_reference() {
    let scratch = Scratch::new();
    let five = |more: &[&'static str]| {
        [&["compare", "--methods=fedbabu,fedavg,local"][..], &SHORT, &["--json"], more].concat()
    };
    let found = scratch.succeeds(&five(&[])).json();
    assert_eq!((&found["reference"], found["seeds"].as_array().unwrap().len()), (&"local".into(), 5));
    let method = |found: &Value, name: &str| {
        found["methods"].as_array().unwrap().iter().find(|method| method["name"] == name).unwrap().clone()
    };
    let ends = |value: &Value| -> [f64; 2] { [0, 1].map(|end: usize| value[end].as_f64().unwrap()) };
    assert!(method(&found, "local")["metrics"]["nll"]["difference"].is_null());
    for key in ["accuracy", "ece", "brier", "nll", "aurc"] {
        let own = method(&found, "fedavg")["metrics"][key]["difference"].clone();
        let mean = own["mean"].as_f64().unwrap();
        for interval in [ends(&own["interval"]), ends(&own["bootstrap"])] {
            assert!(interval[0] <= mean && mean <= interval[1], "{key}: {own}");
        }
        let [p, corrected] = ["p", "p_holm"].map(|name| own[name].as_f64().unwrap());
        assert!(p <= corrected && corrected <= 2.0 * p, "{key}: {own}");
    }
    let ece = &method(&found, "fedavg")["metrics"]["ece"];
    let above = ece["mean"].as_f64().unwrap() - ece["floor"].as_f64().unwrap();
    assert!((ece["above_floor"]["mean"].as_f64().unwrap() - above).abs() < 1e-12, "{ece}");
    assert!(ece["above_floor"]["p_holm"].as_f64().is_some());

    let other = scratch.succeeds(&five(&["--reference=fedavg"])).json();
    let [there, back] = [(&found, "fedavg"), (&other, "local")]
        .map(|(found, name)| method(found, name)["metrics"]["nll"]["difference"]["mean"].as_f64().unwrap());
    assert!((there + back).abs() < 1e-12, "{there} and {back}");
    let page = scratch.text("c/report.html");
    for words in ["Differences from ", "differences-nll", "Holm", "best observed", "floor"] {
        assert!(page.contains(words), "no `{words}`");
    }
}

#[test]
fn formats() {
    let scratch = Scratch::new();
    let format = |name: &str| scratch.succeeds(&compare(&["--quiet", &format!("--format={name}")])).stdout;
    assert!(format("plain").starts_with("method "));
    assert!(format("markdown").starts_with("| method |"));
    assert!(format("latex").contains("\\bottomrule"));
    assert!(format("csv").starts_with("method,title,runs,accuracy_mean,accuracy_std,"));
    assert_eq!(scratch.succeeds(&compare(&["--quiet"])).stdout, "");
}

#[test]
fn bad_input() {
    let scratch = Scratch::new();
    scratch.write("notes/todo.txt", "mine");
    scratch.write("file", "mine");
    refuses(
        &scratch,
        &["compare", "--rounds=1"],
        &[
            (&["--methods", "fedavg,fedsy"], &["fedsy", "did you mean `fedsi`?"]),
            (&["--methods", "fedavg,fedsi,fedavg"], &["`fedavg` is listed twice", "--methods"]),
            (&["--methods", ""], &["--methods is empty"]),
            (&["--methods", "all,fedsi"], &["unknown method `all`"]),
            (&["--method", "fedsi"], &["--methods"]),
            (&["--set", "method=fedsi"], &["--methods"]),
            (&["--reference", "fedsy"], &["fedsy", "did you mean `fedsi`?"]),
            (
                &["--methods", "fedavg,local", "--reference", "fedsi"],
                &["the reference `fedsi` is not among the methods compared: local, fedavg", "--reference"],
            ),
            (&["--reference", ""], &["unknown method"]),
            (&["--seeds", "0"], &["--seeds 0", "at least 1"]),
            (&["--seeds", "-1"], &["--seeds", "-1"]),
            (&["--format", "html"], &["html", "--format"]),
            (&["--jobs", "x"], &["--jobs"]),
            (&["--tune", "--tune-rounds", "0"], &["--tune-rounds 0"]),
            (&["--tune-rounds", "3"], &["--tune-rounds", "give --tune too"]),
            (&["--tune-finalists", "3"], &["--tune-finalists", "give --tune too"]),
            (&["--tune", "--tune-finalists", "-1"], &["--tune-finalists", "-1"]),
            (&["--tune-seeds", "3"], &["--tune-seeds", "give --tune too"]),
            (&["--tune", "--tune-seeds", "0"], &["--tune-seeds 0", "at least 1 seed"]),
            (&["--tune", "--tune-seeds", "many"], &["--tune-seeds", "many"]),
            (&["--tune", "--tune-seeds", "9223372036854775807"], &["seeds", "at most 100000"]),
            (&["--seeds", "9223372036854775807"], &["seeds", "at most 100000"]),
            (&["--lr", "-1"], &["training.learning_rate"]),
            (&["--set", "rouns=3"], &["rouns", "did you mean `rounds`?"]),
            (&["--out", "notes"], &["notes holds `todo.txt`", "--out"]),
            (&["--out", "file"], &["file is not a folder"]),
            (
                &["--dataset", "mnist", "--data-dir", "nowhere", "--out", "a/b"],
                &["nowhere", "fedsi data fetch"],
            ),
            (&["--set", "partition.kind=natural"], &["partition.kind"]),
        ],
    );
}
