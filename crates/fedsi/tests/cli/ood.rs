//! `fedsi ood`: what models make of inputs unlike those they were trained on; and `strangeness` in predictions.

use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Ended, Scratch};

/// A quick run on the digits, made once.
fn digits() -> &'static Scratch {
    static RUN: OnceLock<Scratch> = OnceLock::new();
    RUN.get_or_init(|| {
        let scratch = Scratch::new();
        let small = ["--rounds", "3", "--clients", "3", "--participants", "3"];
        scratch.succeeds(&[&["run", "--out", "r", "--quiet"], &small[..]].concat());
        scratch
    })
}

fn run() -> String {
    digits().path("r").display().to_string()
}

/// A refusal: exit code 2, one line, nothing on stdout, and the words.
fn refused(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert_eq!((ended.stdout.as_str(), ended.stderr.lines().count()), ("", 1), "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "no `{word}` in {}", ended.stderr);
    }
}

fn sets(report: &Value) -> Vec<(&str, &Value)> {
    let sets = report["sets"].as_array().unwrap();
    sets.iter().map(|set| (set["inputs"].as_str().unwrap(), set)).collect()
}

#[test]
fn every_kind_of_strange_input_is_measured() {
    let scratch = Scratch::new();
    let ended = scratch.succeeds(&["ood", &run(), "--samples", "40", "--out", "o.json", "--json"]);
    let report = ended.json();
    assert_eq!(report, scratch.json("o.json"), "the file has what is printed");
    assert_eq!((report["clients"].as_u64(), report["samples_a_client"].as_u64()), (Some(3), Some(40)));
    let sets = sets(&report);
    let names: Vec<&str> = sets.iter().map(|(name, _)| *name).collect();
    let mut expected = vec!["own test samples".to_owned(), "unseen classes".to_owned()];
    for kind in ["rotation", "shift", "blur", "noise", "occlusion"] {
        expected.extend((1..=5).map(|strength| format!("{kind} {strength}")));
    }
    assert_eq!(names, expected, "no other dataset of this shape is there");
    for (name, set) in &sets {
        let number = |key: &str| set[key].as_f64();
        // Another client gives at most half of what is wanted, and clients 0 and 2 have but one that has other classes.
        assert_eq!(set["samples"], if *name == "unseen classes" { 80 } else { 120 }, "{name}");
        assert!(number("entropy").unwrap() >= 0.0 && number("strangeness").is_some(), "{name}: {set}");
        assert_eq!(number("accuracy").is_none(), *name == "unseen classes", "{name}: {set}");
        assert_eq!(number("auroc_strangeness").is_none(), *name == "own test samples", "{name}: {set}");
        assert_eq!(number("auroc_entropy").is_none(), *name == "own test samples", "{name}: {set}");
    }
    let area = |wanted: &str| {
        sets.iter().find(|(name, _)| *name == wanted).unwrap().1["auroc_strangeness"].as_f64().unwrap()
    };
    for strongest in ["blur 5", "noise 5", "occlusion 5", "shift 5"] {
        assert!(area(strongest) > 0.8, "{strongest}: {}", area(strongest));
    }
    let again = scratch.succeeds(&["ood", &run(), "--samples", "40", "--out", "o.json", "--json"]);
    assert_eq!(again.stdout, ended.stdout, "repeatable, and its own file is replaced");
    let shown = scratch.succeeds(&["ood", &run(), "--samples", "40", "--out", "o.json"]).stdout;
    assert!(
        shown.starts_with("inputs") && shown.contains("unseen classes") && shown.contains("file: o.json"),
        "{shown}"
    );
}

