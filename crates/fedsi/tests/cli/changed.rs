//! Data, models and files that are not what they were: noticed, named, and never used without a word.

use std::fs;
use std::time::SystemTime;

use crate::bad_input::refuses;
use crate::resume::{lines, same, start, wait_for};
use crate::support::Scratch;

/// A table whose rows follow from a number.
fn write_table(scratch: &Scratch, number: usize) {
    let rows: String = (0..80)
        .map(|row| format!("{},{},{},s{}\n", (row * 7 + number) % 11, row % 5, (row + number) % 2, row % 2))
        .collect();
    scratch.write("d.csv", format!("a,b,y,who\n{rows}"));
}

const TABLE: [&str; 7] = [
    "--dataset=files",
    "--set=data.files.train=d.csv",
    "--set=data.files.target=y",
    "--set=data.files.client=who",
    "--set=partition.kind=natural",
    "--epochs=1",
    "--quiet",
];

fn compare<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["compare", "--seeds=1", "--rounds=2", "--out=c", "--jobs=1"], &TABLE[..], more].concat()
}

#[test]
fn runs_on_data_that_changed_are_made_again_and_that_is_said() {
    let scratch = Scratch::new();
    write_table(&scratch, 0);
    scratch.succeeds(&compare(&["--methods=fedavg"]));
    let before = scratch.bytes("c/fedavg-s1/predictions.safetensors");
    let again = scratch.succeeds(&compare(&["--methods=fedavg"]));
    assert!(!again.stderr.contains("made again"), "{}", again.stderr);
    write_table(&scratch, 1);
    let ended = scratch.succeeds(&compare(&["--methods=fedavg,local"]));
    assert!(ended.stderr.contains("fedavg-s1 is made again"), "{}", ended.stderr);
    assert!(ended.stderr.contains("d.csv has other bytes"), "{}", ended.stderr);
    assert_ne!(scratch.bytes("c/fedavg-s1/predictions.safetensors"), before);
    // Where the data is gone, what is there is still shown.
    fs::remove_file(scratch.path("d.csv")).unwrap();
    let ended = scratch.succeeds(&compare(&["--methods=fedavg,local"]));
    assert!(ended.stderr.contains("cannot be compared with what it was made on"), "{}", ended.stderr);
}

#[test]
fn a_run_whose_data_changed_is_not_resumed() {
    let scratch = Scratch::new();
    write_table(&scratch, 0);
    let run = [&["run", "--rounds=4000", "--out=r", "--set=checkpoint.rounds=2"], &TABLE[..]].concat();
    let mut child = start(&scratch, &run);
    assert!(wait_for(&mut child, || lines(&scratch, "r") >= 5));
    child.kill().unwrap();
    child.wait().unwrap();
    write_table(&scratch, 1);
    refuses(&scratch, &["resume"], &[(&["r"], &["d.csv has other bytes", "fedsi run --force"])]);
    // Also where no checkpoint says it.
    fs::remove_dir_all(scratch.path("r/checkpoint")).unwrap();
    refuses(&scratch, &["resume"], &[(&["r"], &["d.csv has other bytes"])]);
}

#[test]
fn unfinished_runs_of_other_settings_are_kept() {
    let scratch = Scratch::new();
    let run = |rounds| {
        [
            "compare",
            "--methods=fedavg",
            "--seeds=1",
            rounds,
            "--clients=2",
            "--epochs=1",
            "--out=c",
            "--quiet",
        ]
    };
    let mut child = start(&scratch, &[&run("--rounds=40000")[..], &["--set=checkpoint.rounds=1"]].concat());
    assert!(wait_for(&mut child, || lines(&scratch, "c/fedavg-s1") >= 3));
    child.kill().unwrap();
    child.wait().unwrap();
    let expected: &[&str] =
        &["unfinished run with other settings", "`rounds` is 40000 there and 3 here", "--force"];
    refuses(&scratch, &run("--rounds=3"), &[(&[], expected)]);
    scratch.succeeds(&[&run("--rounds=3")[..], &["--force"]].concat());
}

