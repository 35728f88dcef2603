//! Where a run goes, and what it never destroys.

use std::collections::BTreeMap;

use crate::support::Scratch;

const SHORT: [&str; 5] = ["run", "--rounds", "1", "--quiet", "--epochs=1"];

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT[..], more].concat()
}

/// A run in `r`, and everything in it.
fn with_a_run() -> (Scratch, BTreeMap<String, Option<Vec<u8>>>) {
    let scratch = Scratch::new();
    scratch.succeeds(&run(&["--out", "r"]));
    let files = scratch.everything();
    (scratch, files)
}

/// Fails where a command does not end with exit code 2 and these words, or changes anything.
fn refused(scratch: &Scratch, arguments: &[&str], words: &[&str]) {
    let before = scratch.everything();
    let ended = scratch.fedsi(arguments);
    assert_eq!(ended.code, Some(2), "`fedsi {}`: {}", arguments.join(" "), ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "no `{word}` in: {}", ended.stderr);
    }
    assert!(scratch.everything() == before, "`fedsi {}` changed files", arguments.join(" "));
}

#[test]
fn the_default_folder_is_named_after_the_run_and_numbered_where_taken() {
    let scratch = Scratch::new();
    scratch.succeeds(&run(&["--method", "local", "--seed", "4"]));
    let again = scratch.fedsi(&["run", "--rounds", "1", "--method", "local", "--seed", "4"]);
    assert!(
        again.stdout.contains("runs/local-digits-small-s4-2"),
        "it does not say where:\n{}",
        again.stdout
    );
    scratch.succeeds(&run(&["--method", "local", "--seed", "4"]));
    scratch.succeeds(&run(&["--method", "fedavg", "--size", "large"]));
    let runs: Vec<String> = scratch.below("runs").into_keys().filter(|name| !name.contains('/')).collect();
    let expected = [
        "fedavg-digits-large-s1",
        "local-digits-small-s4",
        "local-digits-small-s4-2",
        "local-digits-small-s4-3",
    ];
    assert_eq!(runs, expected);
}

#[test]
fn an_empty_folder_is_fine() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("r")).unwrap();
    scratch.succeeds(&run(&["--out", "r"]));
    assert!(scratch.path("r/summary.json").is_file());
    let here = Scratch::new();
    here.succeeds(&run(&["--out", "."]));
    assert!(here.path("summary.json").is_file());
}

#[test]
fn missing_folders_on_the_way_are_made() {
    let scratch = Scratch::new();
    scratch.succeeds(&run(&["--out", "a/b/c"]));
    assert!(scratch.path("a/b/c/summary.json").is_file());
}

#[test]
fn a_run_is_refused_without_force_and_replaced_with_it() {
    let (scratch, before) = with_a_run();
    refused(&scratch, &run(&["--out", "r", "--seed", "2"]), &["r holds a run already", "--force"]);
    scratch.succeeds(&run(&["--out", "r", "--seed", "2", "--force"]));
    let after = scratch.everything();
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>(),
        "leftovers of the old run"
    );
    assert_ne!(after["r/predictions.safetensors"], before["r/predictions.safetensors"]);
    assert_eq!(scratch.json("r/summary.json")["seed"], 2);
}

#[test]
fn a_smaller_run_leaves_nothing_of_the_larger_one_it_replaces() {
    let (scratch, _) = with_a_run();
    scratch.succeeds(&run(&["--out", "r", "--clients", "2", "--force"]));
    assert!(!scratch.path("r/clients/2.safetensors").exists(), "a client of the replaced run");
}

#[test]
fn force_makes_a_run_where_there_is_none() {
    let scratch = Scratch::new();
    scratch.succeeds(&run(&["--out", "r", "--force"]));
    assert!(scratch.path("r/summary.json").is_file());
}

#[test]
fn a_folder_with_other_files_is_never_touched() {
    let scratch = Scratch::new();
    scratch.write("r/thesis.txt", "years of work");
    refused(&scratch, &run(&["--out", "r"]), &["which is not part of a run", "--out"]);
    refused(&scratch, &run(&["--out", "r", "--force"]), &["which is not part of a run", "--out"]);
}

