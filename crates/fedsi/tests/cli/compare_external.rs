//! Comparisons with other tools' predictions, from a file, stopped half-way, and their columns.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bad_input::refuses;
use crate::support::{Scratch, arrays, program};

/// A short comparison.
const SHORT: [&str; 5] = ["compare", "--rounds=2", "--clients=4", "--epochs=1", "--out=c"];

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT[..], more].concat()
}

/// A run's predictions as a CSV with classes in another order, and a label a row.
fn export(scratch: &Scratch, run: &str, file: &str) {
    let arrays = arrays(&scratch.bytes(&format!("{run}/predictions.safetensors")));
    let (rows, labels, clients) = (&arrays["probabilities"].2, &arrays["labels"].2, &arrays["client"].2);
    let names: Vec<String> = (0..10).rev().map(|class| class.to_string()).collect();
    let mut text = format!("client,label,{}\n", names.join(","));
    for (row, values) in rows.chunks(10).enumerate() {
        let values: Vec<String> = values.iter().rev().map(f64::to_string).collect();
        text.push_str(&format!("{},{},{}\n", clients[row], labels[row], values.join(",")));
    }
    scratch.write(file, text);
}

fn method<'a>(found: &'a Value, name: &str) -> &'a Value {
    found["methods"].as_array().unwrap().iter().find(|method| method["name"] == name).unwrap()
}

#[test]
fn another_tool_stands_beside_the_methods() {
    let scratch = Scratch::new();
    scratch.succeeds(&short(&["--methods=local,fedavg", "--seeds=5", "--quiet"]));
    for seed in 1..=5 {
        export(&scratch, &format!("c/local-s{seed}"), &format!("p/torch-{seed}.csv"));
    }
    let with = short(&["--methods=local,fedavg", "--seeds=5", "--with", "PyTorch=p/torch-{seed}.csv"]);
    let table = scratch.succeeds(&with).stdout;
    assert!(table.contains("PyTorch (external)") && table.contains("external: another tool's"), "{table}");
    let found = scratch.json("c/compare.json");
    let (own, other) = (method(&found, "local"), method(&found, "PyTorch"));
    assert_eq!(other["external"], "p/torch-{seed}.csv");
    assert!(own.get("external").is_none());
    for (a, b) in own["runs"].as_array().unwrap().iter().zip(other["runs"].as_array().unwrap()) {
        assert_eq!(a["scores"], b["scores"], "the same predictions have the same scores");
        assert!(b["seconds"].is_null() && b["bytes"].is_null());
        assert_eq!((&a["seed"], &a["scored_clients"]), (&b["seed"], &b["scored_clients"]));
    }
    // Tested as any other: against local, which it equals, there is no difference; as the reference it has the others'.
    assert_eq!(other["metrics"]["nll"]["difference"]["mean"], 0.0);
    let back = scratch.succeeds(&[&with[..], &["--reference=PyTorch", "--json"]].concat()).json();
    let [there, here] = [(&found, "fedavg"), (&back, "fedavg")]
        .map(|(found, name)| method(found, name)["metrics"]["nll"]["difference"].clone());
    assert_eq!(back["reference"], "PyTorch");
    assert_eq!(
        (&there["mean"], &there["p"], &there["bootstrap"]),
        (&here["mean"], &here["p"], &here["bootstrap"])
    );
    let page = scratch.text("c/report.html");
    assert!(page.contains("PyTorch (external)") && page.contains("data-plot=\"reliability-PyTorch\""));
    // The page is made from the folder alone.
    std::fs::remove_dir_all(scratch.path("p")).unwrap();
    scratch.succeeds(&["report", "c"]);
    assert_eq!(scratch.text("c/report.html"), page);
}

