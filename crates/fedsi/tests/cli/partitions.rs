//! Clients that come later, all data in one place, clients of unequal sizes: what runs leave behind and say.

use serde_json::{Value, json};

use crate::resume::{lines, same, start, wait_for};
use crate::support::Scratch;

const NOVEL: [&str; 7] = [
    "run",
    "--method=fedrep",
    "--rounds=12",
    "--clients=4",
    "--epochs=2",
    "--set=federation.novel_clients=3,0",
    "--set=checkpoint.rounds=2",
];

#[test]
fn novel_clients_are_named_and_scored() {
    let scratch = Scratch::new();
    let ended = scratch.succeeds(&[&NOVEL[..], &["--out=r"]].concat());
    let text = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("novel: clients 0, 3 took no part in training; they are among"), "{text}");
    assert!(text.contains("0 (novel)") && !text.contains("1 (novel)"), "{text}");
    let summary = scratch.json("r/summary.json");
    let novel: Vec<&Value> =
        summary["clients"].as_array().unwrap().iter().map(|client| &client["novel"]).collect();
    assert_eq!(novel, [&json!(true), &Value::Null, &Value::Null, &json!(true)]);
    assert!(summary["clients"][3]["accuracy"].as_f64().is_some());
    for line in scratch.json_lines("r/metrics.jsonl") {
        assert_eq!(line["participants"], json!([1, 2]), "both others, by default");
    }
    assert!(scratch.text("r/report.html").contains("3 (novel)"));
    let refused = scratch.fedsi(&["run", "--clients=4", "--set=federation.novel_clients=4"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("there is no client 4"), "{}", refused.stderr);
}

#[test]
fn a_run_with_novel_clients_resumes_to_the_same_bits() {
    let scratch = Scratch::new();
    scratch.succeeds(&[&NOVEL[..], &["--out=whole", "--quiet"]].concat());
    let mut child = start(&scratch, &[&NOVEL[..], &["--out=r", "--quiet"]].concat());
    wait_for(&mut child, || lines(&scratch, "r") >= 4);
    let _ = child.kill();
    child.wait().unwrap();
    scratch.fedsi(&["resume", "r", "--quiet"]);
    same(&scratch, "r", "whole", "novel clients");
}

#[test]
fn pooled_data_is_one_clients() {
    let scratch = Scratch::new();
    let pooled =
        ["run", "--method=fedavg", "--rounds=1", "--clients=3", "--set=partition.pooled=true", "--out=r"];
    scratch.succeeds(&pooled);
    let summary = scratch.json("r/summary.json");
    let clients = summary["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 1);
    assert_eq!((&clients[0]["name"], &clients[0]["samples"]), (&json!("pooled"), &json!(3 * 5 * 80)));
    assert_eq!(scratch.json_lines("r/metrics.jsonl")[0]["participants"], json!([0]));
    let divided = ["run", "--method=fedavg", "--rounds=1", "--clients=3", "--out=d", "--quiet"];
    scratch.succeeds(&divided);
    let digest = |run: &str| scratch.json(&format!("{run}/run.json"))["data"]["partition"].clone();
    assert_ne!(digest("r"), digest("d"), "other clients");
    let refused = scratch.fedsi(&["run", "--set=partition.pooled=true", "--participants=2"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("puts all data into one client"), "{}", refused.stderr);
}

/// All but the last client begin with what was learned in one place; predictions of saved models keep to own classes.
#[test]
fn clients_adapt_what_pooled_data_taught() {
    let scratch = Scratch::new();
    let arguments = [
        "run",
        "--method=fedavg-ft",
        "--rounds=1",
        "--clients=3",
        "--set=partition.pooled_client=true",
        "--set=calibration.own_classes=true",
        "--out=r",
        "--quiet",
    ];
    scratch.succeeds(&arguments);
    assert_eq!(scratch.json_lines("r/metrics.jsonl")[0]["participants"], json!([3]));
    let summary = scratch.json("r/summary.json");
    let clients = summary["clients"].as_array().unwrap();
    assert_eq!(
        (clients.len(), &clients[3]["name"], &clients[3]["samples"]),
        (4, &json!("pooled"), &json!(0))
    );
    assert!(clients[..3].iter().all(|client| client["novel"] == json!(true)));
    // Client 1 has the classes 5 to 9.
    let digit = vec!["0"; 784].join(",");
    let names: Vec<String> = (0..784).map(|pixel| format!("pixel{pixel}")).collect();
    scratch.write("digit.csv", format!("{}\n{digit}\n", names.join(",")));
    let predicted = ["predict", "--run=r", "--client=1", "--input=digit.csv", "--out=p.csv", "--quiet"];
    scratch.succeeds(&predicted);
    let text = scratch.text("p.csv");
    let mut lines = text.lines();
    let cells: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row: Vec<&str> = lines.next().unwrap().split(',').collect();
    let first = cells.iter().position(|cell| *cell == "0").unwrap();
    let probabilities: Vec<f64> = row[first..first + 10].iter().map(|cell| cell.parse().unwrap()).collect();
    assert!(probabilities[..5].iter().all(|p| *p == 0.0), "{probabilities:?}");
    assert!(probabilities[5..].iter().all(|p| *p > 0.0), "{probabilities:?}");
    let refused = scratch.fedsi(&["run", "--set=partition.pooled_client=true", "--participants=2"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("lets one client with all data train alone"), "{}", refused.stderr);
}

#[test]
fn clients_of_unequal_sizes_are_listed() {
    let scratch = Scratch::new();
    let arguments = ["data", "list", "--partition", "dirichlet", "--dataset", "digits", "--json"];
    let unequal = ["--set=partition.concentration=0.1", "--set=partition.unequal=true"];
    let table = scratch.succeeds(&[&arguments[..], &unequal[..]].concat()).json();
    let sizes: Vec<u64> = table["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|client| client["train"].as_u64().unwrap() + client["test"].as_u64().unwrap())
        .collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (10, 10 * 5 * 100));
    assert!(sizes.iter().max().unwrap() > &(2 * sizes.iter().min().unwrap()), "{sizes:?}");
}