#[test]
fn the_report_belongs_to_the_run() {
    let scratch = Scratch::new();
    let settings = ["--rounds", "1", "--clients", "2", "--participants", "2", "--out", "r", "--quiet"];
    scratch.succeeds(&[&["run"], &settings[..]].concat());
    let model = scratch.bytes("r/clients/0.safetensors");
    let quiet = scratch.succeeds(&["ood", "r", "--samples", "5", "--quiet"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    assert_eq!(scratch.json("r/ood.json")["format"], "fedsi-ood-1");
    assert_eq!(model, scratch.bytes("r/clients/0.safetensors"));
    // What belongs to the run goes with it.
    scratch.succeeds(&["report", "r"]);
    scratch.succeeds(&[&["run", "--force"], &settings[..]].concat());
    assert!(!scratch.path("r/ood.json").exists());
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let scratch = Scratch::new();
    let run = run();
    let ask = |more: &[&str]| scratch.fedsi(&[&["ood", &run, "--out", "o.json"], more].concat());
    refused(
        &ask(&["--against", "cifar-10"]),
        &["cifar-10", "[3, 32, 32]", "[1, 28, 28]", "mnist, fashion-mnist"],
    );
    refused(&ask(&["--against", "digits"]), &["--against digits", "own dataset"]);
    refused(&ask(&["--against", "minst"]), &["--against", "minst", "mnist"]);
    refused(&ask(&["--against", "mnist", "--data-dir", "nowhere"]), &["nowhere", "fedsi data fetch mnist"]);
    refused(&ask(&["--samples", "0"]), &["--samples 0"]);
    refused(&scratch.fedsi(&["ood", "nowhere"]), &["nowhere", "not a run"]);
    scratch.write("mine.json", "{\"a\": 1}");
    refused(&scratch.fedsi(&["ood", &run, "--out", "mine.json"]), &["mine.json", "did not write it"]);
    assert_eq!(scratch.text("mine.json"), "{\"a\": 1}");
    assert!(!scratch.path("o.json").exists());
}

/// A run of a table: `b` is the target's column.
fn table(scratch: &Scratch, task: &str, target: fn(u32) -> String) {
    let row = |row: u32| format!("{},{},{}\n", row % 9, row * 7 % 11, target(row));
    scratch.write("t.csv", "x,y,b\n".to_owned() + &(0..120).map(row).collect::<String>());
    let task = format!("data.files.task={task}");
    let settings = ["data.dataset=files", "data.files.train=t.csv", "data.files.target=b", &task];
    let mut all = vec!["run", "--rounds", "2", "--clients", "2", "--out", "r", "--quiet"];
    all.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    scratch.succeeds(&all);
}

#[test]
fn tables_have_no_pictures_and_regressions_no_right_answers() {
    let scratch = Scratch::new();
    table(&scratch, "regression", |row| row.to_string());
    refused(&scratch.fedsi(&["ood", "r"]), &["predicts values", "fedsi predict"]);
    let scratch = Scratch::new();
    table(&scratch, "classification", |row| if row % 2 == 0 { "even".to_owned() } else { "odd".to_owned() });
    let report = scratch.succeeds(&["ood", "r", "--json"]).json();
    let names: Vec<&str> = sets(&report).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["own test samples"], "nothing to turn, and every client has both classes");
    // The data is needed, as it was.
    scratch.write("t.csv", "x,y,b\n".to_owned() + &"1,2,even\n3,4,odd\n".repeat(60));
    refused(&scratch.fedsi(&["ood", "r"]), &["changed since it began", "t.csv"]);
    std::fs::remove_file(scratch.path("t.csv")).unwrap();
    refused(&scratch.fedsi(&["ood", "r"]), &["t.csv"]);
}

#[test]
fn predictions_say_how_strange_inputs_are_and_may_abstain_on_them() {
    let scratch = Scratch::new();
    // A grey square, as unlike a digit as can be, and a black one.
    let header = (0..784).map(|at| format!("x{at}")).collect::<Vec<_>>().join(",");
    let row = |shade: u8| vec![shade.to_string(); 784].join(",");
    scratch.write("x.csv", format!("{header}\n{}\n{}\n", row(128), row(0)));
    let run = run();
    let ask = |more: &[&str]| {
        scratch.fedsi(
            &[&["predict", "--run", &run, "--client", "0", "--input", "x.csv", "--json"], more].concat(),
        )
    };
    let plain = ask(&[]).json();
    let strangeness = |row: usize| plain["rows"][row]["strangeness"].as_f64().unwrap();
    assert!(strangeness(0) > 5.0, "{}", strangeness(0));
    let default = ask(&[]).json();
    for row in 0..2 {
        assert_eq!(default["rows"][row]["abstain"], strangeness(row) > 6.0, "{default}");
    }
    let most = ((strangeness(0) + strangeness(1)) / 2.0).to_string();
    let bounded = ask(&["--max-strangeness", &most]).json();
    let stranger = usize::from(strangeness(1) > strangeness(0));
    for row in 0..2 {
        assert_eq!(bounded["rows"][row]["abstain"], row == stranger, "{bounded}");
        let reason = bounded["rows"][row]["reason"].as_str().unwrap();
        assert_eq!(reason.starts_with("strangeness "), row == stranger, "{bounded}");
    }
    // With a goal that lets nothing through, both reasons are said.
    let none = ask(&["--coverage", "0.0001", "--max-strangeness", "-100"]).json();
    let reason = none["rows"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("above -100; uncertain: probability"), "{none}");
    refused(&ask(&["--max-strangeness", "NaN"]), &["--max-strangeness", "finite"]);
}