#[test]
fn predictions_of_other_rows_are_refused_before_anything_is_written() {
    let scratch = Scratch::new();
    scratch.succeeds(&[
        "run",
        "--method=local",
        "--rounds=1",
        "--clients=4",
        "--epochs=1",
        "--quiet",
        "--out=r",
    ]);
    export(&scratch, "r", "good.csv");
    let good = scratch.text("good.csv");
    let lines: Vec<&str> = good.lines().collect();
    let with = |lines: &[&str]| lines.join("\n") + "\n";
    scratch.write("fewer.csv", with(&lines[..lines.len() - 1]));
    // Two rows of one client with different labels, in the wrong order.
    let label = |line: &str| line.split(',').nth(1).unwrap().to_owned();
    let place = (1..lines.len() - 1).find(|&at| label(lines[at]) != label(lines[at + 1])).unwrap();
    let mut swapped = lines.clone();
    swapped.swap(place, place + 1);
    scratch.write("swapped.csv", with(&swapped));
    scratch.write("owner.csv", good.replacen("\n0,", "\n1,", 1));
    scratch.write("names.csv", good.replace("9,8,7", "nine,eight,seven"));
    scratch.write("sum.csv", {
        let mut broken = lines.clone();
        let cells: Vec<&str> = broken[3].split(',').take(2).chain(["0.3"; 10]).collect();
        let row = cells.join(",");
        broken[3] = &row;
        with(&broken)
    });
    let classes = json!({ "probabilities": vec![[0.5, 0.5]; lines.len() - 1] });
    scratch.write("classes.json", classes.to_string());
    let values = json!({ "mean": vec![0.0; lines.len() - 1], "variance": vec![1.0; lines.len() - 1] });
    scratch.write("values.json", values.to_string());
    let row = format!("row {}", place - 1);
    refuses(
        &scratch,
        &[
            "compare",
            "--rounds=1",
            "--clients=4",
            "--epochs=1",
            "--methods=local",
            "--seeds=1",
            "--out=c",
            "--with",
        ],
        &[
            (&["x=fewer.csv"], &["fewer.csv", "1599 rows", "1600 test rows", "fedsi data export"]),
            (&["x=swapped.csv"], &["swapped.csv", &row, "label", "fedsi data export"]),
            (&["x=owner.csv"], &["owner.csv", "row 0", "client `1`", "client `0`"]),
            (&["x=names.csv"], &["names.csv", "nine, eight, seven"]),
            (&["x=sum.csv"], &["sum.csv", "row 2", "sum to 1"]),
            (&["x=classes.json"], &["classes.json", "2 classes", "10"]),
            (&["x=values.json"], &["values.json", "classification"]),
            (&["x=missing.csv"], &["missing.csv", "No such file"]),
            (&["x"], &["`x`", "NAME=FILE"]),
            (&["=good.csv"], &["NAME=FILE"]),
            (&["FedAvg=good.csv"], &["`FedAvg` is a method", "another name"]),
            (&["a/b=good.csv"], &["a/b=good.csv", "letters"]),
            (&["x=good.csv", "--with", "X=good.csv"], &["two of the name `X`"]),
            (&["x=good.csv", "--seeds=2"], &["one file for 2 seeds", "{seed}"]),
            (&["x=p-{seed}.csv", "--seeds=2"], &["p-1.csv"]),
            (&["x=good.csv", "--reference=y"], &["unknown method `y`"]),
        ],
    );
}

