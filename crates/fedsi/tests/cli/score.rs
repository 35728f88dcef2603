//! `fedsi score`: rows whose labels came later, and whether they have drifted.

use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Ended, Numbers, Scratch};

/// A run on a table of two sites, made once: nobody writes into it.
fn clinic() -> &'static Scratch {
    static RUN: OnceLock<Scratch> = OnceLock::new();
    RUN.get_or_init(|| {
        let scratch = Scratch::new();
        scratch.write("t.csv", rows(1, 600, 0.0));
        let set = [
            "data.dataset=files",
            "data.files.train=t.csv",
            "data.files.client=site",
            "data.files.target=outcome",
        ];
        let mut all = vec!["run", "--rounds", "6", "--out", "r", "--quiet"];
        all.extend(set.iter().flat_map(|setting| ["--set", setting]));
        scratch.succeeds(&all);
        scratch
    })
}

/// Two numbers around 0, the class by their sum with some noise. `shift` is added to the first.
fn rows(seed: u64, count: usize, shift: f64) -> String {
    let mut numbers = Numbers::new(seed);
    let mut text = "x,y,site,outcome\n".to_owned();
    for row in 0..count {
        let (x, y) = (numbers.next() + shift, numbers.next());
        let outcome = if x + y + 0.3 * numbers.next() > 0.0 { "high" } else { "low" };
        writeln!(text, "{x:.4},{y:.4},{},{outcome}", ["north", "south"][row % 2]).unwrap();
    }
    text
}

fn score(scratch: &Scratch, more: &[&str]) -> Ended {
    let run = clinic().path("r").display().to_string();
    scratch.fedsi(&[&["score", "--run", &run, "--input", "x.csv"], more].concat())
}

fn figure<'a>(found: &'a Value, key: &str) -> &'a Value {
    found["figures"].as_array().unwrap().iter().find(|one| one["figure"] == key).unwrap()
}

#[test]
fn rows_like_the_runs_are_as_good_and_have_not_drifted() {
    let scratch = Scratch::new();
    scratch.write("x.csv", rows(7, 200, 0.0));
    let ended = score(&scratch, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    for words in ["200 rows", "abstained", "accuracy", "no drift seen in 200 rows", "precision", "recall"] {
        assert!(ended.stdout.contains(words), "no {words} in {}", ended.stdout);
    }
    let found = score(&scratch, &["--json"]).json();
    assert_eq!(
        (&found["rows"], &found["drifted"], &found["same_clients"]),
        (&200.into(), &false.into(), &true.into())
    );
    let accuracy = figure(&found, "accuracy");
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap();
    assert!(number(&accuracy["new"], "low") < number(&accuracy["new"], "value"));
    assert!((number(&found, "accuracy") - number(&accuracy["new"], "value")).abs() < 1e-12);
    // The same rows as `predict` answers them.
    let run = clinic().path("r").display().to_string();
    let predicted = scratch.succeeds(&["predict", "--run", &run, "--input", "x.csv"]).stdout;
    let header: Vec<&str> = predicted.lines().next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|cell| *cell == name).unwrap();
    let (truth, class, abstain) = (at("outcome"), at("class"), at("abstain"));
    let cells: Vec<Vec<&str>> = predicted.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let right = cells.iter().filter(|row| row[truth] == row[class]).count();
    assert!((right as f64 / 200.0 - number(&found, "accuracy")).abs() < 1e-12);
    let abstained = cells.iter().filter(|row| row[abstain] == "true").count();
    assert_eq!(found["abstained"], abstained);
    assert_eq!(score(&scratch, &["--json"]).json(), found, "the same draws");
}