/// One flipped bit, another client's file, another run's file: none of them answers.
#[test]
fn a_model_that_is_not_what_the_run_wrote_does_not_answer() {
    let scratch = Scratch::new();
    let run = ["run", "--method=fedavg-ft", "--rounds=1", "--clients=2", "--epochs=1", "--quiet"];
    scratch.succeeds(&[&run[..], &["--out=r"]].concat());
    scratch.succeeds(&[&run[..], &["--out=other", "--seed=2"]].concat());
    let row = |text: fn(usize) -> String| (0..784).map(text).collect::<Vec<_>>().join(",");
    scratch.write("rows.csv", format!("{}\n{}\n", row(|at| format!("p{at}")), row(|_| "0".to_owned())));
    let predict = ["predict", "--run=r", "--client=1", "--input=rows.csv"];
    let good = scratch.bytes("r/clients/1.safetensors");
    let mut flipped = good.clone();
    let at = good.len() - 7;
    flipped[at] ^= 0x40;
    for (bytes, words) in [
        (flipped, "do not match its checksum"),
        (scratch.bytes("r/clients/0.safetensors"), "the model of client 0, not of client 1"),
        (scratch.bytes("other/clients/1.safetensors"), "of another run"),
    ] {
        scratch.write("r/clients/1.safetensors", bytes);
        refuses(&scratch, &predict, &[(&[], &["clients/1.safetensors", words])]);
    }
    scratch.write("r/clients/1.safetensors", good);
    let mut predictions = scratch.bytes("r/predictions.safetensors");
    *predictions.last_mut().unwrap() ^= 0x40;
    scratch.write("r/predictions.safetensors", predictions);
    let expected: &[&str] = &["predictions.safetensors", "not those that the run wrote"];
    refuses(&scratch, &["report"], &[(&["r"], expected)]);
    refuses(&scratch, &predict, &[(&["--coverage=0.5"], expected)]);
}

/// A killed run whose metrics, newest checkpoint or name are gone gives the bits it would have given.
#[test]
fn what_can_be_made_again_is_not_needed() {
    let scratch = Scratch::new();
    let run = |more: &[&'static str]| -> Vec<&'static str> {
        let run = ["run", "--method=fedper", "--rounds=12", "--clients=3", "--epochs=1", "--quiet"];
        [&run[..], &["--set=checkpoint.rounds=2", "--threads=1"], more].concat()
    };
    scratch.succeeds(&run(&["--out=whole"]));
    let mut child = start(&scratch, &run(&["--out=half", "--state-dir=states"]));
    assert!(wait_for(&mut child, || lines(&scratch, "half") >= 7));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(scratch.path("half/metrics.jsonl")).unwrap();
    fs::rename(scratch.path("half"), scratch.path("renamed")).unwrap();
    let names = scratch.below("renamed").into_keys().filter(|name| name.contains("round-"));
    let newest = format!("renamed/{}", names.max().unwrap());
    let mut bytes = scratch.bytes(&newest);
    bytes[8] ^= 1;
    scratch.write(&newest, bytes);
    let ended = scratch.succeeds(&["resume", "renamed"]);
    assert!(ended.stderr.contains("an older checkpoint is used"), "{}", ended.stderr);
    same(&scratch, "renamed", "whole", "renamed, without metrics, its newest checkpoint damaged");
    let states = scratch.below("states").len();
    assert_eq!(states, 0, "what clients kept is removed");
}

/// An evaluation that is killed goes on at the client it had come to.
#[test]
fn an_evaluation_goes_on_where_it_was_killed() {
    let scratch = Scratch::new();
    let run = [
        "run",
        "--rounds=1",
        "--clients=40",
        "--participants=2",
        "--epochs=1",
        "--set=tuning.epochs=20",
        "--quiet",
        "--threads=1",
    ];
    scratch.succeeds(&[&run[..], &["--out=whole"]].concat());
    let models = || -> Vec<(String, SystemTime)> {
        let folder = fs::read_dir(scratch.path("killed/clients")).into_iter().flatten();
        let mut found: Vec<(String, SystemTime)> = folder
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                name.ends_with(".safetensors").then_some((name, entry.metadata().ok()?.modified().ok()?))
            })
            .collect();
        found.sort();
        found
    };
    let mut child = start(&scratch, &[&run[..], &["--out=killed"]].concat());
    let mut done = Vec::new();
    for clients in [4, 9, 15] {
        assert!(wait_for(&mut child, || models().len() > clients), "it ended before it could be killed");
        child.kill().unwrap();
        child.wait().unwrap();
        let now = models();
        // At most the one that was at work is made again.
        let again = done.iter().filter(|model| !now.contains(model)).count();
        assert!(again <= 1, "{again} of {} models were made again", done.len());
        done = now;
        child = start(&scratch, &["resume", "killed", "--quiet", "--threads=1"]);
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    same(&scratch, "killed", "whole", "killed during evaluation");
    assert!(!scratch.path("killed/checkpoint/evaluation.fedsi").exists(), "a complete run needs it no more");
}