/// The exported test rows of a table, with predictions beside them: which rows they are is checked.
#[test]
fn exported_rows_are_known_by_number_and_id() {
    let scratch = Scratch::new();
    let mut table = "visit,site,age,ward,outcome\n".to_owned();
    for row in 0..160 {
        let (site, ward) = (["n", "s"][row % 2], ["icu", "er"][row / 2 % 2]);
        let outcome = if row * 7 % 10 < 4 { "died" } else { "home" };
        table += &format!("v{row:03},{site},{},{ward},{outcome}\n", 30 + row * 13 % 50);
    }
    scratch.write("t.csv", table);
    let settings = [
        "data.files.train=t.csv",
        "data.files.target=outcome",
        "data.files.client=site",
        "data.files.id=visit",
    ];
    let settings: Vec<&str> = settings.iter().flat_map(|&setting| ["--set", setting]).collect();
    let typed = |first: &[&'static str], more: &[&'static str]| -> Vec<&str> {
        [first, &["--dataset", "files"], &settings, more].concat()
    };
    scratch.succeeds(&typed(&["data", "export"], &["--out", "x"]));
    let readme = scratch.text("x/README.txt");
    assert!(readme.contains("Columns that test.csv has may stay") && !readme.contains("ignored"), "{readme}");
    let lines: Vec<String> = scratch.text("x/test.csv").lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "client,row,id,outcome,age,ward");
    let with = |name: &str, lines: &[String], columns: std::ops::Range<usize>| {
        let row = |(at, line): (usize, &String)| {
            let cells: Vec<&str> = line.split(',').collect();
            let more = if at == 0 { "home,died" } else { "0.75,0.25" };
            cells[columns.clone()].iter().map(|cell| format!("{cell},")).collect::<String>() + more + "\n"
        };
        scratch.write(name, lines.iter().enumerate().map(row).collect::<String>());
    };
    with("all.csv", &lines, 0..6);
    with("bare.csv", &lines, 0..1);
    // Two rows of one client with the same outcome in the wrong order.
    let same = |line: &String| [0, 3].map(|at| line.split(',').nth(at).unwrap().to_owned());
    let other = (2..lines.len()).find(|&at| same(&lines[at]) == same(&lines[1])).unwrap();
    let mut swapped = lines.clone();
    swapped.swap(1, other);
    with("rows.csv", &swapped, 0..4);
    with("ids.csv", &swapped, 2..4);
    scratch.write("more.csv", scratch.text("all.csv").replace("ward", "wards"));
    let compare = ["compare", "--rounds=1", "--epochs=1", "--methods=local", "--seeds=1"];
    let ended = scratch.succeeds(&typed(&compare, &["--out=c", "--with", "x=all.csv"]));
    assert!(!ended.stderr.contains("nothing but their number"), "{}", ended.stderr);
    let found = scratch.json("c/compare.json");
    let tested = lines.len() - 1;
    let home = lines.iter().filter(|line| line.split(',').nth(3) == Some("home")).count();
    let died = tested - home;
    let nll = -(home as f64 * 0.75_f64.ln() + died as f64 * 0.25_f64.ln()) / tested as f64;
    let own = method(&found, "x")["runs"][0]["scores"]["nll"].as_f64().unwrap();
    assert!((own - nll).abs() < 1e-6, "{own} is not {nll}");
    let ended = scratch.succeeds(&typed(&compare, &["--out=d", "--with", "x=bare.csv"]));
    assert!(ended.stderr.contains("bare.csv: nothing but their number says"), "{}", ended.stderr);
    refuses(
        &scratch,
        &typed(&compare, &["--out=e", "--with"]),
        &[
            (&["x=rows.csv"], &["rows.csv", "row 0 has the `row`", "fedsi data export"]),
            (&["x=ids.csv"], &["ids.csv", "row 0 has the `id` v", "fedsi data export"]),
            (&["x=more.csv"], &["more.csv", "column `wards` is neither a class"]),
        ],
    );
    assert!(!scratch.path("e").exists(), "nothing is written");
}

