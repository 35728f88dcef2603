//! What `fedsi run` leaves behind and says.

use fedsi_fl::parameters::Parameters;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use crate::support::{Scratch, arrays};

const SCORES: [&str; 6] = ["accuracy", "ece", "mce", "mce_1pct", "brier", "nll"];

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("`{key}` is no number in {value}"))
}

#[test]
fn a_run_without_arguments_leaves_every_file_of_the_contract() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds", "2"]);
    let names = scratch.below("runs/fedsi-digits-small-s1").into_keys();
    let (plots, names): (Vec<String>, Vec<String>) = names.partition(|name| name.starts_with("plots/"));
    assert!(plots.len() > 10, "{plots:?}");
    let mut expected: Vec<String> = (0..10).map(|id| format!("clients/{id}.safetensors")).collect();
    expected.extend(
        [
            "checkpoint",
            "checkpoint/server.safetensors",
            "clients",
            "config.toml",
            "report_data.safetensors",
            "metrics.jsonl",
            "plots",
            "predictions.csv",
            "predictions.safetensors",
            "report.html",
            "run.json",
            "summary.json",
        ]
        .map(str::to_owned),
    );
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_round_is_a_line_of_metrics() {
    let scratch = Scratch::new();
    scratch.succeeds(&[
        "run",
        "--method",
        "fedbabu",
        "--rounds",
        "3",
        "--participants",
        "4",
        "--out",
        "r",
        "--quiet",
    ]);
    let lines = scratch.json_lines("r/metrics.jsonl");
    assert_eq!(lines.len(), 3, "one line a round");
    let (mut up, mut down) = (0.0, 0.0);
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["round"], at + 1);
        assert!(number(line, "train_loss") > 0.0, "{line}");
        assert_eq!(line["participants"].as_array().unwrap().len(), 4, "{line}");
        assert_eq!(line["left_out"], json!([]));
        assert!(line.get("validation").is_none(), "scores without validation.fraction: {line}");
        for phase in ["train", "posterior", "aggregate"] {
            assert!(number(&line["seconds"], phase) >= 0.0, "{phase}: {line}");
        }
        up += number(&line["bytes"], "up");
        down += number(&line["bytes"], "down");
    }
    let bytes = &scratch.json("r/summary.json")["bytes"];
    assert_eq!(
        (number(bytes, "up"), number(bytes, "down")),
        (up, down),
        "summary's bytes are the rounds' sum"
    );
    // Fedbabu sends the body, 78,500 parameters of four bytes, and little else.
    let body = 3.0 * 4.0 * 78_500.0 * 4.0;
    assert!(up >= body && up < 1.01 * body, "{up} bytes up for a body of {body}");
}

#[test]
fn the_summary_has_every_key_of_the_contract() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--method", "fedper", "--rounds", "2", "--seed", "7", "--out", "r", "--quiet"]);
    let summary = scratch.json("r/summary.json");
    for (key, expected) in [
        ("method", json!("fedper")),
        ("dataset", json!("digits")),
        ("size", json!("small")),
        ("seed", json!(7)),
        ("rounds", json!(2)),
    ] {
        assert_eq!(summary[key], expected, "{key}");
    }
    for key in SCORES {
        assert!(number(&summary, key).is_finite(), "{key}");
    }
    for key in ["accuracy", "ece", "mce", "mce_1pct"] {
        assert!((0.0..=1.0).contains(&number(&summary, key)), "{key} = {} is no share of one", summary[key]);
    }
    for key in ["accuracy", "balanced_accuracy", "ece", "brier", "nll", "aurc"] {
        let (ends, value) = (&summary["intervals"][key], number(&summary, key));
        let (low, high) = (ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap());
        assert!(low <= value && value <= high && low < high, "{key}: {ends} around {value}");
    }
    assert_eq!(summary["intervals_by"], "clients");
    let majority = number(&summary, "majority_accuracy");
    assert!((majority - 0.2).abs() < 1e-12, "five classes a client, as many of each: {majority}");
    let lowest = summary["clients"].as_array().unwrap().iter().map(|client| number(client, "accuracy"));
    assert_eq!(number(&summary, "worst_tenth_accuracy"), lowest.fold(1.0, f64::min));
    let confusion = summary["confusion"].as_array().unwrap();
    for (row, class) in confusion.iter().zip(summary["classes"].as_array().unwrap()) {
        let counts: Vec<u64> = row.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
        assert_eq!((counts.len(), counts.iter().sum::<u64>()), (10, class["samples"].as_u64().unwrap()));
        assert!((0.0..=1.0).contains(&number(class, "auroc")), "{class}");
    }
    let clients = summary["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 10);
    for (id, client) in clients.iter().enumerate() {
        assert_eq!(client["id"], id);
        assert_eq!(client["samples"], 400);
        for key in SCORES {
            assert!(number(client, key).is_finite(), "client {id}: {key}");
        }
    }
    let seconds = &summary["seconds"];
    let parts: f64 = ["train", "posterior", "evaluate"].iter().map(|part| number(seconds, part)).sum();
    assert!(parts > 0.0 && parts <= number(seconds, "total"), "{seconds}");
    assert!(number(&summary["bytes"], "up") > 0.0 && number(&summary["bytes"], "down") > 0.0);
    if cfg!(target_os = "linux") {
        assert!(number(&summary, "peak_rss_bytes") > 1e6, "{}", summary["peak_rss_bytes"]);
    }
    assert_eq!(summary["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn predictions_are_plain_arrays_without_metadata() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds", "1", "--clients", "3", "--out", "r", "--quiet"]);
    let bytes = scratch.bytes("r/predictions.safetensors");
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata(), &None, "metadata would make equal runs unequal");
    let arrays = arrays(&bytes);
    let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
    assert_eq!(names, ["client", "labels", "probabilities"]);
    let (kind, shape, probabilities) = &arrays["probabilities"];
    assert_eq!((*kind, &shape[..]), (Dtype::F32, &[1200, 10][..]));
    for row in probabilities.chunks(10) {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5, "a row that does not sum to 1: {row:?}");
    }
    let (kind, shape, labels) = &arrays["labels"];
    assert_eq!((*kind, &shape[..]), (Dtype::I64, &[1200][..]));
    assert!(labels.iter().all(|label| (0.0..10.0).contains(label)));
    let (kind, shape, owners) = &arrays["client"];
    assert_eq!((*kind, &shape[..]), (Dtype::I64, &[1200][..]));
    let expected: Vec<f64> = (0..3).flat_map(|id| std::iter::repeat_n(f64::from(id), 400)).collect();
    assert_eq!(owners, &expected);
}

