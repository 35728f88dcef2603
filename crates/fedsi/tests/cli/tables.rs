//! Tables as people have them, from the file to a run: what is used, what is left out, who is tested, what is exported.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use crate::support::{Ended, Numbers, Scratch, arrays};

const HOSPITALS: [&str; 5] = ["north", "south", "east", "west", "centre"];

/// Patients of five hospitals with one or two visits each: numbers, categories, booleans, dates, missing values, an id, notes,
/// a rare class.
fn hospital_table(patients: usize) -> String {
    let mut text =
        "patient_id,visit,hospital,age,lactate,ward,smoker,admitted,notes,unit,outcome\n".to_owned();
    let mut numbers = Numbers::new(5);
    let mut visit = 0;
    for patient in 0..patients {
        for _ in 0..=patient % 2 {
            let (age, lactate) = (55.0 + 30.0 * numbers.next(), 4.0 + 3.5 * numbers.next());
            let risk = (age - 55.0) / 30.0 + (lactate - 4.0) / 3.5 + 0.3 * numbers.next();
            let ward = ["icu", "er", "surgery", ""][visit * 7 % 4];
            let lactate = if visit % 11 == 3 { "NA".to_owned() } else { format!("{lactate:.2}") };
            let lactate = if visit == 20 { "high".to_owned() } else { lactate };
            let outcome = if risk > 1.1 { "died" } else { "home" };
            let outcome = if visit == 30 { "" } else { outcome };
            writeln!(
                text,
                "{},v{visit:05},{},{age:.1},{lactate},{ward},{},2023-{:02}-{:02},\"came in with pain, sent on, number \
                 {visit} of the year\",mmol,{outcome}",
                1000 + patient,
                HOSPITALS[patient % 5],
                ["yes", "no"][visit % 2],
                1 + visit * 12 / (2 * patients),
                1 + visit % 28,
            )
            .unwrap();
            visit += 1;
        }
    }
    text
}

fn set<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    settings.iter().flat_map(|&setting| ["--set", setting]).collect()
}

const HOSPITAL: [&str; 4] = [
    "data.files.train=hospital.csv",
    "data.files.target=outcome",
    "data.files.client=hospital",
    "data.files.id=visit",
];

fn ends_badly(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let first = ended.stderr.lines().next().unwrap_or_default();
    for part in parts {
        assert!(first.contains(part), "`{part}` is not in: {first}");
    }
}

#[test]
fn a_hospitals_table_runs_and_says_what_it_uses() {
    let scratch = Scratch::new();
    scratch.write("hospital.csv", hospital_table(200));
    let run = [&["run", "--dataset", "files", "--rounds", "3"][..], &set(&HOSPITAL)].concat();
    let ended = scratch.succeeds(&[&run[..], &["--out", "r"]].concat());
    let shown = &ended.stderr;
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for part in [
        "hospital.csv: ",
        "target outcome, client hospital, id visit",
        "3 categories + missing",
        "standardised, missing: median, marked",
        "days, standardised",
        "0 or 1",
        "left out: patient_id, looks like an identifier",
        "left out: notes, looks like an identifier or free text",
        "partition.group=patient_id",
        "unit has the same value in every training row",
        "1 row is left out, no target",
        "lactate: 1 cell is no number",
        "hospital.csv, line 22, column lactate: \"high\"",
    ] {
        assert!(shown.replace("\n    ", " ").contains(part), "`{part}` is not in:\n{shown}");
    }
    assert!(ended.stdout.contains("on hospital, seed 1"), "{}", ended.stdout);
    let quiet = scratch.succeeds(&[&run[..], &["--out", "q", "-q"]].concat());
    assert!(!quiet.stderr.contains("encoded as"), "{}", quiet.stderr);
    assert_eq!(scratch.json("r/summary.json")["dataset"], "hospital");
}

