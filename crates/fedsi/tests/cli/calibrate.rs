//! `fedsi calibrate` on every format, with clients, as a table and as a page.

use std::io::{Cursor, Write as _};

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::bad_input::refuses;
use crate::support::Scratch;

/// Six rows of three classes by two clients.
const ROWS: [[f64; 3]; 6] = [
    [0.5, 0.25, 0.25],
    [0.125, 0.75, 0.125],
    [0.25, 0.25, 0.5],
    [0.625, 0.25, 0.125],
    [0.25, 0.5, 0.25],
    [0.125, 0.125, 0.75],
];
const LABELS: [i64; 6] = [0, 1, 0, 0, 2, 2];
const CLIENTS: [i64; 6] = [3, 3, 3, 7, 7, 7];
const NAMES: [&str; 3] = ["healthy", "ill", "very ill"];

/// An NPY file of version 1.
fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn archive(entries: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn npz(method: CompressionMethod) -> Vec<u8> {
    let rows: Vec<u8> = ROWS.iter().flatten().flat_map(|value| (*value as f32).to_le_bytes()).collect();
    let whole = |values: &[i64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let entries = [
        ("probabilities.npy", npy("<f4", "(6, 3)", &rows)),
        ("labels.npy", npy("<i8", "(6,)", &whole(&LABELS))),
        ("clients.npy", npy("<i8", "(6,)", &whole(&CLIENTS))),
        ("notes.npy", npy("<U4", "(1,)", &[0; 16])),
    ];
    archive(&entries, method)
}

fn tensors() -> Vec<u8> {
    let rows: Vec<u8> = ROWS.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    let labels: Vec<u8> =
        LABELS.iter().flat_map(|&label| i32::try_from(label).unwrap().to_le_bytes()).collect();
    let clients: Vec<u8> = CLIENTS.iter().flat_map(|client| client.to_le_bytes()).collect();
    let views = [
        ("probabilities", TensorView::new(Dtype::F64, vec![6, 3], &rows).unwrap()),
        ("labels", TensorView::new(Dtype::I32, vec![6], &labels).unwrap()),
        ("client", TensorView::new(Dtype::I64, vec![6], &clients).unwrap()),
    ];
    safetensors::serialize(views, None).unwrap()
}

/// The rows as CSV: classes by name, `between` cells, `end` of a line.
fn table(between: &str, end: &str) -> String {
    let mut text = ["row", "client", "label", NAMES[0], NAMES[1], NAMES[2]].join(between) + end;
    for (row, values) in ROWS.iter().enumerate() {
        let mut cells =
            vec![row.to_string(), CLIENTS[row].to_string(), NAMES[LABELS[row] as usize].to_owned()];
        cells.extend(values.iter().map(f64::to_string));
        text.push_str(&(cells.join(between) + end));
    }
    text
}

fn json_file() -> String {
    json!({ "probabilities": ROWS, "labels": LABELS, "client": CLIENTS, "classes": { "any": "thing" } })
        .to_string()
}

/// What does not depend on the format.
fn figures(found: &Value) -> Value {
    let mut found = found.clone();
    for class in found["classes"].as_array_mut().unwrap() {
        class["name"] = Value::Null;
    }
    found
}

#[test]
fn every_format_gives_the_same_figures() {
    let scratch = Scratch::new();
    scratch.write("p.json", json_file());
    let expected = scratch.succeeds(&["calibrate", "p.json"]).json();
    // By hand: rows 0, 1, 3 and 5 are right; of client 3 two of three, of client 7 two of three.
    assert!((expected["accuracy"].as_f64().unwrap() - 4.0 / 6.0).abs() < 1e-12);
    let right = [0.5_f64, 0.75, 0.25, 0.625, 0.25, 0.75];
    let nll = -right.iter().map(|p| p.ln()).sum::<f64>() / 6.0;
    assert!((expected["nll"].as_f64().unwrap() - nll).abs() < 1e-12);
    let clients = expected["clients"].as_array().unwrap();
    let of = |client: usize| (clients[client]["id"].as_u64(), clients[client]["samples"].as_u64());
    assert_eq!([of(0), of(1)], [(Some(3), Some(3)), (Some(7), Some(3))]);
    let own = -right[3..].iter().map(|p| p.ln()).sum::<f64>() / 3.0;
    assert!((clients[1]["nll"].as_f64().unwrap() - own).abs() < 1e-12);
    assert!((expected["accuracy_client_mean"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(expected["classes"][2]["recall"], 0.5);

    scratch.write("comma.csv", table(",", "\n"));
    scratch.write("spreadsheet.csv", format!("\u{feff}{}", table(";", "\r\n")));
    scratch.write("tabs.tsv", table("\t", "\n"));
    scratch.write("stored.npz", npz(CompressionMethod::Stored));
    scratch.write("deflated.npz", npz(CompressionMethod::Deflated));
    scratch.write("p.safetensors", tensors());
    // Without a telling name.
    scratch.write("json", json_file());
    scratch.write("table", table(",", "\n"));
    scratch.write("archive", npz(CompressionMethod::Deflated));
    scratch.write("arrays.bin", tensors());
    for name in [
        "comma.csv",
        "spreadsheet.csv",
        "tabs.tsv",
        "stored.npz",
        "deflated.npz",
        "p.safetensors",
        "json",
        "table",
        "archive",
        "arrays.bin",
    ] {
        let found = scratch.succeeds(&["calibrate", name]).json();
        assert_eq!(figures(&found), figures(&expected), "{name}");
    }
    let named = scratch.succeeds(&["calibrate", "comma.csv"]).json();
    assert_eq!(named["classes"][2]["name"], NAMES[2]);
}

#[test]
fn a_run_s_own_predictions_have_its_scores() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds=1", "--clients=3", "--epochs=1", "--quiet", "--out=r"]);
    let found = scratch.succeeds(&["calibrate", "r/predictions.safetensors"]).json();
    let summary = scratch.json("r/summary.json");
    let close = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-9;
    for key in ["ece", "brier", "nll", "aurc", "ece_floor", "balanced_accuracy", "mce_1pct"] {
        assert!(close(&found[key], &summary[key]), "{key}: {} and {}", found[key], summary[key]);
    }
    assert!(close(&found["accuracy_client_mean"], &summary["accuracy"]));
    for (own, other) in
        found["clients"].as_array().unwrap().iter().zip(summary["clients"].as_array().unwrap())
    {
        assert_eq!((&own["id"], &own["samples"]), (&other["id"], &other["samples"]));
        assert!(close(&own["nll"], &other["nll"]) && close(&own["accuracy"], &other["accuracy"]));
    }
}

/// The columns that a run writes: what comes before and behind the classes is no class.
#[test]
fn the_csv_that_fedsi_writes_is_read() {
    let scratch = Scratch::new();
    let head = "client,row,id,label,class,probability,ill,well,entropy,strangeness\n";
    scratch.write(
        "predictions.csv",
        format!("{head}north,0,a1,ill,ill,0.75,0.75,0.25,0.56,0.1\nsouth,0,b7,ill,well,0.5,0.5,0.5,0.69,2\n"),
    );
    let found = scratch.succeeds(&["calibrate", "predictions.csv"]).json();
    assert_eq!((&found["samples"], &found["accuracy"]), (&2.into(), &1.0.into()));
    assert_eq!((&found["clients"][1]["name"], &found["clients"][1]["id"]), (&"south".into(), &1.into()));
    assert_eq!(found["classes"][0]["name"], "ill");
}

#[test]
fn regression_is_scored_too() {
    let scratch = Scratch::new();
    scratch.write("r.csv", "client,target,mean,variance\na,1,0,1\na,2,2,1\nb,0,2,4\n");
    scratch.write(
        "r.json",
        json!({ "mean": [0, 2, 2], "variance": [1, 1, 4], "targets": [1, 2, 0], "client": ["a", "a", "b"] })
            .to_string(),
    );
    scratch.write("s.csv", "client;target;mean;std\na;1;0;1\na;2;2;1\nb;0;2;2\n");
    let found = scratch.succeeds(&["calibrate", "r.csv"]).json();
    assert!((found["rmse"].as_f64().unwrap() - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{found}");
    assert!((found["mae"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(found["clients"][1]["rmse"], 2.0);
    for name in ["r.json", "s.csv"] {
        assert_eq!(scratch.succeeds(&["calibrate", name]).json(), found, "{name}");
    }
    let text = scratch.succeeds(&["calibrate", "r.csv", "--table", "--out", "page"]).stdout;
    assert!(text.contains("in the 90% interval") && text.contains("RMSE"), "{text}");
    let page = scratch.text("page/report.html");
    assert!(page.contains("data-plot=\"interval-coverage\"") && page.contains("data-plot=\"residuals\""));
}

#[test]
fn a_table_fits_eighty_columns() {
    let scratch = Scratch::new();
    let mut text = "client,label,a,b\n".to_owned();
    for client in 0..30 {
        text.push_str(&format!(
            "a hospital with a very long name number {client},a,0.{},0.{}\n",
            50 + client,
            50 - client
        ));
    }
    scratch.write("p.csv", text);
    let table = scratch.succeeds(&["calibrate", "p.csv", "--table"]).stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    for words in [
        "30 predictions",
        "balanced accuracy",
        "gap: mean confidence less accuracy",
        "the 20 of 30 clients with the highest NLL",
    ] {
        assert!(table.contains(words), "no `{words}` in:\n{table}");
    }
}

#[test]
fn a_page_is_written_and_nothing_else_is_touched() {
    let scratch = Scratch::new();
    scratch.write("p.csv", table(",", "\n"));
    let before = scratch.succeeds(&["calibrate", "p.csv"]).json();
    let after = scratch.succeeds(&["calibrate", "p.csv", "--out", "new/page"]).json();
    assert_eq!(before, after, "one object on stdout all the same");
    assert_eq!(scratch.json("new/page/calibrate.json"), after);
    let page = scratch.text("new/page/report.html");
    for words in [
        "data-plot=\"reliability\"",
        "data-plot=\"risk-coverage\"",
        "data-plot=\"confidence\"",
        "very ill",
        "<h2>Clients</h2>",
    ] {
        assert!(page.contains(words), "no `{words}`");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "it needs nothing from elsewhere");
    assert!(scratch.path("new/page/plots/confidence.png").is_file());
    // Its own page is replaced, and nothing that is somebody's.
    scratch.succeeds(&["calibrate", "p.csv", "--out", "new/page"]);
    scratch.succeeds(&["run", "--rounds=1", "--clients=2", "--epochs=1", "--quiet", "--out=r"]);
    scratch.write("mine/notes.txt", "mine");
    scratch.write("mixed/calibrate.json", "{}");
    scratch.write("mixed/plots/drawn.svg", "mine");
    refuses(
        &scratch,
        &["calibrate", "p.csv", "--out"],
        &[
            (&["r"], &["--out r", "holds", "choose another folder"]),
            (&["mine"], &["`notes.txt`"]),
            (&["mixed"], &["`drawn.svg`"]),
            (&["p.csv"], &["not a folder"]),
        ],
    );
}

#[test]
fn files_that_cannot_be_scored_are_refused_in_a_line() {
    let scratch = Scratch::new();
    let good = table(",", "\n");
    let half = npz(CompressionMethod::Deflated);
    scratch.write("truncated.npz", &half[..half.len() / 2]);
    let mut damaged = half.clone();
    damaged[60] ^= 0xff;
    scratch.write("damaged.npz", &damaged);
    // A few kilobytes that say and hold far more zeros than an array of that shape has.
    let zeros = npy("<f8", "(4000000000, 3)", &vec![0; 4 << 20]);
    scratch.write("bomb.npz", archive(&[("probabilities.npy", zeros)], CompressionMethod::Deflated));
    // The directory says less than what is there.
    let mut lying =
        archive(&[("probabilities.npy", npy("<f8", "(2, 2)", &[0; 1 << 20]))], CompressionMethod::Deflated);
    for place in 0..lying.len() - 4 {
        let size = u32::try_from(128 + (1 << 20)).unwrap().to_le_bytes();
        if lying[place..place + 4] == size {
            lying[place..place + 4].copy_from_slice(&64_u32.to_le_bytes());
        }
    }
    scratch.write("lying.npz", &lying);
    scratch.write(
        "fortran.npz",
        archive(
            &[("probabilities.npy", {
                let mut bytes = npy("<f8", "(2, 2)", &[0; 32]);
                let at = bytes.windows(5).position(|part| part == b"False").unwrap();
                bytes[at..at + 5].copy_from_slice(b"True ");
                bytes
            })],
            CompressionMethod::Stored,
        ),
    );
    scratch.write(
        "texts.npz",
        archive(&[("probabilities.npy", npy("<U1", "(2, 2)", &[0; 16]))], CompressionMethod::Stored),
    );
    scratch.write(
        "flat.npz",
        archive(&[("probabilities.npy", npy("<f8", "(4,)", &[0; 32]))], CompressionMethod::Stored),
    );
    scratch.write(
        "others.npz",
        archive(&[("logits.npy", npy("<f8", "(4,)", &[0; 32]))], CompressionMethod::Stored),
    );
    scratch.write("one.npy", npy("<f8", "(4,)", &[0; 32]));
    scratch.write("p.parquet", b"PAR1....PAR1");
    scratch.write("picture", b"\x89PNG\r\n\x1a\n");
    scratch.write("nothing", b"");
    scratch.write("short.safetensors", &tensors()[..60]);
    scratch.write("unlabelled.json", json!({ "probabilities": ROWS }).to_string());
    scratch.write(
        "owners.json",
        json!({ "probabilities": ROWS, "labels": LABELS, "client": [1, 2] }).to_string(),
    );
    scratch.write("label.csv", good.replace("0,3,healthy", "0,3,fine"));
    scratch.write("number.csv", good.replace("0,3,healthy", "0,3,3"));
    scratch.write("extra.csv", good.replace("row,", "age,").replace("\n0,", "\n44,"));
    scratch.write("words.csv", good.replace("row,", "ward,").replace("\n0,", "\nnorth,"));
    scratch.write("sum.csv", good.replace("0.625", "0.725"));
    scratch.write("nan.csv", good.replace("0.625", "NaN"));
    scratch.write("ragged.csv", good.replace(",0.75\n", "\n"));
    scratch.write("twice.csv", good.replace("ill,very ill", "ill,ill"));
    scratch.write("empty.csv", "label,a,b\n");
    scratch.write("both.csv", "label,target,a,b\n0,0,1,0\n");
    scratch.write("classless.csv", "label,client\n0,0\n");
    scratch.write("unlabelled.csv", "a,b\n0.5,0.5\n");
    refuses(
        &scratch,
        &["calibrate"],
        &[
            (&["truncated.npz"], &["truncated.npz", "NPZ"]),
            (&["damaged.npz"], &["damaged.npz"]),
            (&["bomb.npz"], &["bomb.npz"]),
            (&["lying.npz"], &["lying.npz", "probabilities"]),
            (&["fortran.npz"], &["fortran.npz", "Fortran"]),
            (&["texts.npz"], &["texts.npz", "U1"]),
            (&["flat.npz"], &["flat.npz", "[4]", "[rows, classes]"]),
            (&["others.npz"], &["others.npz", "no `probabilities`", "logits"]),
            (&["one.npy"], &["one.npy", "numpy.savez"]),
            (&["p.parquet"], &["p.parquet", "Parquet", "CSV"]),
            (&["picture"], &["picture", "no known format", "safetensors"]),
            (&["nothing"], &["nothing", "no known format"]),
            (&["short.safetensors"], &["short.safetensors", "safetensors"]),
            (&["unlabelled.json"], &["unlabelled.json", "no `labels`"]),
            (&["owners.json"], &["owners.json", "2 values for 6 rows"]),
            (&["label.csv"], &["label.csv", "row 0", "`fine`", "healthy, ill, very ill", "0 to 2"]),
            (&["number.csv"], &["number.csv", "row 0", "label 3", "0 to 2"]),
            (&["extra.csv"], &["extra.csv", "row 0", "sum to 1"]),
            (&["words.csv"], &["words.csv", "line 2", "`ward`", "north", "client"]),
            (&["sum.csv"], &["sum.csv", "row 3", "sum to 1"]),
            (&["nan.csv"], &["nan.csv", "row 3", "NaN"]),
            (&["ragged.csv"], &["ragged.csv", "line 7 has 5 cells, the header 6"]),
            (&["twice.csv"], &["twice.csv", "`ill`"]),
            (&["empty.csv"], &["empty.csv", "no rows"]),
            (&["both.csv"], &["both.csv", "`label` and `target`"]),
            (&["classless.csv"], &["classless.csv", "no columns of class probabilities"]),
            (&["unlabelled.csv"], &["unlabelled.csv", "no `labels`"]),
            (&["."], &["cannot be read"]),
        ],
    );
}
