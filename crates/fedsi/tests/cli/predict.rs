//! `fedsi predict`: a client of a run, or a new one, on every format of inputs.

use std::fmt::Write as _;
use std::sync::OnceLock;

use fedsi_data::{DataSpec, PartitionSpec, Samples, Size, Split, Targets};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;

use crate::support::{Scratch, arrays};

/// A quick run on the digits, made once: nobody writes into it.
fn digits() -> &'static Scratch {
    static RUN: OnceLock<Scratch> = OnceLock::new();
    RUN.get_or_init(|| {
        let scratch = Scratch::new();
        scratch.succeeds(&[
            "run",
            "--rounds",
            "3",
            "--clients",
            "3",
            "--participants",
            "3",
            "--out",
            "r",
            "--quiet",
        ]);
        scratch
    })
}

/// A client's samples of that run.
fn samples(client: usize, split: Split) -> Samples {
    let data = DataSpec::defaults("digits", Size::Small);
    let partition = PartitionSpec { clients: 3, ..PartitionSpec::labels(10, 20, 80) };
    fedsi_data::open(&data, &partition, 1).unwrap().samples(client, split)
}

fn shades(inputs: &[f32]) -> Vec<u8> {
    inputs.iter().map(|value| ((value + 1.0) * 127.5).round() as u8).collect()
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

fn png(size: (u32, u32), data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    bytes
}

/// Fields of a CSV without quotes, by the names in its header.
pub(crate) fn column<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let at = text.lines().next().unwrap().split(',').position(|field| field == name);
    let at = at.unwrap_or_else(|| panic!("no column {name} in {text}"));
    text.lines().skip(1).map(|line| line.split(',').nth(at).unwrap()).collect()
}

/// What the program says of `input` with client 1's model.
fn predict(scratch: &Scratch, input: &str, more: &[&str]) -> crate::support::Ended {
    let run = digits().path("r").display().to_string();
    let mut all = vec!["predict", "--run", &run, "--client", "1", "--input", input];
    all.extend(more);
    scratch.fedsi(&all)
}

/// A refusal: exit code 2, one line, nothing on stdout, and the words.
pub(crate) fn refused(ended: &crate::support::Ended, words: &[&str]) {
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert_eq!((ended.stdout.as_str(), ended.stderr.lines().count()), ("", 1), "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "no `{word}` in {}", ended.stderr);
    }
}