#[test]
fn a_comparison_can_be_a_file() {
    let scratch = Scratch::new();
    let file = "rounds = 1\n[partition]\nclients = 3\n[training]\nepochs = 1\n\
                [compare]\nmethods = [\"FedAvg\", \"local\"]\nseeds = 2\nreference = \"local\"\ncolumns = \"nll,seconds\"\n";
    scratch.write("c.toml", file);
    let table = scratch.succeeds(&["compare", "c.toml", "--out=c"]).stdout;
    let heading: Vec<&str> =
        table.lines().find(|line| line.starts_with("method")).unwrap().split_whitespace().collect();
    assert_eq!(heading, ["method", "NLL", "seconds"], "{table}");
    let found = scratch.json("c/compare.json");
    assert_eq!((&found["seeds"], &found["reference"]), (&json!([1, 2]), &"local".into()));
    // What is written there is the same comparison again, from anywhere.
    let before = scratch.below("c");
    scratch.succeeds(&["compare", "c/compare.toml", "--out=c", "--quiet"]);
    assert_eq!(scratch.below("c"), before, "nothing is made again");
    // Flags win over the file.
    let flags = [
        "compare",
        "c.toml",
        "--out=d",
        "--methods=local",
        "--seeds=1",
        "--columns=accuracy",
        "--format=plain",
        "--quiet",
    ];
    let table = scratch.succeeds(&flags).stdout;
    let heading: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert!(heading == ["method", "accuracy", "%"] && !table.contains("FedAvg"), "{table}");
    scratch.write("typo.toml", "[compare]\nmethod = \"local\"\n");
    scratch.write("kind.toml", "[compare]\nseeds = \"two\"\n");
    scratch.write("value.toml", "compare = 3\n");
    scratch.write("unquoted.toml", "rounds = 1\nmethod = fedavg # ours\n");
    refuses(
        &scratch,
        &[],
        &[
            (&["compare", "typo.toml"], &["compare", "`method`", "typo.toml"]),
            (&["compare", "kind.toml"], &["compare", "kind.toml"]),
            (&["compare", "value.toml"], &["compare", "[compare]"]),
            (&["run", "c.toml"], &["unknown key `compare`", "fedsi compare"]),
            (
                &["run", "unquoted.toml"],
                &["unquoted.toml", "line 2", "texts need quotes: method = \"fedavg\""],
            ),
        ],
    );
}

