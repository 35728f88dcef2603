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

/// What a process did that was killed while it replaced the run in `r`, up to the writing of the new config.
fn replaced_halfway(scratch: &Scratch, moved: &[&str], new_config: bool) {
    std::fs::create_dir(scratch.path("r/.fedsi-replaced")).unwrap();
    for name in moved {
        let aside = scratch.path(&format!("r/.fedsi-replaced/{name}"));
        std::fs::rename(scratch.path(&format!("r/{name}")), aside).unwrap();
    }
    if new_config {
        scratch.write("r/config.toml", "# Written by fedsi 0.2.0.\nrounds = 7\n");
    }
}

/// However far a replacement had come when its process was killed, whoever looks next finds the old run, and says so.
#[test]
fn a_run_left_aside_by_a_crash_is_put_back() {
    let commands: [(&[&str], i32); 5] = [
        (&run(&["--out", "r"]), 2),
        (&["resume", "r"], 0),
        (&["report", "r"], 0),
        (&run(&["--out", "r", "--force", "--dataset=mnist", "--data-dir=nowhere"]), 2),
        (&["predict", "--run=r", "--client=0", "--input=none.csv"], 2),
    ];
    for (index, (command, code)) in commands.into_iter().enumerate() {
        let (scratch, before) = with_a_run();
        let moved: &[&str] = [&["config.toml"][..], &["config.toml", "summary.json", "clients"]][index % 2];
        replaced_halfway(&scratch, moved, index > 1);
        let ended = scratch.fedsi(command);
        assert_eq!(ended.code, Some(code), "fedsi {}: {}", command.join(" "), ended.stderr);
        assert!(ended.stderr.contains("the run is back as it was"), "{}", ended.stderr);
        let mut after = scratch.everything();
        // A page made again is another page; nothing else changes.
        for (name, content) in &before {
            if name.ends_with("report.html") {
                after.insert(name.clone(), content.clone());
            }
        }
        assert!(after == before, "fedsi {}: {:?}", command.join(" "), after.keys());
    }
}

/// A replacement that had been decided is not undone: what is left of the old run goes.
#[test]
fn a_replacement_that_was_decided_stands() {
    let (scratch, _) = with_a_run();
    replaced_halfway(&scratch, &["summary.json", "clients"], false);
    scratch.succeeds(&["resume", "r", "--quiet"]);
    assert!(!scratch.path("r/.fedsi-replaced").exists());
    assert!(scratch.path("r/summary.json").is_file(), "the run was made to its end");
}

/// What a person keeps in a run's folders is neither deleted nor written through.
#[cfg(unix)]
#[test]
fn files_and_links_of_others_are_neither_deleted_nor_followed() {
    use std::os::unix::fs::symlink;
    let (scratch, _) = with_a_run();
    scratch.write("r/plots/mine.svg", "years of work");
    let force = run(&["--out", "r", "--seed", "2", "--force"]);
    refused(&scratch, &force, &["plots/mine.svg", "not part of a run"]);
    std::fs::remove_file(scratch.path("r/plots/mine.svg")).unwrap();
    // Somebody else's folder where a replaced run would be set aside, and a link among the run's own names.
    scratch.write("other/config.toml", "# Written by fedsi 0.2.0.\nmine = true\n");
    symlink(scratch.path("other"), scratch.path("r/.fedsi-replaced")).unwrap();
    refused(&scratch, &force, &[".fedsi-replaced", "symbolic link"]);
    std::fs::remove_file(scratch.path("r/.fedsi-replaced")).unwrap();
    for (name, target) in [("metrics.jsonl", "other/config.toml"), ("checkpoint", "other")] {
        let kept = scratch.path("kept");
        std::fs::rename(scratch.path(&format!("r/{name}")), &kept).unwrap();
        let summary = scratch.bytes("r/summary.json");
        std::fs::remove_file(scratch.path("r/summary.json")).unwrap();
        symlink(scratch.path(target), scratch.path(&format!("r/{name}"))).unwrap();
        refused(&scratch, &["resume", "r"], &[name, "symbolic link"]);
        refused(&scratch, &force, &[name, "symbolic link"]);
        std::fs::remove_file(scratch.path(&format!("r/{name}"))).unwrap();
        std::fs::rename(&kept, scratch.path(&format!("r/{name}"))).unwrap();
        scratch.write("r/summary.json", summary);
    }
}

/// Of several that replace a run at once one wins, and what is left is all of one of them.
#[test]
fn runs_that_replace_at_once_are_not_mixed() {
    let (scratch, _) = with_a_run();
    for race in 0..4 {
        let seeds = [(10 + 2 * race).to_string(), (11 + 2 * race).to_string()];
        let ended: Vec<_> = std::thread::scope(|scope| {
            let one = |seed: &str| scratch.fedsi(&run(&["--out", "r", "--force", "--seed", seed]));
            let started: Vec<_> = seeds.iter().map(|seed| scope.spawn(move || one(seed))).collect();
            started.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for ended in &ended {
            assert!(matches!(ended.code, Some(0 | 2)), "{}", ended.stderr);
        }
        assert!(ended.iter().any(|ended| ended.code == Some(0)), "nobody won: {ended:?}");
        let seed = scratch.json("r/summary.json")["seed"].as_u64().unwrap();
        let config = scratch.text("r/config.toml");
        assert!(config.contains(&format!("\nseed = {seed}\n")), "config and summary are of two runs");
        scratch.succeeds(&["report", "r", "--quiet"]);
        assert!(!scratch.path("r/.fedsi-replaced").exists() && !scratch.path("r/.fedsi-lock").exists());
    }
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