#[test]
fn a_folder_with_other_files_beside_a_config_or_run_is_never_touched() {
    let scratch = Scratch::new();
    scratch.write("r/config.toml", "rounds = 1\n");
    scratch.write("r/thesis.txt", "years of work");
    refused(&scratch, &run(&["--out", "r", "--force"]), &["thesis.txt", "--out"]);
    let (scratch, _) = with_a_run();
    scratch.write("r/thesis.txt", "years of work");
    refused(&scratch, &run(&["--out", "r", "--force"]), &["thesis.txt", "--out"]);
}

#[test]
fn a_config_that_a_person_wrote_is_no_run() {
    let scratch = Scratch::new();
    scratch.write("r/config.toml", "rounds = 1\n");
    scratch.write("r/clients/notes.txt", "years of work");
    refused(&scratch, &run(&["--out", "r", "--force"]), &["r holds files that fedsi did not write", "--out"]);
}

#[test]
fn a_run_left_aside_by_a_crash_is_not_lost_unasked() {
    let (scratch, _) = with_a_run();
    std::fs::create_dir(scratch.path("r/.fedsi-replaced")).unwrap();
    for name in ["config.toml", "summary.json", "clients"] {
        std::fs::rename(
            scratch.path(&format!("r/{name}")),
            scratch.path(&format!("r/.fedsi-replaced/{name}")),
        )
        .unwrap();
    }
    refused(&scratch, &run(&["--out", "r"]), &["r holds a run already", "--force"]);
    scratch.succeeds(&run(&["--out", "r", "--force"]));
    assert!(!scratch.path("r/.fedsi-replaced").exists(), "what was replaced is gone");
}

#[test]
fn force_replaces_a_run_in_the_working_folder() {
    let scratch = Scratch::new();
    scratch.succeeds(&run(&["--out", "."]));
    scratch.succeeds(&run(&["--out", ".", "--seed", "2", "--force"]));
    assert_eq!(scratch.json("summary.json")["seed"], 2);
}

#[test]
fn bad_data_with_force_leaves_the_old_run_as_it_was() {
    let (scratch, _) = with_a_run();
    let missing = ["--dataset", "mnist", "--data-dir", "nowhere", "--out", "r", "--force"];
    refused(&scratch, &run(&missing), &["mnist", "nowhere", "fedsi data fetch mnist"]);
    let unfit = ["--set", "partition.kind=natural", "--out", "r", "--force"];
    refused(&scratch, &run(&unfit), &["partition.kind"]);
    let bad_config = ["--lr", "-1", "--out", "r", "--force"];
    refused(&scratch, &run(&bad_config), &["training.learning_rate"]);
}

#[test]
fn bad_data_leaves_an_empty_folder_empty() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("r")).unwrap();
    refused(&scratch, &run(&["--dataset", "mnist", "--data-dir", "nowhere", "--out", "r"]), &["nowhere"]);
}

#[test]
fn bad_data_leaves_no_folder_behind() {
    let scratch = Scratch::new();
    refused(&scratch, &run(&["--dataset", "mnist", "--data-dir", "nowhere"]), &["nowhere"]);
    refused(&scratch, &run(&["--dataset", "mnist", "--data-dir", "nowhere", "--out", "a/b/c"]), &["nowhere"]);
}

#[test]
fn a_file_is_no_folder() {
    let scratch = Scratch::new();
    scratch.write("notes.txt", "mine");
    for more in [&[][..], &["--force"]] {
        refused(
            &scratch,
            &run(&[&["--out", "notes.txt"], more].concat()),
            &["notes.txt is not a folder", "--out"],
        );
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_bad_usage() {
    let scratch = Scratch::new();
    scratch.write("notes.txt", "mine");
    refused(&scratch, &run(&["--out", "notes.txt/r"]), &["notes.txt/r", "--out"]);
}

#[test]
fn runs_started_together_get_a_folder_each() {
    let scratch = Scratch::new();
    let ended: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..4).map(|_| scope.spawn(|| scratch.fedsi(&run(&[])))).collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for one in ended {
        assert_eq!(one.code, Some(0), "{}", one.stderr);
    }
    let summaries = scratch.names().into_iter().filter(|name| name.ends_with("summary.json")).count();
    assert_eq!(summaries, 4, "{:?}", scratch.below("runs").keys());
}