#[test]
fn columns_are_chosen_by_their_names() {
    let scratch = Scratch::new();
    let two = |more: &[&'static str]| short(&[&["--methods=local,fedavg", "--seeds=2"], more].concat());
    let table = scratch.succeeds(&two(&[])).stdout;
    let wide = table.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{table}");
    assert!(table.contains("more columns: --columns ") && table.contains("validation.fraction"), "{table}");
    // Two seeds are too few: nothing that looks like a test is printed anywhere.
    let page = scratch.text("c/report.html");
    for text in [&table, &page] {
        assert!(!text.contains("p (Holm)") && !text.contains("0.0%, p"), "{text}");
    }
    let found = scratch.json("c/compare.json");
    let p = |method: &Value| method["metrics"]["nll"]["difference"]["p"].is_null();
    assert!(found["methods"].as_array().unwrap().iter().all(p), "{found}");
    let heading = |table: &str| {
        table
            .lines()
            .next()
            .unwrap()
            .split("  ")
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let some =
        scratch.succeeds(&two(&["--format=plain", "--quiet", "--columns=aurc, bytes,ece_floor,rmse"])).stdout;
    assert_eq!(heading(&some), ["method", "AURC", "MB", "floor", "rmse"], "{some}");
    refuses(
        &scratch,
        &["compare", "--rounds=1", "--out=d"],
        &[(
            &["--columns=accuracy,nlll"],
            &["`nlll`", "did you mean `nll`?", "known: accuracy, ece", "--columns"],
        )],
    );
}

#[test]
fn held_out_curves_are_drawn_where_something_is_held_out() {
    let scratch = Scratch::new();
    let table = scratch
        .succeeds(&short(&["--methods=local,fedavg", "--seeds=1", "--set", "validation.fraction=0.25"]))
        .stdout;
    assert!(!table.contains("validation.fraction"), "{table}");
    let page = scratch.text("c/report.html");
    assert!(
        page.contains("data-plot=\"held-out-curves\"")
            && scratch.path("c/plots/held-out-curves.svg").is_file()
    );
}

#[test]
fn a_comparison_that_is_not_complete_has_a_page_of_what_there_is() {
    let scratch = Scratch::new();
    scratch.succeeds(&short(&["--methods=local,fedavg", "--seeds=2", "--quiet"]));
    // As a process that was killed leaves it.
    for name in ["c/compare.json", "c/report.html", "c/fedavg-s2/summary.json"] {
        std::fs::remove_file(scratch.path(name)).unwrap();
    }
    scratch.succeeds(&["report", "c"]);
    let page = scratch.text("c/report.html");
    for words in ["Not complete: 3 of 4 runs", "FedAvg: seed 2", "data-plot=\"reliability-local\""] {
        assert!(page.contains(words), "no `{words}`");
    }
    assert!(!scratch.path("c/compare.json").exists(), "it is not complete");
    // With none of what was asked for last, those of before.
    let other = scratch.text("c/compare.toml").replace("[\"local\", \"fedavg\"]", "[\"fedsi\"]");
    assert!(other.contains("fedsi"), "{other}");
    scratch.write("c/compare.toml", other);
    scratch.succeeds(&["report", "c"]);
    assert!(scratch.text("c/report.html").contains("data-plot=\"reliability-local\""));
    std::fs::remove_dir_all(scratch.path("c/local-s1")).unwrap();
    for name in ["c/local-s2/summary.json", "c/fedavg-s1/summary.json"] {
        std::fs::remove_file(scratch.path(name)).unwrap();
    }
    let ended = scratch.fedsi(&["report", "c"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("none of its runs is"), "{}", ended.stderr);
}

#[cfg(unix)]
#[test]
fn one_that_is_interrupted_says_where_the_page_is() {
    let scratch = Scratch::new();
    let base = ["compare", "--rounds=300", "--clients=4", "--epochs=1", "--seeds=1", "--out=c"];
    scratch.succeeds(&[&base[..], &["--methods=local", "--quiet"]].concat());
    let mut command = Command::new(program(&scratch.path("")).get_program());
    command.current_dir(scratch.path("")).args(base).args(["--methods=local,fedsi", "--quiet"]);
    let mut child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !std::fs::metadata(scratch.path("c/fedsi-s1/metrics.jsonl")).is_ok_and(|file| file.len() > 0) {
        assert!(child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("c/report.html") && words.contains("the same command resumes it"), "{words}");
    let page = scratch.text("c/report.html");
    assert!(page.contains("Not complete: 1 of 2 runs") && page.contains("FedSI: seed 1"));
}

#[test]
fn plots_are_written_as_pdf_where_it_is_asked_for() {
    let scratch = Scratch::new();
    scratch.succeeds(&short(&["--methods=local,fedavg", "--seeds=1", "--quiet"]));
    let pdfs = |folder: &str| {
        scratch.below(folder).into_iter().filter(|(name, _)| name.ends_with(".pdf")).collect::<Vec<_>>()
    };
    assert!(pdfs("c").is_empty());
    scratch.succeeds(&["report", "--pdf", "c", "c/local-s1"]);
    let svgs = scratch.below("c/plots").into_keys().filter(|name| name.ends_with(".svg")).count();
    assert_eq!(pdfs("c/plots").len(), svgs);
    for (name, bytes) in pdfs("c") {
        let bytes = bytes.unwrap();
        assert!(bytes.starts_with(b"%PDF-") && bytes.len() < 200_000, "{name}: {} bytes", bytes.len());
    }
    // The run's folder is still a run's and nothing but a run's.
    let again = [
        "run",
        "--method=local",
        "--rounds=2",
        "--clients=4",
        "--epochs=1",
        "--out=c/local-s1",
        "--force",
        "--quiet",
    ];
    scratch.succeeds(&again);
}

#[test]
fn methods_are_known_by_the_names_of_their_publications() {
    let scratch = Scratch::new();
    let run = ["run", "--method", "FedAvg-FT", "--rounds=1", "--clients=2", "--epochs=1", "--json"];
    let summary = scratch.succeeds(&run).json();
    assert_eq!(summary["method"], "fedavg-ft");
    assert!(scratch.path("runs/fedavg-ft-digits-small-s1/summary.json").is_file(), "{:?}", scratch.names());
    assert!(scratch.succeeds(&["config", "--method", "FedSI"]).stdout.contains("method = \"fedsi\""));
}