#[test]
fn rows_that_moved_are_told() {
    let scratch = Scratch::new();
    scratch.write("x.csv", rows(8, 150, 1.2));
    let found = score(&scratch, &["--json"]).json();
    assert_eq!(found["drifted"], true, "{found}");
    let drifted: Vec<&str> = found["drift"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|test| test["adjusted_p"].as_f64().unwrap() < 0.05)
        .map(|test| test["of"].as_str().unwrap())
        .collect();
    assert!(drifted.contains(&"x") && drifted.contains(&"classes") && !drifted.contains(&"y"), "{drifted:?}");
    let text = score(&scratch, &[]).stdout;
    assert!(text.contains("drifted: x: ") && text.contains("below the training rows' and"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn labels_that_turned_are_told_as_worse() {
    let scratch = Scratch::new();
    let turned = rows(9, 120, 0.0).replace(",high", ",x").replace(",low", ",high").replace(",x\n", ",low\n");
    scratch.write("x.csv", turned);
    let ended = score(&scratch, &["--client", "north"]);
    assert!(ended.stdout.contains("accuracy is worse than on the run's test rows"), "{}", ended.stdout);
}

/// Ten rows, each with the class that is predicted: nothing is said to be better.
#[test]
fn ten_of_ten_right_say_nothing() {
    let scratch = Scratch::new();
    scratch.write("x.csv", rows(11, 10, 0.0));
    let run = clinic().path("r").display().to_string();
    let predicted = scratch.succeeds(&["predict", "--run", &run, "--input", "x.csv"]).stdout;
    let header: Vec<&str> = predicted.lines().next().unwrap().split(',').collect();
    let class = header.iter().position(|cell| *cell == "class").unwrap();
    let mut text = "x,y,site,outcome\n".to_owned();
    for line in predicted.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        writeln!(text, "{},{}", cells[..3].join(","), cells[class]).unwrap();
    }
    scratch.write("x.csv", text);
    let found = score(&scratch, &["--json"]).json();
    let accuracy = figure(&found, "accuracy");
    assert_eq!(accuracy["new"]["value"], 1.0);
    assert!(accuracy["new"]["low"].as_f64().unwrap() < 0.8, "{accuracy}");
    let text = score(&scratch, &[]).stdout;
    assert!(text.contains("as good as") && !text.contains("is better than"), "{text}");
    assert!(figure(&found, "ece")["difference"].is_null() && figure(&found, "aurc")["difference"].is_null());
}

/// The south never measures z, and sends most of the new rows: its values are as missing as ever. When the north stops
/// measuring, that is drift. New wards are told.
#[test]
fn a_client_is_compared_with_its_own_rows() {
    let scratch = Scratch::new();
    let table = |seed: u64, sites: &[&str], measured: bool, ward: &str| {
        let mut numbers = Numbers::new(seed);
        let mut text = "x,z,ward,site,outcome\n".to_owned();
        for row in 0..sites.len() * 60 {
            let (x, z, site) = (numbers.next(), numbers.next(), sites[row % sites.len()]);
            let z = if site == "north" && measured { format!("{z:.4}") } else { String::new() };
            let outcome = if x > 0.0 { "high" } else { "low" };
            let ward = if row % 3 == 0 { ward } else { "a" };
            writeln!(text, "{x:.4},{z},{ward},{site},{outcome}").unwrap();
        }
        text
    };
    scratch.write("t.csv", table(1, &["north", "south", "north", "south", "north", "south"], true, "b"));
    let set = [
        "data.dataset=files",
        "data.files.train=t.csv",
        "data.files.client=site",
        "data.files.target=outcome",
    ];
    let mut all = vec!["run", "--rounds", "3", "--out", "r", "--quiet"];
    all.extend(set.iter().flat_map(|setting| ["--set", setting]));
    scratch.succeeds(&all);
    let score = |text: String| {
        scratch.write("x.csv", text);
        scratch.succeeds(&["score", "--run", "r", "--input", "x.csv", "--json"]).json()
    };
    let adjusted = |found: &Value, what: &str| {
        let tests = found["drift"].as_array().unwrap();
        let test = tests.iter().find(|test| test["of"] == "z" && test["what"] == what).unwrap();
        test["adjusted_p"].as_f64().unwrap()
    };
    let found = score(table(2, &["north", "south", "south", "south"], true, "c"));
    assert_eq!(adjusted(&found, "missing values"), 1.0, "{found}");
    let notes = found["notes"].as_array().unwrap();
    let told = |note: &&Value| note["of"] == "ward" && note["found"].as_str().unwrap().contains("categories");
    assert!(notes.iter().any(|note| told(&note)), "{found}");
    assert!(
        !found["drift"]
            .as_array()
            .unwrap()
            .iter()
            .any(|test| { test["of"] == "ward" && test["what"] != "missing values" })
    );
    let found = score(table(3, &["north", "south", "south", "south"], false, "a"));
    assert!(adjusted(&found, "missing values") < 1e-6 && found["drifted"] == true, "{found}");
}

/// A row that no network can take is counted, named and left out.
#[test]
fn rows_without_a_prediction_are_left_out() {
    let scratch = Scratch::new();
    let mut text = rows(12, 40, 0.0);
    text.push_str("1e300,-1e300,north,low\n");
    scratch.write("x.csv", text);
    let found = score(&scratch, &["--json"]).json();
    assert_eq!(
        (&found["rows"], &found["without_prediction"]),
        (&40.into(), &serde_json::json!([41])),
        "{found}"
    );
    let text = score(&scratch, &[]).stdout;
    assert!(text.contains("1 row that has no finite prediction, left out of figures: row 41"), "{text}");
}

#[test]
fn figures_are_written_and_bad_input_is_refused() {
    let scratch = Scratch::new();
    scratch.write("x.csv", rows(7, 40, 0.0));
    scratch.write("mine.json", "{\"mine\": 1}");
    for _ in 0..2 {
        assert_eq!(score(&scratch, &["--out", "s.json"]).code, Some(0), "its own file is replaced");
    }
    assert_eq!(scratch.json("s.json")["rows"], 40);
    let refused = |ended: &Ended, words: &[&str]| {
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        words.iter().for_each(|word| assert!(ended.stderr.contains(word), "no {word} in {}", ended.stderr));
    };
    refused(&score(&scratch, &["--out", "mine.json"]), &["mine.json", "--force"]);
    refused(&score(&scratch, &["--out", "x.csv"]), &["the same file as x.csv"]);
    refused(&score(&scratch, &["--client", "nort"]), &["unknown client `nort` (did you mean `north`?)"]);
    scratch.write("x.csv", "x,y,site\n1,2,north\n");
    refused(&score(&scratch, &[]), &["x.csv", "outcome"]);
    scratch.write("x.csv", "x,y,outcome\n0.1,0.2,low\n");
    refused(&score(&scratch, &[]), &["no client column \"site\"", "--client", "--model"]);
    let run = clinic().path("r").display().to_string();
    scratch.write("half/config.toml", clinic().bytes("r/config.toml"));
    refused(&scratch.fedsi(&["score", "--run", "half", "--input", "x.csv"]), &["fedsi resume half"]);
    refused(&scratch.fedsi(&["score", "--run", &run, "--input", "none.csv"]), &["none.csv"]);
}

#[test]
fn values_are_scored() {
    let scratch = Scratch::new();
    let table = |seed: u64, count: usize| {
        let mut numbers = Numbers::new(seed);
        let mut text = "a,b,days\n".to_owned();
        for _ in 0..count {
            let (a, b) = (numbers.next(), numbers.next());
            writeln!(text, "{a:.4},{b:.4},{:.3}", 100.0 + 30.0 * a - 20.0 * b + numbers.next()).unwrap();
        }
        text
    };
    scratch.write("t.csv", table(1, 240));
    scratch.write("x.csv", table(2, 80));
    let set = [
        "data.dataset=files",
        "data.files.train=t.csv",
        "data.files.target=days",
        "data.files.task=regression",
    ];
    let mut all = vec!["run", "--rounds", "8", "--clients", "2", "--out", "r", "--quiet"];
    all.extend(set.iter().flat_map(|setting| ["--set", setting]));
    scratch.succeeds(&all);
    let ended = scratch.succeeds(&["score", "--run", "r", "--input", "x.csv", "--client", "0"]);
    for words in ["RMSE", "MAE", "in 95%", "80 rows"] {
        assert!(ended.stdout.contains(words), "no {words} in {}", ended.stdout);
    }
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
}
