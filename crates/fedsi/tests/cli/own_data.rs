//! People's own files, from a table or an array to scores.

use std::fmt::Write as _;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;

use crate::support::{Numbers, Scratch, arrays};

const SITES: [&str; 3] = ["oslo", "bergen", "<b>tromsø</b>"];

/// Two features, a site, a class that the features tell, a value that is theirs but for some noise.
struct Row {
    features: [f64; 2],
    site: usize,
    sick: bool,
    value: f64,
}

fn rows(seed: u64, count: usize) -> Vec<Row> {
    let mut numbers = Numbers::new(seed);
    let row = |at: usize| {
        let features = [20.0 + 5.0 * numbers.next(), 0.01 * numbers.next()];
        let (a, b) = ((features[0] - 20.0) / 5.0, features[1] / 0.01);
        Row { features, site: at % 3, sick: a + b > 0.0, value: 100.0 + 30.0 * a - 20.0 * b + numbers.next() }
    };
    (0..count).map(row).collect()
}

fn table(rows: &[Row]) -> String {
    let mut text = "age,dose,site,outcome,days\n".to_owned();
    for Row { features: [age, dose], site, sick, value } in rows {
        let outcome = if *sick { "sick" } else { "well" };
        writeln!(text, "{age},{dose},{},{outcome},{value}", SITES[*site]).unwrap();
    }
    text
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("`{key}` is no number in {value}"))
}

/// Settings for a table without one of its two target columns.
fn settings<'a>(target: &'a str, task: &'a str) -> Vec<String> {
    ["data.dataset=files", "data.files.name=clinic", "data.files.train=t.csv", "data.files.client=site"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("data.files.target={target}"), format!("data.files.task={task}")])
        .flat_map(|setting| ["--set".to_owned(), setting])
        .collect()
}

fn run(scratch: &Scratch, settings: &[String], more: &[&str]) -> Value {
    let settings = settings.iter().map(String::as_str);
    let all: Vec<&str> = ["run", "--json"].into_iter().chain(settings).chain(more.iter().copied()).collect();
    scratch.succeeds(&all).json()
}

/// The table without one column.
fn without(text: &str, column: usize) -> String {
    let keep = |line: &str| {
        let cells = line.split(',').enumerate().filter(|(at, _)| *at != column);
        cells.map(|(_, cell)| cell).collect::<Vec<_>>().join(",") + "\n"
    };
    text.lines().map(keep).collect()
}

