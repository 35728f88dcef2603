//! Sizes and names beyond measure: refused before memory is taken, or shown cut short; nothing is run by what opens a
//! file that fedsi wrote.

use std::process::Command;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::bad_input::refuses;
use crate::support::Scratch;

const TINY: [&str; 14] = [
    "--rounds",
    "1",
    "--clients",
    "2",
    "--epochs",
    "1",
    "--set",
    "partition.train=4",
    "--set",
    "partition.test=4",
    "--method",
    "fedavg",
    "--threads",
    "2",
];

fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["run"], &TINY[..], more].concat()
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

/// 24 rows of 4 features, and their classes.
fn arrays(scratch: &Scratch, labels: impl Fn(u16) -> u16) {
    let inputs: Vec<u8> = (0..96_u8).flat_map(|at| f32::from(at % 7).to_le_bytes()).collect();
    scratch.write("x.npy", npy("<f4", "24, 4", &inputs));
    let labels: Vec<u8> = (0..24).flat_map(|row| labels(row).to_le_bytes()).collect();
    scratch.write("y.npy", npy("<u2", "24,", &labels));
}

const ARRAYS: [&str; 12] = [
    "--dataset",
    "files",
    "--set",
    "data.files.train=x.npy",
    "--set",
    "data.files.target=y.npy",
    "--set",
    "partition.train=0",
    "--set",
    "partition.kind=iid",
    "--out",
    "r",
];

#[test]
fn one_stray_label_is_refused_with_its_row() {
    let scratch = Scratch::new();
    arrays(&scratch, |row| if row == 17 { 65_535 } else { row % 3 });
    let words = ["y.npy", "row 17", "class 65535", "only 4 classes have a sample", "class 3 has none"];
    refuses(&scratch, &tiny(&ARRAYS), &[(&[], &words)]);
    arrays(&scratch, |row| row % 3);
    scratch.succeeds(&tiny(&[&ARRAYS[..], &["-q"]].concat()));
}

#[test]
fn networks_that_cannot_fit_are_refused_before_anything_is_written() {
    let wide = |units: usize| format!("model.body=[\"flatten\",{{linear={units}}},{{linear={units}}}]");
    let (wide, layer) = (wide(32_000), wide(1 << 40));
    // Four hundred layers of a gigabyte each: every layer is possible, all of them are not.
    let deep = format!("model.body=[\"flatten\"{}]", ",{linear=16000}".repeat(400));
    let many = format!("model.body=[\"flatten\"{}]", ",\"relu\"".repeat(3_000));
    let memory = ["needs at least", "GB of memory", "can be had", "model.body"];
    refuses(
        &Scratch::new(),
        &tiny(&[]),
        &[
            (&["--set", &deep], &memory),
            (&["--set", &layer], &["model.body", "layer 1"]),
            (&["--set", &many], &["model.body", "3002 layers", "at most 1000"]),
            (
                &["--set", &wide, "--method", "local", "--clients", "100000"],
                &["needs at least", "partition.clients"],
            ),
        ],
    );
}

#[test]
fn a_name_of_seventy_thousand_letters_is_cut_on_terminal_and_page() {
    let scratch = Scratch::new();
    let long = "n".repeat(70_000);
    let mut table = "a,who,y\n".to_owned();
    for row in 0..40 {
        let who = if row % 2 == 0 { long.as_str() } else { "\"\u{202e}line\nbreak\"" };
        table.push_str(&format!("{row},{who},{}\n", if row % 4 < 2 { &long[..60_000] } else { "no" }));
    }
    scratch.write("d.csv", table);
    let own = ["data.files.train=d.csv", "data.files.target=y", "data.files.client=who", "partition.train=0"];
    let set: Vec<&str> = own.iter().flat_map(|own| ["--set", own]).collect();
    let run = [
        &["run", "--rounds", "1", "--epochs", "1", "--method", "fedsi", "--dataset", "files", "--out", "r"],
        &set[..],
        &["--set", "partition.kind=natural", "--participants", "0"],
    ];
    let ended = scratch.succeeds(&run.concat());
    assert!(ended.stdout.lines().all(|line| line.chars().count() < 200), "{}", ended.stdout);
    assert!(ended.stdout.contains("nnn…") && ended.stdout.contains(" line break"), "{}", ended.stdout);
    let page = scratch.text("r/report.html");
    assert!(page.contains("nnn…") && page.len() < 400_000, "{} bytes", page.len());
    assert!(scratch.json("r/summary.json")["clients"][0]["name"] == long.as_str(), "files keep all of it");
}

#[test]
fn tall_pictures_make_small_plots() {
    let scratch = Scratch::new();
    let inputs: Vec<u8> = (0..24 * 600_u32).map(|at| (at * 37 % 256) as u8).collect();
    scratch.write("x.npy", npy("|u1", "24, 300, 2", &inputs));
    let labels: Vec<u8> = (0..24).map(|row| row % 3).collect();
    scratch.write("y.npy", npy("|u1", "24,", &labels));
    scratch.succeeds(&tiny(&[&ARRAYS[..], &["--method", "fedsi", "-q"]].concat()));
    assert!(scratch.path("r/plots/subnetwork-map.png").is_file());
    for (name, bytes) in scratch.below("r/plots") {
        let (Some(bytes), true) = (bytes, name.ends_with(".png")) else { continue };
        let reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        let (width, height) = reader.info().size();
        assert!(width <= 1_000 && height <= 2_500, "{name}: {width} x {height}");
    }
}

