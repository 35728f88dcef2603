//! The small commands, the help, and pipes.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::Scratch;

/// Compares with a file in `tests/snapshots`.
fn snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("FEDSI_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "the text differs from {}.\nIf the new text is right: FEDSI_UPDATE_SNAPSHOTS=1 cargo test -p fedsi, and look \
         at the difference before you commit it.\n--- kept ---\n{kept}\n--- new ---\n{text}",
        path.display()
    );
}

#[test]
fn the_help_is_what_was_agreed() {
    let scratch = Scratch::new();
    snapshot("help.txt", &scratch.succeeds(&["--help"]).stdout);
    snapshot("run-help.txt", &scratch.succeeds(&["run", "--help"]).stdout);
    snapshot("compare-help.txt", &scratch.succeeds(&["compare", "--help"]).stdout);
    snapshot("predict-help.txt", &scratch.succeeds(&["predict", "--help"]).stdout);
    snapshot("score-help.txt", &scratch.succeeds(&["score", "--help"]).stdout);
    snapshot("list-help.txt", &scratch.succeeds(&["list", "--help"]).stdout);
    snapshot("paper-help.txt", &scratch.succeeds(&["paper", "--help"]).stdout);
    snapshot("ood-help.txt", &scratch.succeeds(&["ood", "--help"]).stdout);
    let short = scratch.succeeds(&["-h"]).stdout;
    assert!(short.contains("Usage: fedsi"), "{short}");
    assert_eq!(scratch.succeeds(&["--version"]).stdout, format!("fedsi {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_methods_are_listed_with_what_they_share_and_keep() {
    let scratch = Scratch::new();
    let text = scratch.succeeds(&["methods"]).stdout;
    let list = scratch.succeeds(&["methods", "--json"]).json();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    let known =
        "fedsi fedsi-fac local fedavg fedavg-ft fedper fedrep fedbabu lg-fedavg pfedbayes bpfed fedpop";
    assert_eq!(names.join(" "), known);
    for entry in list.as_array().unwrap() {
        let (name, source) = (entry["name"].as_str().unwrap(), entry["source"].as_str().unwrap());
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect(name);
        for key in ["shares", "keeps"] {
            assert!(line.contains(entry[key].as_str().unwrap()), "{name} {key}: {line}");
        }
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "more than 80 letters");
        assert!(text.contains(&format!("\n{name} ({source})\n")), "{name} comes from {source}: {text}");
        let bytes = &entry["bytes"];
        assert_eq!(bytes["up"].as_u64().unwrap() > 0, name != "local", "{name} sends {bytes}");
        scratch.succeeds(&["config", "--method", name]);
    }
}

#[test]
fn the_datasets_are_listed() {
    let scratch = Scratch::new();
    let text = scratch.succeeds(&["data", "list"]).stdout;
    let list = scratch.succeeds(&["data", "list", "--json"]).json();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["digits", "mnist", "fashion-mnist", "cifar-10", "files"]);
    for name in names {
        assert!(text.lines().any(|line| line.starts_with(name)), "no {name} in:\n{text}");
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "trailing blanks");
}