/// People's models and what clients keep are their owner's.
#[cfg(unix)]
#[test]
fn models_and_states_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    let run = ["run", "--method=fedper", "--rounds=4000", "--clients=2", "--epochs=1", "--quiet", "--out=r"];
    let mut child =
        start(&scratch, &[&run[..], &["--state-dir=states", "--set=checkpoint.rounds=1"]].concat());
    assert!(wait_for(&mut child, || lines(&scratch, "r") >= 3));
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.succeeds(&["run", "--rounds=1", "--clients=2", "--epochs=1", "--quiet", "--out=done"]);
    let mode = |name: &str| scratch.path(name).metadata().unwrap().permissions().mode() & 0o777;
    let names = scratch.names();
    let private: Vec<&String> = names
        .iter()
        .filter(|name| {
            name.starts_with("done/clients")
                || name.starts_with("states/run-")
                || name.contains("round-")
                || name.ends_with("run.json")
        })
        .collect();
    assert!(private.len() > 6, "{private:?}");
    for name in private {
        assert_eq!(mode(name) & 0o077, 0, "{name} has mode {:o}", mode(name));
    }
}

/// Under privacy all that tells of clients without noise is their owner's, and the program says what is not.
#[cfg(unix)]
#[test]
fn what_privacy_does_not_cover_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    let ended = scratch.succeeds(&[
        "run",
        "--method=fedavg",
        "--rounds=2",
        "--clients=3",
        "--epochs=1",
        "--set=privacy.noise=1",
        "--set=privacy.clip=1",
        "--out=r",
    ]);
    assert!(
        ended.stdout.contains("covers checkpoint/server.safetensors and config.toml"),
        "{}",
        ended.stdout
    );
    let mode = |name: &str| scratch.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("r"), 0o700);
    for name in scratch.below("r").into_keys().map(|name| format!("r/{name}")) {
        let covered = ["r/checkpoint", "r/checkpoint/server.safetensors", "r/config.toml"];
        if !covered.contains(&name.as_str()) {
            assert_eq!(mode(&name) & 0o077, 0, "{name} has mode {:o}", mode(&name));
        }
    }
}

