//! Bad input: exit code 2, one line that names the thing and a way out, nothing written.

use crate::support::{Scratch, idx, write_mnist};

/// What is typed, and what the line on stderr must say.
pub(crate) type Case<'a> = (&'a [&'a str], &'a [&'a str]);

/// Tries every case in the folder and reports all that fail, not only the first.
pub(crate) fn refuses(scratch: &Scratch, before: &[&str], cases: &[Case<'_>]) {
    let mut failures = Vec::new();
    for (typed, words) in cases {
        let arguments = [before, typed].concat();
        let there = scratch.everything();
        let ended = scratch.fedsi(&arguments);
        let first = ended.stderr.lines().next().unwrap_or_default();
        let mut fail = |what: String| failures.push(format!("fedsi {}\n    {what}", arguments.join(" ")));
        if ended.code != Some(2) {
            fail(format!("exit code {:?}, expected 2; stderr: {}", ended.code, ended.stderr));
        }
        if !first.starts_with("error: ") {
            fail(format!("the first line is no error: {first}"));
        }
        for word in words.iter().filter(|word| !first.contains(**word)) {
            fail(format!("no `{word}` in: {first}"));
        }
        if first.split(": ").zip(first.split(": ").skip(1)).any(|(part, next)| part == next) {
            fail(format!("it repeats itself: {first}"));
        }
        // What clap refuses comes with a usage; all else is one line.
        if ended.stderr.lines().count() != 1 && !ended.stderr.contains("For more information, try '--help'") {
            fail(format!("more than one line: {}", ended.stderr));
        }
        if ended.stderr.contains("panicked") {
            fail(format!("a panic: {}", ended.stderr));
        }
        if scratch.everything() != there {
            fail(format!("files were written or changed: {:?}", scratch.names()));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn settings_that_cannot_run() {
    refuses(
        &Scratch::new(),
        &["run"],
        &[
            (&["--method", "fedavgg"], &["fedavgg", "did you mean `fedavg`?", "lg-fedavg"]),
            (&["--method", "zzz"], &["zzz", "known: fedsi, fedsi-fac, local, fedavg"]),
            (&["--dataset", "minst"], &["minst", "did you mean `mnist`?", "digits"]),
            (&["--size", "medium"], &["data.size", "medium", "`small` or `large`"]),
            (&["--set", "trainig.batch=3"], &["trainig", "did you mean `training`?", "fedsi config"]),
            (&["--set", "training.bach=3"], &["training.bach", "batch", "fedsi config"]),
            (&["--set", "rouns=3"], &["rouns", "did you mean `rounds`?"]),
            (&["--set", "fedsi.every=3"], &["`fedsi.every` is now `fedsi.posterior_interval`"]),
            (&["--set", "rounds=three"], &["rounds", "three"]),
            (&["--set", "rounds=2.5"], &["rounds", "2.5"]),
            (&["--set", "training=3"], &["training"]),
            (&["--set", "rounds.of=3"], &["rounds"]),
            (&["--set", "rounds"], &["--set rounds", "KEY=VALUE"]),
            (&["--set", "=3"], &["KEY=VALUE"]),
            (&["--rounds", "0"], &["rounds", "at least 1"]),
            (&["--rounds", "-1"], &["rounds", "-1"]),
            (&["--rounds", "many"], &["--rounds", "many"]),
            (&["--epochs", "0"], &["training.epochs", "at least 1"]),
            (&["--lr", "-0.1"], &["training.learning_rate", "-0.1", "above 0"]),
            (&["--lr", "0"], &["training.learning_rate", "above 0"]),
            (&["--lr", "NaN"], &["training.learning_rate", "NaN", "finite"]),
            (&["--lr", "inf"], &["training.learning_rate", "inf", "finite"]),
            (&["--set", "tuning.learning_rate=nan"], &["tuning.learning_rate", "finite"]),
            (&["--set", "tuning.learning_rate=-1"], &["tuning.learning_rate", "above 0"]),
            (&["--set", "training.batch_size=0"], &["training.batch_size", "between 1 and"]),
            (&["--set", "training.momentum=1"], &["training.momentum"]),
            (&["--participants", "11"], &["federation.participants", "11", "at most 10"]),
            (&["--clients", "3", "--participants", "4"], &["federation.participants", "at most 3"]),
            (&["--clients", "0"], &["partition.clients", "at least 1"]),
            (&["--set", "federation.quorum=0"], &["federation.quorum", "above 0"]),
            (&["--set", "validation.fraction=1.5"], &["validation.fraction", "1.5", "0.9"]),
            (&["--set", "validation.fraction=-0.1"], &["validation.fraction", "0.9"]),
            (&["--seed", "-1"], &["seed", "-1"]),
            (&["--threads", "99999"], &["threads", "1024"]),
            (&["--set", "partition.kind=irid"], &["partition.kind", "irid", "`iid`"]),
            (&["--set", "partition.kind=shards"], &["partition.kind", "dirichlet"]),
            (&["--set", "partition.labels_per_client=11"], &["partition.labels_per_client", "1 to 10"]),
            (&["--set", "partition.concentration=0"], &["partition.concentration", "above 0"]),
            (
                &["--set", "model.body=[\"flatten\", { conv = { out = 3, kernel = 3 } }]"],
                &["model.body", "conv"],
            ),
            (&["--set", "model.body=[{ conv = { out = 3, kernel = 31 } }]"], &["model.body", "kernel of 31"]),
            (&["--set", "model.body=[\"flattn\"]"], &["model.body", "flattn", "`flatten`"]),
            (&["--set", "model.body=[{ linear = 0 }]"], &["model.body", "at least one output"]),
            (&["--set", "model.observation_noise=-1"], &["model.observation_noise"]),
            (&["--profile", "papr"], &["papr", "calibrated, paper"]),
            (&["--set", "fedsi.alpha=0"], &["fedsi.alpha", "1e-30"]),
            (&["--set", "fedsi.alpha=1e39"], &["fedsi.alpha", "1e30"]),
            (&["--set", "fedsi.subnetwork=1.5"], &["fedsi.subnetwork", "at most 1"]),
            (&["--set", "fedsi.rule=wasserstein"], &["fedsi.rule", "variance, live"]),
            (&["--set", "fedsi.predictive=bayes"], &["fedsi.predictive", "monte-carlo"]),
            (&["--set", "fedsi.prior_variance=-1"], &["fedsi.prior_variance", "above 0"]),
            (&["--set", "fedsi.prior_variance=wide"], &["fedsi.prior_variance", "\"auto\" or \"server\""]),
            (&["--set", "fedsi.tolerance=-0.1"], &["fedsi.tolerance"]),
            (&["--set", "fedsi.draws=0"], &["fedsi.draws"]),
            (&["--set", "fedsi.posterior_interval=0"], &["fedsi.posterior_interval", "at least 1"]),
            (&["--set", "fedsi.rule=layers:7", "--rounds", "1"], &["fedsi.rule", "7"]),
        ],
    );
}

#[test]
fn settings_are_refused_in_the_words_of_a_user() {
    let scratch = Scratch::new();
    for typed in
        ["rounds=three", "rounds=2.5", "rounds=-1", "training=3", "training.learning_rate=fast", "seed=-1"]
    {
        let line = scratch.fedsi(&["run", "--set", typed]).stderr;
        for jargon in ["usize", "u64", "f64", "struct ", "TrainingConfig"] {
            assert!(!line.contains(jargon), "--set {typed}: `{jargon}` in: {line}");
        }
    }
    refuses(&scratch, &["run"], &[(&["--clients", "99999999999"], &["partition.clients", "at most"])]);
}

#[test]
fn config_files_that_cannot_be_used() {
    let scratch = Scratch::new();
    scratch.write("syntax.toml", "rounds = 2\n\n[training]\nrate = \n");
    scratch.write("key.toml", "rounds = 2\n[training]\nepoch = 3\n");
    scratch.write("section.toml", "[trainnig]\nepochs = 3\n");
    scratch.write("type.toml", "[training]\nlearning_rate = \"fast\"\n");
    scratch.write("twice.toml", "rounds = 2\nrounds = 3\n");
    scratch.write("value.toml", "[validation]\nfraction = 2.0\n");
    scratch.write("binary.toml", [0xff, 0xfe, 0x00]);
    refuses(
        &scratch,
        &["run"],
        &[
            (&["missing.toml"], &["missing.toml", "No such file"]),
            (&["."], &["config ."]),
            (&["syntax.toml"], &["syntax.toml", "line 4"]),
            (&["key.toml"], &["key.toml", "training.epoch", "epochs"]),
            (&["section.toml"], &["section.toml", "trainnig", "`training`"]),
            (&["type.toml"], &["training.learning_rate", "fast"]),
            (&["twice.toml"], &["twice.toml", "line 2", "duplicate key"]),
            (&["value.toml"], &["validation.fraction", "0.9"]),
            (&["binary.toml"], &["binary.toml"]),
        ],
    );
}

#[test]
fn benchmark_files_that_are_missing_or_broken() {
    let scratch = Scratch::new();
    for folder in ["good", "cut", "magic", "count", "label", "square", "gzip", "partial"] {
        write_mnist(&scratch, folder, 60);
    }
    let images = "mnist/train-images-idx3-ubyte";
    let whole = scratch.bytes(&format!("good/{images}"));
    scratch.write(&format!("cut/{images}"), &whole[..whole.len() - 5]);
    scratch.write(&format!("magic/{images}"), [&[0, 0, 9, 3], &whole[4..]].concat());
    scratch.write("count/mnist/train-labels-idx1-ubyte", idx(&[59], &[1; 59]));
    scratch.write("label/mnist/t10k-labels-idx1-ubyte", idx(&[60], &[10; 60]));
    scratch.write(&format!("square/{images}"), idx(&[60, 8, 8], &[0; 60 * 64]));
    std::fs::remove_file(scratch.path(&format!("gzip/{images}"))).unwrap();
    scratch.write(&format!("gzip/{images}.gz"), [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    std::fs::remove_file(scratch.path("partial/mnist/t10k-labels-idx1-ubyte")).unwrap();
    let small = ["--set", "partition.train=2", "--set", "partition.test=2"];
    refuses(
        &scratch,
        &[&["run", "--dataset", "mnist", "--out", "r"], &small[..]].concat(),
        &[
            (&["--data-dir", "nowhere"], &["mnist", "nowhere", "`fedsi data fetch mnist --data-dir"]),
            (&["--data-dir", "partial"], &["t10k-labels-idx1-ubyte is missing", "fedsi data fetch mnist"]),
            (&["--data-dir", "cut"], &["cut/mnist/train-images-idx3-ubyte", "fetch or copy it again"]),
            (&["--data-dir", "magic"], &["magic/mnist/train-images-idx3-ubyte", "magic bytes", "fetch"]),
            (
                &["--data-dir", "count"],
                &["train-labels-idx1-ubyte", "59 labels for the 60 images", "same source"],
            ),
            (&["--data-dir", "label"], &["t10k-labels-idx1-ubyte", "label 10", "0 to 9"]),
            (&["--data-dir", "square"], &["square/mnist/train-images-idx3-ubyte", "28"]),
            (&["--data-dir", "gzip"], &["train-images-idx3-ubyte.gz", "fetch or copy it again"]),
            (
                &["--data-dir", "good", "--clients", "90"],
                &["partition.clients", "90", "lower partition.clients to"],
            ),
            (
                &["--data-dir", "good", "--set", "partition.train=999"],
                &["partition.clients", "partition.train"],
            ),
        ],
    );
    refuses(
        &scratch,
        &["run", "--dataset", "cifar-10", "--out", "r"],
        &[(&["--data-dir", "good"], &["cifar-10", "fedsi data fetch cifar-10"])],
    );
}

#[test]
fn the_number_of_clients_that_is_named_as_feasible_is_feasible() {
    let scratch = Scratch::new();
    write_mnist(&scratch, "data", 60);
    let run = ["run", "--dataset", "mnist", "--rounds", "1", "--epochs", "1", "--quiet"];
    let small = ["--set", "partition.train=2", "--set", "partition.test=2"];
    let ended = scratch.fedsi(&[&run[..], &small, &["--clients", "90", "--out", "r"]].concat());
    let (_, rest) = ended.stderr.split_once("lower partition.clients to ").expect("a number that works");
    let feasible = rest.split([',', ' ']).next().unwrap();
    scratch.succeeds(&[&run[..], &small, &["--clients", feasible, "--out", "r"]].concat());
}

#[test]
fn tables_that_cannot_be_learned_from() {
    let scratch = Scratch::new();
    scratch.write("good.csv", "a,b,site,target\n1,2,x,yes\n3,4,y,no\n5,6,x,no\n7,8,y,yes\n");
    scratch.write("nan.csv", "a,b,target\n1,2,yes\n3,NaN,no\n");
    scratch.write("empty-cell.csv", "a,b,target\n1,,yes\n");
    scratch.write("ragged.csv", "a,b,target\n1,2,yes\n3,4\n");
    scratch.write("twice.csv", "a,a,target\n1,2,yes\n");
    scratch.write("header.csv", "a,b,target\n");
    scratch.write("nothing.csv", "");
    scratch.write("data.parquet", "PAR1");
    refuses(
        &scratch,
        &["run", "--dataset", "files", "--clients", "2", "--out", "r"],
        &[
            (&[], &["data.files.train", ".csv"]),
            (&["--set", "data.files.train=missing.csv"], &["missing.csv", "No such file"]),
            (&["--set", "data.files.train=data.parquet"], &["data.parquet", "a whole Parquet file", "CSV"]),
            (
                &["--set", "data.files.train=nan.csv", "--set", "data.files.strict=true"],
                &["nan.csv", "line 3, column \"b\"", "NaN", "remove such rows"],
            ),
            (
                &["--set", "data.files.train=empty-cell.csv", "--set", "data.files.strict=true"],
                &["empty-cell.csv", "line 2", "column \"b\""],
            ),
            (
                &["--set", "data.files.train=ragged.csv"],
                &["ragged.csv", "line 3", "2 cells", "complete the row"],
            ),
            (&["--set", "data.files.train=twice.csv"], &["twice.csv", "\"a\" twice", "rename"]),
            (&["--set", "data.files.train=header.csv"], &["header.csv", "add rows"]),
            (&["--set", "data.files.train=nothing.csv"], &["nothing.csv"]),
            (
                &["--set", "data.files.train=good.csv", "--set", "data.files.target=colour"],
                &["good.csv", "colour", "a, b, site, target"],
            ),
            (
                &["--set", "data.files.train=good.csv", "--set", "data.files.client=hospital"],
                &["good.csv", "hospital", "a, b, site, target"],
            ),
            (
                &["--set", "data.files.train=good.csv", "--set", "data.files.strict=true"],
                &["column \"site\"", "\"x\"", "a finite number"],
            ),
            (
                &[
                    "--set",
                    "data.files.train=good.csv",
                    "--set",
                    "data.files.client=site",
                    "--set",
                    "data.files.task=regression",
                ],
                &["column \"target\"", "\"yes\"", "a finite number"],
            ),
            (
                &[
                    "--set",
                    "data.files.train=good.csv",
                    "--set",
                    "data.files.client=site",
                    "--participants",
                    "3",
                ],
                &["federation.participants", "at most 2"],
            ),
            (
                &[
                    "--set",
                    "data.files.train=good.csv",
                    "--set",
                    "data.files.client=site",
                    "--set",
                    "model.body=[{ conv = { out = 2, kernel = 3 } }]",
                ],
                &["model.body", "conv", "[2]"],
            ),
        ],
    );
}

#[test]
fn predictions_that_cannot_be_scored() {
    let scratch = Scratch::new();
    scratch.write("negative.json", r#"{"probabilities": [[0.5, 0.5], [1.2, -0.2]], "labels": [0, 0]}"#);
    scratch.write("sum.json", r#"{"probabilities": [[0.5, 0.5], [1, 1]], "labels": [0, 1]}"#);
    scratch.write("large.json", r#"{"probabilities": [[0.5, 0.5]], "labels": [2]}"#);
    scratch.write("minus.json", r#"{"probabilities": [[0.5, 0.5]], "labels": [-1]}"#);
    scratch.write("half.json", r#"{"probabilities": [[0.5, 0.5]], "labels": [0.5]}"#);
    scratch.write("ragged.json", r#"{"probabilities": [[0.5, 0.5], [1]], "labels": [0, 0]}"#);
    scratch.write("count.json", r#"{"probabilities": [[0.5, 0.5]], "labels": [0, 1]}"#);
    scratch.write("empty.json", r#"{"probabilities": [], "labels": []}"#);
    scratch.write("key.json", r#"{"probs": [[1.0]], "labels": [0]}"#);
    scratch.write("nan.json", r#"{"probabilities": [[NaN, 1.0]], "labels": [0]}"#);
    scratch.write("null.json", r#"{"probabilities": [[null, 1.0]], "labels": [0]}"#);
    scratch.write("huge.json", r#"{"probabilities": [[1e999, 1.0]], "labels": [0]}"#);
    scratch.write("text.json", "probabilities: none");
    scratch.write("good.json", r#"{"probabilities": [[0.5, 0.5]], "labels": [0]}"#);
    refuses(
        &scratch,
        &["calibrate"],
        &[
            (&["negative.json"], &["negative.json", "row 1", "-0.2", "not negative"]),
            (&["sum.json"], &["sum.json", "row 1", "sum to 1"]),
            (&["large.json"], &["large.json", "row 0", "label 2", "0 to 1"]),
            (&["minus.json"], &["minus.json", "row 0", "-1"]),
            (&["half.json"], &["half.json", "0.5"]),
            (&["ragged.json"], &["ragged.json", "row 1"]),
            (&["count.json"], &["count.json", "1 rows of `probabilities`", "2 `labels`"]),
            (&["empty.json"], &["empty.json", "empty"]),
            (&["key.json"], &["key.json", "probabilities"]),
            (&["nan.json"], &["nan.json", "line 1"]),
            (&["null.json"], &["null.json", "null"]),
            (&["huge.json"], &["huge.json"]),
            (&["text.json"], &["text.json", "`probabilities` and `labels`"]),
            (&["missing.json"], &["missing.json", "No such file"]),
            (&["good.json", "--bins", "0"], &["bins", "1 to"]),
            (&["good.json", "--bins", "-3"], &["--bins"]),
            (&["good.json", "--bins", "99999999999"], &["bins", "1 to"]),
        ],
    );
}

#[test]
fn data_commands_with_nothing_to_work_on() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("empty")).unwrap();
    refuses(
        &scratch,
        &["data"],
        &[
            (&["fetch", "mnst"], &["mnst", "mnist", "cifar-10"]),
            (&["fetch", "digits"], &["digits", "built in"]),
            (&["fetch", "files"], &["files", "data.files.train"]),
            (&["check", "empty"], &["empty", "mnist/", "fedsi data fetch"]),
            (&["check", "nowhere"], &["nowhere", "no folder"]),
            (&["list", "--partition", "drichlet"], &["partition.kind", "drichlet", "`dirichlet`"]),
            (&["list", "--partition", "labels", "--dataset", "mnist"], &["mnist", "fedsi data fetch mnist"]),
        ],
    );
}

#[test]
fn damaged_files_are_reported_by_data_check() {
    let scratch = Scratch::new();
    write_mnist(&scratch, "data", 20);
    assert!(scratch.succeeds(&["data", "check", "data"]).stdout.contains("20 samples of 1x28x28"));
    scratch.write("data/mnist/train-labels-idx1-ubyte", idx(&[9], &[0; 9]));
    let ended = scratch.fedsi(&["data", "check", "data"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stdout.contains("9 labels for the 20 images"), "{}", ended.stdout);
    assert!(ended.stderr.contains("mnist cannot be used") && ended.stderr.contains("fedsi data fetch"));
}

#[test]
fn no_command_and_an_unknown_command_show_the_usage() {
    let scratch = Scratch::new();
    for typed in [&[][..], &["trian"], &["run", "--colour"], &["data"], &["calibrate"]] {
        let ended = scratch.fedsi(typed);
        assert_eq!(ended.code, Some(2), "fedsi {typed:?}");
        assert!(ended.stderr.contains("Usage: fedsi"), "fedsi {typed:?}: {}", ended.stderr);
    }
    assert_eq!(scratch.names(), [""; 0]);
}