#[test]
fn personal_models_have_the_names_and_shapes_of_pytorch() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds", "1", "--clients", "2", "--out", "r", "--quiet"]);
    for file in ["r/clients/0.safetensors", "r/clients/1.safetensors", "r/checkpoint/server.safetensors"] {
        let named = arrays(&scratch.bytes(file)).into_iter();
        // Names of PyTorch begin with the layer's number; posteriors and variances have names of their own.
        let parameters = named.filter(|(name, _)| name.starts_with(|first: char| first.is_ascii_digit()));
        let shapes: Vec<Vec<usize>> = parameters.map(|(_, (_, shape, _))| shape).collect();
        assert_eq!(shapes, [vec![100], vec![100, 784], vec![10], vec![10, 100]], "{file}");
    }
    scratch.succeeds(&[
        "run",
        "--rounds",
        "1",
        "--set",
        "output.personal_models=false",
        "--out",
        "s",
        "--quiet",
    ]);
    assert!(!scratch.path("s/clients").exists(), "models were not asked for");
}

#[test]
fn the_scores_are_those_of_the_predictions() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds", "2", "--out", "r", "--quiet"]);
    let arrays = arrays(&scratch.bytes("r/predictions.safetensors"));
    let rows: Vec<&[f64]> = arrays["probabilities"].2.chunks(10).collect();
    let labels: Vec<i64> = arrays["labels"].2.iter().map(|&label| label as i64).collect();
    scratch
        .write("p.json", json!({ "probabilities": rows, "labels": labels, "note": "ignored" }).to_string());
    let again = scratch.succeeds(&["calibrate", "p.json"]).json();
    let summary = scratch.json("r/summary.json");
    for key in SCORES {
        let (there, here) = (number(&summary, key), number(&again, key));
        assert!((there - here).abs() < 1e-6, "{key}: {there} in summary.json, {here} from the predictions");
    }
    let clients = summary["clients"].as_array().unwrap();
    let mean = clients.iter().map(|client| number(client, "accuracy")).sum::<f64>() / clients.len() as f64;
    assert!((number(&summary, "accuracy") - mean).abs() < 1e-12, "accuracy is the mean over clients");
}

#[test]
fn accuracy_counts_clients_alike_however_many_samples_they_have() {
    let scratch = Scratch::new();
    let mut table = "x,site,target\n".to_owned();
    for row in 0..200 {
        // The large site is easy; the small one has labels that mean nothing.
        let (site, x) = if row < 180 { ("large", row % 2) } else { ("small", 0) };
        table.push_str(&format!("{x},{site},{}\n", row % 2));
    }
    scratch.write("t.csv", table);
    let own =
        ["run", "--dataset", "files", "--set", "data.files.train=t.csv", "--set", "data.files.client=site"];
    let summary =
        scratch.succeeds(&[&own[..], &["--rounds", "3", "--method", "local", "--json"]].concat()).json();
    let of = |client: usize| number(&summary["clients"][client], "accuracy");
    assert_eq!(of(0), 1.0, "the large site is learned");
    assert!(of(1) < 0.9, "the small site cannot be learned");
    assert!((number(&summary, "accuracy") - (of(0) + of(1)) / 2.0).abs() < 1e-12);
}