#[test]
fn every_format_gives_the_runs_own_predictions() {
    let scratch = Scratch::new();
    let test = samples(1, Split::Test);
    let bytes = shades(&test.inputs);
    let count = test.count;
    scratch.write("x.npy", npy("|u1", &format!("{count}, 28, 28"), &bytes));
    let singles: Vec<u8> = test.inputs.iter().flat_map(|value| value.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![count, 1, 28, 28], &singles).unwrap();
    scratch.write("x.safetensors", safetensors::serialize([("inputs", view)], None).unwrap());
    let mut table = (0..784).map(|at| format!("x{at},")).collect::<String>() + "label\n";
    for row in bytes.chunks(784) {
        row.iter().for_each(|shade| write!(table, "{shade},").unwrap());
        table.push_str("0\n");
    }
    scratch.write("x.csv", table);
    for (at, image) in bytes.chunks(784).enumerate() {
        scratch.write(&format!("images/{at:04}.png"), png((28, 28), image));
    }

    let kept = arrays(&digits().bytes("r/predictions.safetensors"));
    let rows: Vec<usize> = (0..kept["client"].2.len()).filter(|&row| kept["client"].2[row] == 1.0).collect();
    let expected: Vec<f64> =
        rows.iter().flat_map(|&row| kept["probabilities"].2[row * 10..(row + 1) * 10].to_vec()).collect();
    for input in ["x.npy", "x.safetensors", "x.csv", "images"] {
        let ended = predict(&scratch, input, &["--json"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{input}");
        let found = ended.json();
        let rows = found["rows"].as_array().unwrap();
        let said: Vec<f64> = rows
            .iter()
            .flat_map(|row| row["probabilities"].as_array().unwrap().iter())
            .map(|value| f64::from(value.as_f64().unwrap() as f32))
            .collect();
        assert!(said == expected, "{input}: other probabilities than the run's");
        assert_eq!((&found["method"], &found["client"]), (&"fedsi".into(), &1.into()));
        let key = if input == "images" { Value::from("0002.png") } else { Value::from(2) };
        assert_eq!(rows[2]["row"], key);
        let (mut right, labels) = (0, &test.targets);
        for (at, row) in rows.iter().enumerate() {
            let p = |name: &str| row[name].as_f64().unwrap();
            assert!(
                p("variance") > 0.0 && p("entropy") >= 0.0 && p("entropy") <= 10_f64.ln() + 1e-6,
                "{row}"
            );
            let class = row["class"].as_u64().unwrap() as usize;
            assert_eq!(row["probabilities"][class], row["probability"]);
            let Targets::Classes(labels) = labels else { panic!("classes") };
            right += usize::from(labels[at] as usize == class);
        }
        let accuracy = digits().json("r/summary.json")["clients"][1]["accuracy"].as_f64().unwrap();
        assert!((right as f64 / count as f64 - accuracy).abs() < 1e-9);
    }
    // One image, one array of an image's shape, CSV out: the same row.
    scratch.write("one.npy", npy("|u1", "28, 28", &bytes[..784]));
    let one = predict(&scratch, "one.npy", &[]);
    let image = predict(&scratch, "images/0000.png", &[]);
    assert_eq!(one.stdout.replace("\n0,", "\n0000.png,"), image.stdout);
    assert!(
        one.stdout
            .starts_with("row,class,probability,0,1,2,3,4,5,6,7,8,9,entropy,strangeness,abstain,reason\n"),
        "{}",
        one.stdout
    );
    let third: f64 = column(&one.stdout, "3")[0].parse().unwrap();
    assert!((third - expected[3]).abs() <= 5e-6 * expected[3], "six digits of {}: {third}", expected[3]);
    // To files: the format by their endings.
    for (name, start) in [("p.csv", "row,"), ("p.json", "{\n"), ("p.txt", "row,")] {
        let ended = predict(&scratch, "one.npy", &["--out", name]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
        assert!(scratch.text(name).starts_with(start), "{name}");
    }
    assert!(scratch.json("p.json")["rows"].is_array());
    assert_eq!(scratch.text("p.csv"), one.stdout);
}

#[test]
fn the_least_sure_abstain() {
    let scratch = Scratch::new();
    let test = samples(1, Split::Test);
    scratch.write("x.npy", npy("|u1", &format!("{}, 784", test.count), &shades(&test.inputs)));
    let ended = predict(&scratch, "x.npy", &["--coverage", "0.75", "--json"]);
    let found = ended.json();
    let threshold = &found["threshold"];
    assert_eq!(threshold["wanted"]["coverage"], 0.75);
    assert!(
        ended.stderr.contains("test samples of client 1") && ended.stderr.contains("no guarantee"),
        "{}",
        ended.stderr
    );
    let rows = found["rows"].as_array().unwrap();
    let least = threshold["probability"].as_f64().unwrap();
    let mut answered = 0;
    for row in rows {
        let sure = f64::from(row["probability"].as_f64().unwrap() as f32) >= least;
        assert_eq!(row["abstain"], !sure, "{row}");
        answered += usize::from(sure);
    }
    // These are the samples that it was found on.
    let coverage = threshold["coverage"].as_f64().unwrap();
    assert!(coverage >= 0.75 && (answered as f64 / rows.len() as f64 - coverage).abs() < 1e-9, "{threshold}");
    let accuracy = digits().json("r/summary.json")["clients"][1]["accuracy"].as_f64().unwrap();
    let risk = (0.8 * (1.0 - accuracy)).to_string();
    let strict = predict(&scratch, "x.npy", &["--risk", &risk]);
    let abstained = column(&strict.stdout, "abstain").iter().filter(|&&said| said == "true").count();
    assert!(abstained > 0 && abstained < rows.len(), "{abstained} of {}: {}", rows.len(), strict.stderr);
    assert_eq!(predict(&scratch, "x.npy", &["--risk", &risk, "--quiet"]).stderr, "");
    refused(&predict(&scratch, "x.npy", &["--coverage", "0"]), &["--coverage 0", "above 0"]);
    refused(&predict(&scratch, "x.npy", &["--coverage", "1.5"]), &["--coverage 1.5"]);
    refused(&predict(&scratch, "x.npy", &["--risk", "-0.1"]), &["--risk -0.1"]);
    let both = predict(&scratch, "x.npy", &["--risk", "0.1", "--coverage", "0.5"]);
    assert_eq!(both.code, Some(2));
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
}

#[test]
fn a_new_client_is_fitted_first() {
    let scratch = Scratch::new();
    let run = digits().path("r").display().to_string();
    let (train, test) = (samples(2, Split::Train), samples(2, Split::Test));
    let Targets::Classes(labels) = &train.targets else { panic!("classes") };
    let Targets::Classes(expected) = &test.targets else { panic!("classes") };
    scratch.write("x.npy", npy("|u1", &format!("{}, 784", test.count), &shades(&test.inputs)));
    scratch.write("fit.npy", npy("|u1", &format!("{}, 784", train.count), &shades(&train.inputs)));
    let whole: Vec<u8> = labels.iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect();
    scratch.write("fit-y.npy", npy("<i8", &format!("{},", train.count), &whole));
    let pixels = shades(&train.inputs);
    let view = |kind, shape: &[usize], data| TensorView::new(kind, shape.to_vec(), data).unwrap();
    let tensors = [
        ("inputs", view(Dtype::U8, &[train.count, 784], &pixels)),
        ("labels", view(Dtype::I64, &[train.count], &whole)),
    ];
    scratch.write("fit.safetensors", safetensors::serialize(tensors, None).unwrap());
    let ask = |fit: &[&str]| {
        let mut all = vec!["predict", "--run", &run, "--input", "x.npy"];
        all.extend(fit);
        scratch.fedsi(&all)
    };
    let fitted = ask(&["--fit", "fit.npy", "--fit-targets", "fit-y.npy", "--coverage", "0.9"]);
    assert_eq!(fitted.code, Some(0), "{}", fitted.stderr);
    assert!(fitted.stderr.contains("1200 test samples of all clients"), "{}", fitted.stderr);
    let right = column(&fitted.stdout, "class")
        .into_iter()
        .zip(expected)
        .filter(|(class, label)| *class == label.to_string());
    let right = right.count() as f64 / test.count as f64;
    assert!(right > 0.6, "{right} right after fitting");
    let other = ask(&["--fit", "fit.safetensors", "--coverage", "0.9"]);
    assert_eq!(other.stdout, fitted.stdout, "the same data in another format");
    // Bad data to fit.
    refused(&ask(&["--fit", "fit.npy"]), &["fit.npy", "second .npy file"]);
    refused(&ask(&["--fit", "x.png"]), &["x.png", "cannot read"]);
    scratch.write(
        "bad-y.npy",
        npy(
            "<i8",
            &format!("{},", train.count),
            &vec![12_i64; train.count].iter().flat_map(|l| l.to_le_bytes()).collect::<Vec<_>>(),
        ),
    );
    refused(
        &ask(&["--fit", "fit.npy", "--fit-targets", "bad-y.npy"]),
        &["bad-y.npy", "found 12, expected a class from 0 to 9"],
    );
    let both = ask(&["--fit", "fit.safetensors", "--client", "1"]);
    assert_eq!(both.code, Some(2));
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
    refused(
        &ask(&[]),
        &["x.npy: it does not say whose its rows are", "--client", "--fit", "3 clients, 0 to 2"],
    );
}

#[test]
fn what_cannot_be_predicted_is_refused() {
    let scratch = Scratch::new();
    let good = npy("|u1", "1, 784", &[0; 784]);
    scratch.write("x.npy", &good);
    scratch.write("short.npy", npy("|u1", "2, 100", &[0; 200]));
    scratch.write("empty.npy", npy("|u1", "0, 784", &[]));
    scratch.write("cut.npy", &good[..500]);
    let mut values = vec![0.0_f32; 784];
    values[5] = f32::NAN;
    scratch.write(
        "nan.npy",
        npy("<f4", "1, 784", &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()),
    );
    scratch.write("x.dat", "1,2");
    scratch.write("cut.safetensors", [9, 0, 0, 0, 0, 0, 0, 0, b'{']);
    let image = png((28, 28), &[7; 784]);
    scratch.write("cut.png", &image[..image.len() / 2]);
    scratch.write("large.png", png((32, 30), &[7; 960]));
    scratch.write("empty.csv", "");
    scratch.write("narrow.csv", "a,b\n1,2\n");
    std::fs::create_dir(scratch.path("folder")).unwrap();
    for (input, words) in [
        ("short.npy", &["short.npy", "[2, 100]", "[1, 28, 28]"][..]),
        ("empty.npy", &["empty.npy", "[0, 784]"]),
        ("cut.npy", &["cut.npy", "bytes"]),
        ("nan.npy", &["row 0, number 5", "NaN"]),
        ("x.dat", &["x.dat", ".csv, .parquet, .npy, .safetensors or .png"]),
        ("none.npy", &["none.npy", "cannot read"]),
        ("cut.safetensors", &["cut.safetensors", "a safetensors file"]),
        ("cut.png", &["cut.png", "a whole PNG image"]),
        ("large.png", &["large.png", "32 x 30 pixels", "28 x 28"]),
        ("empty.csv", &["empty.csv", "a header"]),
        ("narrow.csv", &["narrow.csv", "2 columns", "784"]),
        ("folder", &["folder", "no image"]),
    ] {
        let before = scratch.names();
        refused(&predict(&scratch, input, &["--out", "p.csv"]), words);
        assert_eq!(scratch.names(), before, "{input} left something behind");
    }
    refused(&predict(&scratch, "x.npy", &["--out", "no/p.csv"]), &["no/p.csv", "does not exist"]);
    refused(&predict(&scratch, "x.npy", &["--out", "folder"]), &["folder", "it is a folder"]);
    refused(&predict(&scratch, "x.npy", &["--json", "--format", "csv"]), &["choose one"]);

    let ask = |run: &str, client: &str| {
        scratch.fedsi(&["predict", "--run", run, "--client", client, "--input", "x.npy"])
    };
    let run = digits().path("r").display().to_string();
    refused(&ask(&run, "3"), &["unknown client `3`", "3 clients, 0 to 2"]);
    refused(&ask("folder", "0"), &["folder is not a run"]);
    refused(&ask("nowhere", "0"), &["nowhere is not a run"]);
    scratch.write("half/config.toml", digits().bytes("r/config.toml"));
    refused(&ask("half", "0"), &["half is not complete", "fedsi resume half"]);
    // Without personal models there is nobody but a new client.
    scratch.write("half/summary.json", digits().bytes("r/summary.json"));
    let config = digits().text("r/config.toml").replace("personal_models = true", "personal_models = false");
    scratch.write("half/config.toml", config);
    refused(&ask("half", "0"), &["half saved no personal models", "--fit"]);
    scratch.write("half/config.toml", digits().bytes("r/config.toml"));
    refused(&ask("half", "0"), &["0.safetensors"]);
}

/// A table whose clients and classes have names.
fn clinic() -> String {
    let mut text = "age,dose,site,outcome\n".to_owned();
    for row in 0..120 {
        let (age, dose) = (20.0 + f64::from(row * 7 % 40), f64::from(row * 11 % 17) / 10.0);
        let outcome = if age > 40.0 { "sick" } else { "well" };
        writeln!(text, "{age},{dose},{},{outcome}", ["oslo", "bergen"][(row % 2) as usize]).unwrap();
    }
    text
}

#[test]
fn columns_classes_and_clients_go_by_name() {
    let scratch = Scratch::new();
    scratch.write("t.csv", clinic());
    let set = [
        "data.dataset=files",
        "data.files.train=t.csv",
        "data.files.client=site",
        "data.files.target=outcome",
    ];
    let mut all = vec!["run", "--rounds", "3", "--out", "r", "--quiet"];
    all.extend(set.iter().flat_map(|setting| ["--set", setting]));
    scratch.succeeds(&all);
    let ask = |client: &str, input: &str| {
        scratch.fedsi(&["predict", "--run", "r", "--client", client, "--input", input])
    };
    scratch.write("x.csv", "age,dose\n25,0.5\n55,0.5\n");
    scratch.write("y.csv", "outcome,dose,age,site\n?,0.5,25,oslo\n?,0.5,55,oslo\n");
    let plain = ask("oslo", "x.csv");
    assert_eq!(column(&plain.stdout, "class"), ["well", "sick"], "{} {}", plain.stdout, plain.stderr);
    assert!(plain.stdout.starts_with("age,dose,class,probability,sick,well,entropy,"), "{}", plain.stdout);
    let other = ask("1", "y.csv").stdout;
    assert!(other.starts_with("outcome,dose,age,site,class,probability,"), "as it was given: {other}");
    for name in ["class", "probability", "sick", "strangeness", "reason"] {
        assert_eq!(
            column(&other, name),
            column(&plain.stdout, name),
            "another order, and the client's number"
        );
    }
    refused(&ask("olso", "x.csv"), &["unknown client `olso` (did you mean `oslo`?)", "2 clients"]);
    scratch.write("less.csv", "age\n25\n");
    refused(&ask("oslo", "less.csv"), &["less.csv", "expected a column \"dose\""]);
    scratch.write("more.csv", "age,dose,height\n25,1,2\n");
    assert_eq!(
        column(&ask("oslo", "more.csv").stdout, "height"),
        ["2"],
        "what is no input is passed through"
    );
    scratch.write("inf.csv", "age,dose\n25,1\n25,inf\n");
    let reasons = ask("oslo", "inf.csv").stdout;
    assert!(reasons.lines().nth(2).unwrap().contains("taken as missing"), "{reasons}");
    // A new site, and a class that nobody knows.
    scratch.write("fit.csv", clinic().replace("oslo", "tromsø"));
    let fit =
        |file: &str| scratch.fedsi(&["predict", "--run", "r", "--fit", file, "--input", "x.csv", "--json"]);
    let fitted = fit("fit.csv");
    assert_eq!(fitted.code, Some(0), "{}", fitted.stderr);
    let fitted = fitted.json();
    assert_eq!((&fitted["client"], &fitted["fit"]), (&Value::Null, &"fit.csv".into()));
    assert_eq!(fitted["rows"][1]["name"], "sick", "{fitted}");
    scratch.write("odd.csv", clinic().replacen("sick", "ill", 1));
    refused(&fit("odd.csv"), &["odd.csv", "found \"ill\", expected one of \"sick, well\""]);
    // Already a finished run: what is asked of it leaves it as it was.
    assert!(!scratch.names().iter().any(|name| name.contains(".fedsi-")));
}

#[test]
fn it_says_which_client_it_took() {
    let scratch = Scratch::new();
    // Client 0 is named 1, client 1 is named 2.
    scratch.write("t.csv", clinic().replace("bergen", "1").replace("oslo", "2"));
    scratch.write("x.csv", "age,dose\n25,0.5\n55,0.5\n");
    let mut all = vec!["run", "--method", "local", "--rounds", "2", "--out", "r", "--quiet"];
    let set = [
        "data.dataset=files",
        "data.files.train=t.csv",
        "data.files.client=site",
        "data.files.target=outcome",
    ];
    all.extend(set.iter().flat_map(|setting| ["--set", setting]));
    scratch.succeeds(&all);
    let ask = |client: &str, more: &[&str]| {
        let all = [&["predict", "--run", "r", "--input", "x.csv", "--client", client], more].concat();
        scratch.succeeds(&all)
    };
    for (client, said, id, by) in [
        ("2", "client 1 `2` (by name)\n", 1, "name"),
        ("0", "client 0 `1` (by id)\n", 0, "id"),
        ("1", " WARN client 0 `1` (by name; it is also the id of client 1)\n", 0, "name"),
    ] {
        let ended = ask(client, &["--json"]);
        assert_eq!(ended.stderr, said);
        let found = ended.json();
        assert_eq!((&found["client"], &found["client_by"]), (&id.into(), &by.into()), "{client}");
        let other = if client == "1" { Value::from(1) } else { Value::Null };
        assert_eq!(found.get("client_with_that_id").unwrap_or(&Value::Null), &other, "{client}");
    }
    // Quiet hides what is plain, and no doubt.
    assert_eq!(ask("2", &["-q"]).stderr, "");
    assert!(ask("1", &["-q"]).stderr.contains("it is also the id of client 1"));
}

#[cfg(unix)]
#[test]
fn predictions_overwrite_nothing_but_predictions() {
    let scratch = Scratch::new();
    scratch.write("x.npy", npy("|u1", "1, 784", &[0; 784]));
    scratch.write("fit.csv", "mine");
    scratch.write("notes.csv", "age,dose\n25,1\n");
    scratch.write("empty.csv", "");
    std::fs::hard_link(scratch.path("x.npy"), scratch.path("hard.npy")).unwrap();
    std::os::unix::fs::symlink(scratch.path("x.npy"), scratch.path("soft.npy")).unwrap();
    for (name, content) in digits().below("r") {
        if let Some(content) = content {
            scratch.write(&format!("r/{name}"), content);
        }
    }
    let ask = |out: &str, more: &[&str]| {
        let all = [&["predict", "--run", "r", "--client", "1", "--input", "x.npy", "--out", out], more];
        scratch.fedsi(&all.concat())
    };
    let before = scratch.everything();
    for force in [&[][..], &["--force"]] {
        for out in ["x.npy", "hard.npy", "soft.npy", "r/../x.npy"] {
            refused(&ask(out, force), &[out, "the same file as x.npy, which is read"]);
        }
        for out in ["r/summary.json", "r/clients/1.safetensors", "r/report.html"] {
            refused(&ask(out, force), &[out, "a file of r, which is read"]);
        }
    }
    refused(&ask("notes.csv", &[]), &["notes.csv", "fedsi predict did not write it", "--force"]);
    let fit = ["predict", "--run", "r", "--fit", "fit.csv", "--input", "x.npy", "--out", "fit.csv"];
    refused(&scratch.fedsi(&fit), &["the same file as fit.csv"]);
    assert_eq!(scratch.everything(), before, "nothing has changed");
    // Its own files it replaces, of either format, and empty ones; with --force others too.
    for out in ["p.csv", "p.csv", "p.json", "p.json", "empty.csv"] {
        let ended = ask(out, &[]);
        assert_eq!(ended.code, Some(0), "{out}: {}", ended.stderr);
    }
    assert_eq!(ask("notes.csv", &["--force"]).code, Some(0));
    assert_eq!(scratch.text("notes.csv"), scratch.text("p.csv"));
}

#[test]
fn values_come_with_their_intervals() {
    let scratch = Scratch::new();
    let mut text = "a,b,days\n".to_owned();
    for row in 0..90 {
        let (a, b) = (f64::from(row % 9), f64::from(row * 7 % 11));
        writeln!(text, "{a},{b},{}", 1000.0 + 30.0 * a - 20.0 * b + f64::from(row % 4)).unwrap();
    }
    scratch.write("t.csv", text);
    let set = [
        "data.dataset=files",
        "data.files.train=t.csv",
        "data.files.target=days",
        "data.files.task=regression",
    ];
    let mut all = vec!["run", "--rounds", "8", "--clients", "2", "--out", "r", "--quiet"];
    all.extend(set.iter().flat_map(|setting| ["--set", setting]));
    scratch.succeeds(&all);
    let ask = |more: &[&str]| {
        let mut all = vec!["predict", "--run", "r", "--input", "t.csv"];
        all.extend(more);
        scratch.fedsi(&all)
    };
    let ended = ask(&["--client", "0", "--coverage", "0.5"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.starts_with("a,b,days,mean,deviation,low,high,strangeness,abstain,reason\n"),
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.contains("above a deviation of"), "{}", ended.stderr);
    let numbers =
        |name| column(&ended.stdout, name).iter().map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>();
    let (mean, deviation, low, high) =
        (numbers("mean"), numbers("deviation"), numbers("low"), numbers("high"));
    assert_eq!(mean.len(), 90);
    for at in 0..90 {
        assert!(
            (500.0..1500.0).contains(&mean[at]) && deviation[at] > 0.0,
            "{} +- {}",
            mean[at],
            deviation[at]
        );
        assert!((high[at] - low[at] - 2.0 * 1.959_964 * deviation[at]).abs() < 2e-2, "six digits of 1000");
    }
    refused(&ask(&["--client", "0", "--risk", "0.1"]), &["--risk", "--coverage"]);
    let fitted = ask(&["--fit", "t.csv", "--json"]);
    assert_eq!(fitted.code, Some(0), "{}", fitted.stderr);
    assert_eq!(fitted.json()["rows"][89]["mean"].as_array().unwrap().len(), 1);
}