#[test]
fn a_list_shows_the_same_without_a_run() {
    let scratch = Scratch::new();
    scratch.write("hospital.csv", hospital_table(200));
    let list = [&["data", "list", "--dataset", "files"][..], &set(&HOSPITAL)].concat();
    let shown = scratch.succeeds(&list).stdout;
    assert!(shown.contains("encoded as") && shown.contains("samples are train/test"), "{shown}");
    let found = scratch.succeeds(&[&list[..], &["--json"]].concat()).json();
    let columns: Vec<&str> = found["table"]["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["age", "lactate", "ward", "smoker", "admitted", "unit"]);
    assert_eq!(found["table"]["columns"][1]["kind"], "number");
    assert_eq!(found["table"]["first_bad_cells"][0]["line"], 22);
    let fewer =
        [&list[..], &set(&["data.files.ignore=unit,admitted", "data.files.columns=age, ward,smoker"])]
            .concat();
    ends_badly(
        &scratch.fedsi(&[&list[..], &set(&["data.files.ignore=unt"])].concat()),
        &["\"unt\"", "did you mean \"unit\"?"],
    );
    let found = scratch.succeeds(&[&fewer[..], &["--json"]].concat()).json();
    assert_eq!(found["table"]["columns"].as_array().unwrap().len(), 3);
}

#[test]
fn exported_rows_are_those_that_are_tested() {
    let scratch = Scratch::new();
    scratch.write("hospital.csv", hospital_table(150));
    let settings = [&set(&HOSPITAL)[..], &set(&["partition.group=patient_id"])].concat();
    scratch.succeeds(&[&["data", "export", "--dataset", "files", "--out", "x"][..], &settings].concat());
    scratch.succeeds(
        &[&["run", "--dataset", "files", "--rounds", "1", "--out", "r", "-q"][..], &settings].concat(),
    );
    let predictions = arrays(&scratch.bytes("r/predictions.safetensors"));
    let test = arrays(&scratch.bytes("x/test.safetensors"));
    assert_eq!(test["labels"].2, predictions["labels"].2, "in the order of predictions");
    assert_eq!(test["client"].2, predictions["client"].2);
    let read = |name: &str| -> Vec<HashMap<String, String>> {
        let text = scratch.text(name);
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let header = lines.next().unwrap();
        lines.map(|cells| header.iter().cloned().zip(cells).collect()).collect()
    };
    let (train, tested) = (read("x/train.csv"), read("x/test.csv"));
    assert_eq!(tested.len(), test["labels"].2.len());
    for key in ["client", "row", "id", "outcome", "age", "lactate", "ward"] {
        assert!(tested[0].contains_key(key), "{:?}", tested[0]);
    }
    // The id says which row of the file it is; no patient is on both sides.
    let file = hospital_table(150);
    let row_of: HashMap<&str, &str> =
        file.lines().skip(1).map(|line| (line.split(',').nth(1).unwrap(), line)).collect();
    let patients = |rows: &[HashMap<String, String>]| -> HashSet<String> {
        rows.iter().map(|row| row_of[row["id"].as_str()].split(',').next().unwrap().to_owned()).collect()
    };
    assert!(patients(&train).is_disjoint(&patients(&tested)), "a patient is trained on and tested");
    for row in &tested {
        let cells: Vec<&str> = row_of[row["id"].as_str()].split(',').collect();
        assert_eq!([&row["client"], &row["age"]], [cells[2], cells[3]]);
        assert!(cells.contains(&row["outcome"].as_str()));
    }
    let readme = scratch.text("x/README.txt");
    assert!(readme.contains("died, home") && readme.contains("fedsi compare --with"), "{readme}");
    let again =
        scratch.fedsi(&[&["data", "export", "--dataset", "files", "--out", "x"][..], &settings].concat());
    ends_badly(&again, &["--out x", "no empty folder"]);
    scratch.succeeds(&["data", "export", "--clients", "2", "--out", "digits"]);
    assert_eq!(arrays(&scratch.bytes("digits/test.safetensors"))["inputs"].1[1..], [1, 28, 28]);
    assert!(!scratch.path("digits/test.csv").exists(), "images are no table");
}

#[test]
fn what_cannot_be_used_is_asked_about_or_refused() {
    let scratch = Scratch::new();
    scratch.write("hospital.csv", hospital_table(60));
    let run = [&["run", "--dataset", "files", "--rounds", "1", "--out", "r"][..], &set(&HOSPITAL)].concat();
    let with = |settings: &[&str]| scratch.fedsi(&[&run[..], &set(settings)].concat());
    ends_badly(
        &with(&["data.files.target=age"]),
        &["different numbers", "task=regression", "data.files.classes"],
    );
    ends_badly(&with(&["partition.kind=dirchlet"]), &["partition.kind", "did you mean `dirichlet`?"]);
    ends_badly(&with(&["data.files.task=regresion"]), &["data.files.task", "did you mean `regression`?"]);
    ends_badly(&with(&["partition.time=admited"]), &["\"admited\"", "did you mean \"admitted\"?"]);
    ends_badly(&with(&["data.files.strict=true"]), &["line", "column", "data.files.strict=false"]);
    ends_badly(&with(&["data.files.task=regression"]), &["\"outcome\"", "data.files.target"]);
    assert!(!scratch.path("r").exists(), "nothing half-written");
    let private = [
        "privacy.noise=1",
        "privacy.clip=1",
        "data.files.standardize=false",
        "data.files.classes=died,home",
        "method=fedavg",
    ];
    ends_badly(&with(&private), &["privacy.noise", "categories", "data.files.strict=true"]);
    let newest = with(&["partition.time=admitted"]);
    assert_eq!(newest.code, Some(0), "{}", newest.stderr);
}

#[test]
fn semicolons_and_decimal_commas_are_read() {
    let scratch = Scratch::new();
    let mut numbers = Numbers::new(9);
    let mut text = "\u{feff}weight;height;site;sick\r\n".to_owned();
    for row in 0..120 {
        let (weight, height) = (70.0 + 20.0 * numbers.next(), 1.7 + 0.2 * numbers.next());
        let cells = format!("{weight:.1};{height:.2}").replace('.', ",");
        let sick = if weight > 70.0 + numbers.next() { "yes" } else { "no" };
        write!(text, "{cells};{};{sick}\r\n", ["a", "b"][row % 2]).unwrap();
    }
    scratch.write("t.csv", text);
    let settings = set(&["data.files.train=t.csv", "data.files.target=sick"]);
    let ended = scratch.succeeds(
        &[
            &["run", "--dataset", "files", "--rounds", "10", "--clients", "3", "--out", "r", "--json"][..],
            &settings,
        ]
        .concat(),
    );
    assert!(ended.json()["accuracy"].as_f64().unwrap() > 0.8, "{}", ended.stdout);
    assert!(ended.stderr.contains("decimal commas"), "{}", ended.stderr);
    assert!(ended.stderr.replace("\n    ", " ").contains("set data.files.client=site"), "{}", ended.stderr);
}