/// The same file with one of its vectors a row shorter.
fn shorter(bytes: &[u8], name: &str) -> Vec<u8> {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let views = file.iter().map(|(own, view)| {
        let (mut shape, mut data) = (view.shape().to_vec(), view.data());
        if own == name {
            let row = data.len() / shape[0];
            shape[0] -= 1;
            data = &data[..data.len() - row];
        }
        (own.to_owned(), TensorView::new(view.dtype(), shape, data).unwrap())
    });
    safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap()
}

#[test]
fn predictions_that_lack_a_row_are_damaged() {
    let scratch = Scratch::new();
    scratch.succeeds(&tiny(&["--out", "r", "-q"]));
    let values: Vec<u8> = (0..784).flat_map(|_| (-1.0_f32).to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![1, 1, 28, 28], &values).unwrap();
    scratch.write("x.safetensors", safetensors::serialize([("inputs", view)], None).unwrap());
    let whole = scratch.bytes("r/predictions.safetensors");
    let predict = ["predict", "--run", "r", "--client", "0", "--input", "x.safetensors", "--coverage", "0.5"];
    scratch.succeeds(&predict);
    for name in ["client", "labels", "probabilities"] {
        scratch.write("r/predictions.safetensors", shorter(&whole, name));
        refuses(&scratch, &predict, &[(&[], &["predictions.safetensors"])]);
        refuses(&scratch, &["report", "r"], &[(&[], &["predictions.safetensors"])]);
    }
}

#[test]
fn formulas_in_names_stay_text_in_csv() {
    let scratch = Scratch::new();
    let mut table = "a,y\n".to_owned();
    for row in 0..40 {
        table.push_str(&format!("{row},{}\n", if row % 2 == 0 { "=1+1" } else { "-5" }));
    }
    scratch.write("d.csv", table);
    scratch.write("x.csv", "a\n0\n1\n2\n3\n");
    let own = ["data.files.train=d.csv", "data.files.target=y", "partition.train=0", "partition.kind=iid"];
    let set: Vec<&str> = own.iter().flat_map(|own| ["--set", own]).collect();
    scratch.succeeds(&tiny(&[&set[..], &["--dataset", "files", "--out", "r", "-q"]].concat()));
    let ended = scratch.succeeds(&["predict", "--run", "r", "--client", "0", "--input", "x.csv"]);
    assert!(ended.stdout.starts_with("a,class,probability,-5,'=1+1,entropy,"), "{}", ended.stdout);
    let names: Vec<&str> = ended.stdout.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert!(names.len() == 4 && names.iter().all(|name| ["'=1+1", "-5"].contains(name)), "{}", ended.stdout);
}

#[test]
fn a_hostile_comparison_becomes_no_link() {
    let scratch = Scratch::new();
    scratch.succeeds(&[
        "compare",
        "--methods",
        "fedavg",
        "--seeds",
        "1",
        "--rounds",
        "1",
        "--clients",
        "2",
        "--epochs",
        "1",
        "--set",
        "partition.train=4",
        "--set",
        "partition.test=4",
        "--out",
        "c",
        "-q",
    ]);
    let mut found = scratch.json("c/compare.json");
    for folder in ["javascript:alert(1)//", "https://evil.example/x", "/etc", "../..", "data:text/html,x"] {
        found["methods"][0]["runs"][0]["folder"] = folder.into();
        found["methods"][0]["title"] = "a\u{1}\u{0}b".into();
        scratch.write("c/compare.json", found.to_string());
        scratch.succeeds(&["report", "c", "-q"]);
        let page = scratch.text("c/report.html");
        for link in page.split("href=\"").skip(1) {
            let address = link.split('"').next().unwrap();
            assert!(
                !address.contains(':') && !address.contains("..") && !address.starts_with('/'),
                "{address}"
            );
        }
    }
    for (name, bytes) in scratch.below("c/plots") {
        let (Some(bytes), true) = (bytes, name.ends_with(".svg")) else { continue };
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.chars().any(|c| c.is_control() && !"\t\n\r".contains(c)), "{name}");
    }
}

/// With `ulimit -f` a write that is too long is an error like any other: reported, and what was saved stays.
#[cfg(target_os = "linux")]
#[test]
fn files_beyond_their_limit_are_reported() {
    let scratch = Scratch::new();
    let limited = |blocks: u32, arguments: &[&str]| {
        let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let output = Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(env!("CARGO_BIN_EXE_fedsi"))
            .args(arguments)
            .current_dir(scratch.path(""))
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // Blocks of 512 or of 1024 bytes, by the shell: enough for the config, too little for a network.
    let (code, stderr) = limited(64, &tiny(&["--out", "r", "-q"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("File too large") && stderr.contains("fedsi resume r"), "{stderr}");
    scratch.succeeds(&["resume", "r", "-q"]);
    assert!(scratch.path("r/summary.json").is_file());
}