#[test]
fn a_partition_is_shown_as_a_table_of_labels() {
    let scratch = Scratch::new();
    let text = scratch.succeeds(&["data", "list", "--partition", "labels", "--clients", "4"]).stdout;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["client", "all", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    let (mine, none) = ("20/80", "·");
    assert_eq!(lines[1], ["0", "100/400", mine, mine, mine, mine, mine, none, none, none, none, none]);
    assert_eq!(lines[2], ["1", "100/400", none, none, none, none, none, mine, mine, mine, mine, mine]);

    let mixed = ["data", "list", "--partition", "dirichlet", "--clients", "4", "--json"];
    let table = scratch.succeeds(&mixed).json();
    let clients = table["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 4);
    for client in clients {
        for split in ["train", "test"] {
            let counts = client[format!("{split}_per_class")].as_array().unwrap();
            let sum: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
            assert_eq!(client[split], sum, "{client}");
        }
    }
    let other = scratch.succeeds(&[&mixed[..], &["--seed", "2"]].concat()).json();
    assert_ne!(table, other, "the seed draws the mixes");
    assert_eq!(scratch.names(), [""; 0], "listing writes nothing");
}

/// Every key of the schema, with dots, references followed.
fn keys(schema: &Value, root: &Value, prefix: &str, found: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        None => schema,
        Some(reference) => {
            root.pointer(reference.trim_start_matches('#')).expect("a reference that leads somewhere")
        }
    };
    let properties = schema["properties"].as_object().filter(|_| schema["type"] == "object");
    for (key, inner) in properties.into_iter().flatten() {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        assert!(inner["description"].is_string() || inner["$ref"].is_string(), "{key} is not described");
        let before = found.len();
        keys(inner, root, &key, found);
        if found.len() == before {
            found.push(key);
        }
    }
}

#[test]
fn the_config_has_every_key_of_the_schema_each_under_a_comment() {
    let scratch = Scratch::new();
    let schema = scratch.succeeds(&["config", "--schema"]).json();
    assert!(schema["$schema"].as_str().is_some_and(|name| name.starts_with("https://json-schema.org/")));
    let mut found = Vec::new();
    keys(&schema, &schema, "", &mut found);
    for expected in ["method", "rounds", "data.files.client", "training.learning_rate", "validation.fraction"]
    {
        assert!(found.iter().any(|key| key == expected), "no {expected} in the schema");
    }
    let text = scratch.succeeds(&["config"]).stdout;
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("no TOML: {error}"));
    // A method of these crates declares no settings there.
    for key in found.iter().filter(|key| *key != "method_settings") {
        let mut value = &toml::Value::Table(table.clone());
        for part in key.split('.') {
            value = value.get(part).unwrap_or_else(|| panic!("no {key} in the config"));
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in
        lines.iter().enumerate().filter(|(_, line)| line.contains(" = ") && !line.starts_with('#'))
    {
        assert!(at > 0 && lines[at - 1].starts_with("# "), "no comment above: {line}");
    }
}

#[test]
fn the_printed_config_runs_and_prints_itself() {
    let scratch = Scratch::new();
    let text = scratch.succeeds(&["config", "--method", "fedper", "--rounds", "1", "--clients", "2"]).stdout;
    scratch.write("c.toml", &text);
    assert_eq!(scratch.succeeds(&["config", "c.toml"]).stdout, text);
    let summary = scratch.succeeds(&["run", "c.toml", "--seed", "9", "--json", "--out", "r"]).json();
    assert_eq!(
        (&summary["method"], &summary["rounds"], &summary["seed"]),
        (&"fedper".into(), &1.into(), &9.into())
    );
    let written = scratch.text("r/config.toml");
    let (signature, written) = written.split_once('\n').unwrap();
    assert!(signature.starts_with("# Written by fedsi "), "{signature}");
    assert_eq!(written, text.replace("seed = 1\n", "seed = 9\n"));
    let json = scratch.succeeds(&["config", "c.toml", "--json"]).json();
    assert_eq!((&json["method"], &json["partition"]["clients"]), (&"fedper".into(), &2.into()));
}

#[test]
fn a_config_file_needs_only_the_keys_that_differ() {
    let scratch = Scratch::new();
    scratch.write("c.toml", "method = \"local\"\nrounds = 1\n\n[partition]\nclients = 3\n");
    let summary = scratch.succeeds(&["run", "c.toml", "--json", "--clients", "2"]).json();
    assert_eq!((&summary["method"], summary["clients"].as_array().unwrap().len()), (&"local".into(), 2));
}

#[test]
fn calibrate_scores_what_can_be_worked_out_by_hand() {
    let scratch = Scratch::new();
    let rows = r#"{"probabilities": [[0.5, 0.5], [0.9, 0.1]], "labels": [0, 1], "model": "any"}"#;
    scratch.write("p.json", rows);
    let scores = scratch.succeeds(&["calibrate", "p.json"]).json();
    let expected = [
        ("accuracy", 0.5),
        ("ece", 0.7),
        ("mce", 0.9),
        ("mce_1pct", 0.9),
        ("brier", 1.06),
        ("nll", -(0.5_f64.ln() + 0.1_f64.ln()) / 2.0),
    ];
    for (key, value) in expected {
        let found = scores[key].as_f64().unwrap();
        assert!((found - value).abs() < 1e-12, "{key}: {found}, by hand {value}");
    }
    let coarse = scratch.succeeds(&["calibrate", "p.json", "--bins", "1"]).json();
    assert!((coarse["ece"].as_f64().unwrap() - 0.2).abs() < 1e-12, "{coarse}");
}

/// Runs a command whose reader goes away at once.
fn into_a_closed_pipe(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fedsi"))
        .args(arguments)
        .current_dir(scratch.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_pipe_that_is_closed_early_is_no_failure() {
    let scratch = Scratch::new();
    for arguments in [
        &["config"][..],
        &["config", "--schema"],
        &["methods"],
        &["data", "list"],
        &["data", "list", "--partition", "labels"],
        &["--help"],
        &["run", "--rounds", "1", "--clients", "2", "--json", "--out", "r"],
    ] {
        let (code, stderr) = into_a_closed_pipe(&scratch, arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "fedsi {}", arguments.join(" "));
    }
    assert!(scratch.path("r/summary.json").is_file(), "the run is complete all the same");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_behind_stdout_is_a_failure_in_one_line() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fedsi")).arg("config").stdout(full).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
}