/// A killed run whose clients' state is on disk, in `a`.
fn killed_with_states(scratch: &Scratch) {
    let run =
        ["run", "--method=fedper", "--rounds=12", "--clients=3", "--epochs=1", "--quiet", "--threads=1"];
    let mut child =
        start(scratch, &[&run[..], &["--out=a", "--state-dir=states", "--set=checkpoint.rounds=1"]].concat());
    assert!(wait_for(&mut child, || lines(scratch, "a") >= 3));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What clients keep belongs to one run: a copy of its folder neither uses nor removes it.
#[test]
fn a_copy_of_a_run_leaves_its_clients_state_alone() {
    let scratch = Scratch::new();
    killed_with_states(&scratch);
    for (name, content) in scratch.below("a") {
        if let Some(content) = content {
            scratch.write(&format!("b/{name}"), content);
        }
    }
    refuses(&scratch, &["resume"], &[(&["b"], &["is of the run in", "of which this is a copy"])]);
    scratch.succeeds(&["run", "--rounds=1", "--clients=2", "--epochs=1", "--quiet", "--out=b", "--force"]);
    scratch.succeeds(&["resume", "a", "--quiet"]);
}

/// Whatever keeps a new run from starting, the old one is not given up for it.
#[test]
fn a_run_that_cannot_start_replaces_nothing() {
    let scratch = Scratch::new();
    let run = ["run", "--rounds=1", "--clients=2", "--epochs=1", "--quiet", "--out=r"];
    scratch.succeeds(&run);
    let before = scratch.below("r");
    scratch.write("file", "in the way");
    let ended =
        scratch.fedsi(&[&run[..], &["--force", "--method=fedper", "--state-dir=file/states"]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(scratch.below("r") == before, "the old run is not as it was");
}

/// A finished run whose settings were edited is not the run that its summary is of.
#[test]
fn settings_that_were_edited_are_noticed() {
    let scratch = Scratch::new();
    let compare = |rounds| {
        let all =
            ["compare", "--methods=fedavg", "--seeds=1", "--clients=2", "--epochs=1", "--out=c", "--quiet"];
        [&all[..], &[rounds]].concat()
    };
    scratch.succeeds(&compare("--rounds=2"));
    let config = scratch.text("c/fedavg-s1/config.toml");
    scratch.write("c/fedavg-s1/config.toml", config.replace("\nrounds = 2\n", "\nrounds = 3\n"));
    let pixels = (0..784).map(|at| format!("p{at}")).collect::<Vec<_>>().join(",");
    scratch.write("rows.csv", format!("{pixels}\n{}\n", vec!["0"; 784].join(",")));
    let predict = ["predict", "--run=c/fedavg-s1", "--client=0", "--input=rows.csv"];
    refuses(&scratch, &predict, &[(&[], &["config.toml", "of another run"])]);
    let ended = scratch.succeeds(&compare("--rounds=3"));
    assert!(ended.stderr.contains("is made again"), "{}", ended.stderr);
    assert_eq!(scratch.json_lines("c/fedavg-s1/metrics.jsonl").len(), 3);
}

/// Runs on different data are not ranked together, also where the data is not there to compare with.
#[test]
fn runs_on_different_data_are_not_ranked_together() {
    let scratch = Scratch::new();
    write_table(&scratch, 0);
    scratch.succeeds(&compare(&["--methods=fedavg"]));
    write_table(&scratch, 1);
    scratch.succeeds(&compare(&["--methods=local"]));
    fs::remove_file(scratch.path("d.csv")).unwrap();
    let ended = scratch.fedsi(&compare(&["--methods=fedavg,local"]));
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("were not made on the same data"), "{}", ended.stderr);
}

/// What a complete run's checkpoints hold goes with whoever looks at the run next.
#[test]
fn checkpoints_of_a_complete_run_are_removed_by_whoever_comes() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds=1", "--clients=2", "--epochs=1", "--quiet", "--out=r"]);
    let left = ["r/checkpoint/round-00000001.fedsi", "r/checkpoint/evaluation.fedsi"];
    left.iter().for_each(|name| scratch.write(name, "of a process that was killed"));
    scratch.write("r/plots/.fedsi-a1B2c3", "half a plot");
    scratch.succeeds(&["report", "r", "--quiet"]);
    assert!(left.iter().all(|name| !scratch.path(name).exists()));
    assert!(!scratch.path("r/plots/.fedsi-a1B2c3").exists());
}

/// A run does not go on in another folder that has taken its folder's name.
#[test]
fn a_folder_that_is_renamed_ends_its_run() {
    let scratch = Scratch::new();
    let run = ["run", "--rounds=100000", "--clients=2", "--epochs=1", "--quiet", "--out=r"];
    let mut child = start(&scratch, &run);
    assert!(wait_for(&mut child, || lines(&scratch, "r") >= 2));
    fs::rename(scratch.path("r"), scratch.path("renamed")).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let words = String::from_utf8_lossy(&ended.stderr);
    assert!(words.contains("renamed or removed"), "{words}");
    assert!(!scratch.path("r/summary.json").exists());
}