#[test]
fn the_report_needs_no_other_file_and_no_network() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds", "2", "--out", "r", "--quiet"]);
    let page = scratch.text("r/report.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"), "not a whole page");
    assert!(page.matches("<svg").count() >= 2, "reliability diagram and loss curve");
    // The names of XML vocabularies look like addresses and are never followed.
    let page = page.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "");
    for outside in ["http://", "https://", "<script src", "<link", "@import", "<iframe", "src=\"//"] {
        assert!(!page.contains(outside), "report.html refers to something outside: {outside}");
    }
    assert!(page.contains("fedsi") && page.contains("digits"), "it says what was run");
}

#[test]
fn results_go_to_stdout_and_no_bar_to_a_stderr_that_is_no_terminal() {
    let scratch = Scratch::new();
    let ended = scratch.succeeds(&["run", "--rounds", "2"]);
    for expected in
        ["client", "accuracy", "ECE", "std over clients", "runs/fedsi-digits-small-s1/report.html"]
    {
        assert!(ended.stdout.contains(expected), "no `{expected}` in:\n{}", ended.stdout);
    }
    assert_eq!(ended.stderr, "", "a bar or chatter on stderr");
    assert!(!ended.stdout.contains('\u{1b}'), "colours where there is no terminal");
    for expected in ["95% interval", "most frequent class", "mean over 10 clients", "all test rows", "MCE 1%"]
    {
        assert!(ended.stdout.contains(expected), "no `{expected}` in:\n{}", ended.stdout);
    }
    let long = ended.stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None, "more than 80 letters");
}

#[test]
fn many_clients_are_summed_up_in_the_table() {
    let scratch = Scratch::new();
    let few =
        ["run", "--rounds", "1", "--epochs", "1", "--set", "partition.train=2", "--set", "partition.test=2"];
    let ended = scratch.succeeds(&[&few[..], &["--clients", "40"]].concat());
    assert!(ended.stdout.lines().count() < 40, "a line for each of 40 clients:\n{}", ended.stdout);
    assert!(ended.stdout.contains("median") && ended.stdout.contains("40 clients"), "{}", ended.stdout);
}