#[test]
fn a_table_with_a_client_column_is_learned_by_its_own_clients() {
    let scratch = Scratch::new();
    scratch.write("t.csv", without(&table(&rows(1, 300)), 4));
    let summary = run(&scratch, &settings("outcome", "classification"), &["--rounds", "10", "--out", "r"]);
    assert_eq!(summary["dataset"], "clinic");
    assert!(number(&summary, "accuracy") > 0.85, "{}", summary["accuracy"]);
    let clients = summary["clients"].as_array().unwrap();
    let names: Vec<&str> = clients.iter().map(|client| client["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["<b>tromsø</b>", "bergen", "oslo"], "natural clients in the order of their names");
    assert_eq!(clients[0]["id"], 0);
    assert!(clients.iter().all(|client| client["samples"] == 20), "a fifth of 100 rows each: {clients:?}");
    assert!(scratch.path("r/clients/2.safetensors").is_file());
    let page = scratch.text("r/report.html");
    assert!(!page.contains("<b>tromsø"), "a client's name is not escaped in the report");
    assert!(page.contains("tromsø"));
    let shapes = arrays(&scratch.bytes("r/predictions.safetensors"));
    assert_eq!(shapes["probabilities"].1, [60, 2]);
}

#[test]
fn a_regression_ends_in_errors_likelihood_and_coverage() {
    let scratch = Scratch::new();
    scratch.write("t.csv", without(&table(&rows(2, 300)), 3));
    let settings = settings("days", "regression");
    let summary = run(&scratch, &settings, &["--rounds", "20", "--out", "r", "--method", "fedavg-ft"]);
    let arrays = arrays(&scratch.bytes("r/predictions.safetensors"));
    let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
    assert_eq!(names, ["client", "mean", "targets", "variance"]);
    for name in ["mean", "targets", "variance"] {
        assert_eq!((arrays[name].0, &arrays[name].1[..]), (Dtype::F64, &[60, 1][..]), "{name}");
    }
    assert_eq!((arrays["client"].0, &arrays["client"].1[..]), (Dtype::I64, &[60][..]));
    assert!(arrays["variance"].2.iter().all(|&variance| variance > 0.0), "a variance that is not above 0");

    let (targets, mean) = (&arrays["targets"].2, &arrays["mean"].2);
    let centre = targets.iter().sum::<f64>() / 60.0;
    let spread = (targets.iter().map(|target| (target - centre).powi(2)).sum::<f64>() / 60.0).sqrt();
    let error =
        (mean.iter().zip(targets).map(|(mean, target)| (mean - target).powi(2)).sum::<f64>() / 60.0).sqrt();
    assert!((80.0..120.0).contains(&centre), "targets are not in the data's own units: mean {centre}");
    let rmse = number(&summary, "rmse");
    assert!(rmse < 0.25 * spread, "rmse {rmse} where the targets spread by {spread}");
    // The mean over three clients of equal size is at most the pooled figure.
    assert!(rmse <= error + 1e-6 && rmse > 0.8 * error, "rmse {rmse}, from the predictions {error}");
    for key in ["mae", "nll", "coverage_50", "coverage_80", "coverage_90", "coverage_95"] {
        assert!(number(&summary, key).is_finite(), "{key}");
    }
    let coverage = number(&summary, "coverage_90");
    assert!((0.6..=1.0).contains(&coverage), "{coverage} of targets in their 90% intervals");
    assert!(number(&summary, "coverage_50") <= coverage);
    assert!(summary.get("accuracy").is_none(), "a regression has no accuracy");
}

#[test]
fn the_report_of_a_regression_shows_its_scores() {
    let scratch = Scratch::new();
    scratch.write("t.csv", without(&table(&rows(2, 60)), 3));
    run(&scratch, &settings("days", "regression"), &["--rounds", "1", "--out", "r"]);
    let page = scratch.text("r/report.html");
    assert!(page.contains("RMSE"), "no RMSE in the report");
    assert!(!page.contains("accuracy"), "a regression has no accuracy");
}

#[test]
fn several_columns_are_predicted_together() {
    let scratch = Scratch::new();
    let mut text = "x,sum,difference\n".to_owned();
    let mut numbers = Numbers::new(3);
    for _ in 0..120 {
        let x = numbers.next();
        writeln!(text, "{x},{},{}", 1.0 + x, 1.0 - x).unwrap();
    }
    scratch.write("t.csv", text);
    scratch.succeeds(&[
        "run",
        "--dataset",
        "files",
        "--clients",
        "2",
        "--rounds",
        "2",
        "--out",
        "r",
        "--set",
        "data.files.train=t.csv",
        "--set",
        "data.files.target=sum, difference",
        "--set",
        "data.files.task=regression",
        "--quiet",
    ]);
    assert_eq!(arrays(&scratch.bytes("r/predictions.safetensors"))["mean"].1, [24, 2]);
}

#[test]
fn a_test_file_is_tested_on_and_not_learned_from() {
    let scratch = Scratch::new();
    scratch.write("t.csv", without(&table(&rows(4, 90)), 4));
    scratch.write("test.csv", without(&table(&rows(5, 33)), 4));
    let mut settings = settings("outcome", "classification");
    settings.extend(["--set".to_owned(), "data.files.test=test.csv".to_owned()]);
    let summary = run(&scratch, &settings, &["--rounds", "2", "--out", "r"]);
    let samples: Vec<_> =
        summary["clients"].as_array().unwrap().iter().map(|one| one["samples"].clone()).collect();
    assert_eq!(samples, [11, 11, 11], "every row of the test file, and no other");
    // Other test rows, the same models.
    scratch.write("test.csv", without(&table(&rows(6, 12)), 4));
    run(&scratch, &settings, &["--rounds", "2", "--out", "s"]);
    let model = |run: &str| arrays(&scratch.bytes(&format!("{run}/clients/0.safetensors")));
    assert!(model("r") == model("s"), "the test file was learned from");
}

#[test]
fn safetensors_arrays_are_read() {
    let scratch = Scratch::new();
    let rows = rows(7, 240);
    let bytes = |values: Vec<f32>| values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    let whole = |values: Vec<i64>| values.into_iter().flat_map(i64::to_le_bytes).collect::<Vec<u8>>();
    let inputs = bytes(rows.iter().flat_map(|row| row.features.map(|value| value as f32)).collect());
    let labels = whole(rows.iter().map(|row| i64::from(row.sick)).collect());
    let owners = whole(rows.iter().map(|row| row.site as i64 + 5).collect());
    let view = |kind, shape: &[usize], data| TensorView::new(kind, shape.to_vec(), data).unwrap();
    let file = safetensors::serialize(
        [
            ("x", view(Dtype::F32, &[240, 2], &inputs)),
            ("y", view(Dtype::I64, &[240], &labels)),
            ("hospital", view(Dtype::I64, &[240], &owners)),
        ],
        None,
    );
    scratch.write("t.safetensors", file.unwrap());
    let summary = scratch
        .succeeds(&[
            "run",
            "--dataset",
            "files",
            "--rounds",
            "10",
            "--json",
            "--set",
            "data.files.train=t.safetensors",
            "--set",
            "data.files.inputs=x",
            "--set",
            "data.files.target=y",
            "--set",
            "data.files.client=hospital",
        ])
        .json();
    assert!(number(&summary, "accuracy") > 0.85, "{}", summary["accuracy"]);
    assert_eq!(summary["clients"][2]["name"], "7");
}

/// A NPY file, version 1.0.
fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let padded = format!("{header:<117}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(padded.len()).unwrap().to_le_bytes());
    file.extend(padded.as_bytes());
    file.extend(data);
    file
}

#[test]
fn npy_images_go_through_a_convolutional_network() {
    let scratch = Scratch::new();
    let mut numbers = Numbers::new(8);
    // A bright left or right half.
    let image = |right: bool, numbers: &mut Numbers| -> Vec<u8> {
        (0..64)
            .map(|at| {
                let bright = (at % 8 >= 4) == right;
                (if bright { 170.0 } else { 90.0 } + 60.0 * numbers.next()) as u8
            })
            .collect()
    };
    let labels: Vec<u8> = (0..120).map(|row| u8::from(row % 3 == 0)).collect();
    let images: Vec<u8> = labels.iter().flat_map(|&label| image(label == 1, &mut numbers)).collect();
    scratch.write("x.npy", npy("|u1", "120, 8, 8", &images));
    scratch.write("y.npy", npy("|u1", "120,", &labels));
    let body = "model.body=[{ conv = { out = 4, kernel = 3, padding = 1 } }, \"relu\", { maxpool = 2 }, \"flatten\"]";
    let summary = scratch
        .succeeds(&[
            "run",
            "--dataset",
            "files",
            "--rounds",
            "8",
            "--clients",
            "3",
            "--json",
            "--set",
            "data.files.train=x.npy",
            "--set",
            "data.files.target=y.npy",
            "--set",
            "data.files.shape=[1, 8, 8]",
            "--set",
            body,
        ])
        .json();
    assert!(number(&summary, "accuracy") > 0.9, "{}", summary["accuracy"]);
}

#[test]
fn a_partition_can_come_from_a_file() {
    let scratch = Scratch::new();
    scratch.write("t.csv", without(&without(&table(&rows(9, 40)), 4), 2));
    let lines = (0..40).map(|row| {
        let (client, split) =
            (if row < 30 { "large" } else { "small" }, if row % 2 == 0 { "train" } else { "test" });
        format!("{row},{client},{split}\n")
    });
    scratch.write("who.csv", "index,client,split\n".to_owned() + &lines.collect::<String>());
    let listed = scratch.succeeds(&[
        "data",
        "list",
        "--partition",
        "file",
        "--dataset",
        "files",
        "--json",
        "--set",
        "data.files.train=t.csv",
        "--set",
        "data.files.target=outcome",
        "--set",
        "partition.path=who.csv",
    ]);
    let clients = listed.json()["clients"].clone();
    for (at, client, samples) in [(0, "large", 15), (1, "small", 5)] {
        assert_eq!(clients[at]["client"], client);
        assert_eq!(
            (&clients[at]["train"], &clients[at]["test"]),
            (&samples.into(), &samples.into()),
            "{client}"
        );
    }
}