#[test]
fn json_is_the_summary_and_quiet_says_nothing() {
    let scratch = Scratch::new();
    let json = scratch.succeeds(&["run", "--rounds", "1", "--json", "--out", "a"]);
    assert_eq!(json.json(), scratch.json("a/summary.json"));
    assert_eq!(json.stderr, "");
    let quiet = scratch.succeeds(&["run", "--rounds", "1", "--quiet", "--out", "b"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    let both = scratch.succeeds(&["--quiet", "--json", "run", "--rounds", "1", "--out", "c"]);
    assert_eq!(both.json(), scratch.json("c/summary.json"));
}

#[test]
fn held_out_data_is_scored_every_round() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds", "2", "--set", "validation.fraction=0.2", "--out", "r", "--quiet"]);
    for line in scratch.json_lines("r/metrics.jsonl") {
        let validation = &line["validation"];
        assert_eq!(validation["samples"], 200, "a fifth of ten clients' 100 samples: {line}");
        assert!((0.0..=1.0).contains(&number(validation, "accuracy")), "{line}");
        assert!(number(validation, "nll") > 0.0, "{line}");
    }
    assert!(scratch.text("r/report.html").contains("Held-out"), "the report shows no held-out curve");
}

#[test]
fn fine_tuned_fedavg_learns_digits_and_beats_clients_on_their_own() {
    let scratch = Scratch::new();
    let of = |method: &str| {
        scratch.succeeds(&["run", "--method", method, "--rounds", "20", "--json", "--out", method]).json()
    };
    let (shared, alone) = (of("fedavg-ft"), of("local"));
    let (accuracy, ece) = (number(&shared, "accuracy"), number(&shared, "ece"));
    assert!(accuracy > 0.88, "fedavg-ft reaches only {accuracy}");
    assert!(ece < 0.06, "fedavg-ft is off by {ece} in its confidence");
    let alone = number(&alone, "accuracy");
    assert!(alone > 0.75, "clients on their own learn nothing: {alone}");
    assert!(accuracy > alone + 0.02, "fedavg-ft {accuracy} does not beat local {alone}");
}

#[test]
fn clients_that_all_diverge_end_the_run_with_exit_code_1() {
    let scratch = Scratch::new();
    let diverging = ["run", "--method", "fedavg", "--rounds", "2", "--clients", "3", "--lr", "1e38"];
    let steep = ["--set", "training.optimizer=sgd", "--set", "model.body=[\"flatten\", { linear = 4 }]"];
    let ended = scratch.fedsi(&[&diverging[..], &steep, &["--out", "r"]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let error = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    for expected in ["round 1", "client 0", "quorum"] {
        assert!(error.contains(expected), "no `{expected}` in: {error}");
    }
    assert_eq!(ended.stderr.lines().last(), Some("  fedsi resume r"), "on a line of its own");
    assert!(!scratch.path("r/summary.json").exists(), "summary.json means complete, and the run is not");
}

/// FedSI's own files: a posterior in every personal model, variances with the server, figures in the record.
#[test]
fn fedsi_leaves_its_posteriors_behind() {
    let scratch = Scratch::new();
    let typed = ["run", "--rounds", "4", "--clients", "4", "--participants", "2", "--out", "run", "--quiet"];
    scratch.succeeds(&[&typed[..], &["--set", "fedsi.posterior_interval=2"]].concat());
    let server = std::fs::read(scratch.path("run/checkpoint/server.safetensors")).unwrap();
    let server = SafeTensors::deserialize(&server).unwrap();
    assert_eq!(server.tensor("server.variance").unwrap().shape(), [78_500]);
    let config = fedsi_fl::Config::defaults("fedsi", "digits", fedsi_data::Size::Small).unwrap();
    let task = fedsi_data::Task::Classification { classes: 10 };
    let clients = fedsi_fl::Client::of_config(&config.check().unwrap(), &[1, 28, 28], task, None).unwrap();
    for client in 0..4 {
        let bytes = std::fs::read(scratch.path(&format!("run/clients/{client}.safetensors"))).unwrap();
        let read = fedsi_run::read_model(&clients, &bytes).unwrap();
        let Parameters::Laplace(laplace) = read.parameters() else { panic!("a posterior") };
        let posterior = laplace.fit.posterior();
        assert_eq!(posterior.selected().len(), 3925);
        let model = SafeTensors::deserialize(&bytes).unwrap();
        let saved = model.tensor("posterior.variance").unwrap().data().as_chunks::<8>().0;
        let saved: Vec<f64> = saved.iter().map(|&word| f64::from_le_bytes(word)).collect();
        assert_eq!(posterior.marginal_variances(), saved, "what is read is what was saved");
    }
    let lines = std::fs::read_to_string(scratch.path("run/metrics.jsonl")).unwrap();
    for line in lines.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if number(&record, "round") % 2.0 == 1.0 {
            assert!(record.get("subnetwork").is_none(), "a posterior in every second round: {line}");
            continue;
        }
        for key in ["overlap", "zero_curvature", "mean_variance"] {
            assert!(record["subnetwork"][key].is_number(), "{key}: {line}");
        }
        assert!(record["seconds"]["posterior"].as_f64().unwrap() > 0.0);
    }
    let summary: Value =
        serde_json::from_slice(&std::fs::read(scratch.path("run/summary.json")).unwrap()).unwrap();
    assert_eq!(summary["posterior"]["parameters"], 3925.0);
    assert!(summary["seconds"]["posterior"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_paper_profile_runs() {
    let scratch = Scratch::new();
    let typed = ["run", "--profile", "paper", "--rounds", "2", "--clients", "3", "--out", "run", "--json"];
    let summary = scratch.succeeds(&typed).json();
    assert_eq!(summary["posterior"]["certificate"], 0.0, "exact");
    let config = std::fs::read_to_string(scratch.path("run/config.toml")).unwrap();
    for line in [
        "profile = \"paper\"",
        "alpha = 0.0001",
        "rule = \"variance\"",
        "variance_average = \"deviation\"",
        "learning_rate = 0.01",
    ] {
        assert!(config.contains(line), "no `{line}` in\n{config}");
    }
}

/// The main job, at its defaults: personal models that are accurate, and know how sure they may be.
#[test]
fn fedsi_learns_digits_and_knows_how_sure_it_is() {
    let scratch = Scratch::new();
    let summary = scratch.succeeds(&["run", "--json"]).json();
    let (accuracy, ece, nll) =
        (number(&summary, "accuracy"), number(&summary, "ece"), number(&summary, "nll"));
    assert!(accuracy > 0.91, "accuracy {accuracy}");
    assert!(ece < 0.04, "ECE {ece}");
    assert!(nll < 0.25, "NLL {nll}");
    let chosen = summary["posterior"]["prior_variance"].as_f64().unwrap();
    assert!(chosen > 0.0 && chosen < 6.0, "prior variance {chosen}");
}
