//! Killed, interrupted, damaged: a resumed run gives the bits it would have given.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::bad_input::refuses;
use crate::support::Scratch;

/// A run of a few seconds that saves its state often.
const RUN: [&str; 8] = [
    "run",
    "--rounds=25",
    "--clients=4",
    "--epochs=2",
    "--set=checkpoint.rounds=2",
    "--set=fedsi.posterior_interval=5",
    "--quiet",
    "--threads=1",
];

pub(crate) fn start(scratch: &Scratch, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedsi"));
    command.args(arguments).current_dir(scratch.path("")).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for something to be there while the program runs; whether it came before the program ended.
pub(crate) fn wait_for(child: &mut Child, there: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !there() {
        if child.try_wait().unwrap().is_some() {
            return there();
        }
        assert!(started.elapsed() < Duration::from_secs(100), "it never came");
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

pub(crate) fn lines(scratch: &Scratch, out: &str) -> usize {
    fs::read_to_string(scratch.path(&format!("{out}/metrics.jsonl"))).map_or(0, |text| text.lines().count())
}

/// Everything that equal runs have in common, byte for byte.
fn results(scratch: &Scratch, out: &str) -> BTreeMap<String, Option<Vec<u8>>> {
    scratch.below(out).into_iter().filter(|(name, _)| name.ends_with(".safetensors")).collect()
}

pub(crate) fn same(scratch: &Scratch, resumed: &str, whole: &str, what: &str) {
    let (found, expected) = (results(scratch, resumed), results(scratch, whole));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}: other files");
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{what}: {name} differs");
    }
    let rounds = |out: &str| -> Vec<_> {
        let records = scratch.json_lines(&format!("{out}/metrics.jsonl")).into_iter();
        records.map(|mut record| (record["round"].take(), record["train_loss"].take())).collect()
    };
    assert_eq!(rounds(resumed), rounds(whole), "{what}: every round once");
    let checkpoints = scratch.below(resumed).into_keys().filter(|name| name.contains("round-")).count();
    assert_eq!(checkpoints, 0, "{what}: a complete run needs no checkpoints");
}

/// One method of each kind of state: a Gaussian and a chosen prior, personal distributions, samples, kept heads.
#[test]
fn killed_at_any_moment_it_resumes_to_the_same_bits() {
    let scratch = Scratch::new();
    for (method, after) in
        [("fedsi", [3, 8, 21]), ("pfedbayes", [0, 2, 5]), ("fedpop", [1, 4, 9]), ("fedper", [2, 3, 4])]
    {
        let name = format!("--method={method}");
        let (whole, killed) = (format!("{method}-whole"), format!("{method}-killed"));
        scratch.succeeds(&[&RUN[..], &[&name, "--out", &whole]].concat());
        let mut child = start(&scratch, &[&RUN[..], &[&name, "--out", &killed]].concat());
        for (time, round) in after.into_iter().enumerate() {
            let config = scratch.path(&killed).join("config.toml");
            wait_for(&mut child, || lines(&scratch, &killed) >= round && config.exists());
            // Not always just after a line.
            std::thread::sleep(Duration::from_millis(7 * (time as u64 + round as u64 % 3)));
            child.kill().unwrap();
            child.wait().unwrap();
            child = start(&scratch, &["resume", &killed, "--threads=2", "--quiet"]);
        }
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{method}: {}", String::from_utf8_lossy(&ended.stderr));
        same(&scratch, &killed, &whole, method);
    }
}

#[test]
fn clients_state_on_disk_gives_the_same_bits_and_survives_kills() {
    let scratch = Scratch::new();
    let method = "--method=fedper";
    let few = "--participants=2";
    scratch.succeeds(&[&RUN[..], &[method, few, "--out=whole"]].concat());
    let mut child = start(&scratch, &[&RUN[..], &[method, few, "--out=disk", "--state-dir=state"]].concat());
    for round in [5, 12] {
        wait_for(&mut child, || lines(&scratch, "disk") >= round);
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = scratch.below("state").into_iter().filter(|(_, file)| file.is_some()).count();
        assert!((1..=16).contains(&kept), "{kept} files for four clients: old ones go");
        child = start(&scratch, &["resume", "disk", "--quiet"]);
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    same(&scratch, "disk", "whole", "on disk");
    let kept = scratch.below("state").into_iter().filter(|(_, file)| file.is_some()).count();
    assert_eq!(kept, 0, "a complete run needs none of it");
}

/// The first signal finishes the round and saves.
#[cfg(unix)]
#[test]
fn an_interrupt_saves_and_says_how_to_resume() {
    let scratch = Scratch::new();
    scratch.succeeds(&[&RUN[..], &["--out=whole"]].concat());
    for signal in ["-INT", "-TERM"] {
        let out = format!("stopped{signal}");
        let mut child = start(&scratch, &[&RUN[..], &["--out", &out, "--set=checkpoint.rounds=0"]].concat());
        wait_for(&mut child, || lines(&scratch, &out) >= 3);
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{signal}: {words}");
        assert!(words.contains(&format!("fedsi resume {out}")), "{signal}: {words}");
        assert!(words.contains("interrupted after round"), "{signal}: {words}");
        assert!(!scratch.path(&out).join("summary.json").exists(), "{signal}: it is not complete");
        scratch.succeeds(&["resume", &out, "--quiet"]);
        same(&scratch, &out, "whole", signal);
    }
}

#[test]
fn a_finished_run_says_so_and_stays_as_it_is() {
    let scratch = Scratch::new();
    scratch.succeeds(&["run", "--rounds=1", "--clients=2", "--epochs=1", "--out=r", "--quiet"]);
    let before = scratch.below("r");
    let ended = scratch.succeeds(&["resume", "r"]);
    assert!(ended.stdout.contains("r is complete"), "{}", ended.stdout);
    assert_eq!(scratch.below("r"), before);
}

/// A run that was killed in its middle, with two checkpoints.
fn half_a_run(scratch: &Scratch) -> Vec<String> {
    let mut child = start(scratch, &[&RUN[..], &["--out=half"]].concat());
    assert!(wait_for(&mut child, || lines(scratch, "half") >= 7));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut checkpoints: Vec<String> =
        scratch.below("half").into_keys().filter(|name| name.contains("round-")).collect();
    checkpoints.sort();
    assert!((1..=3).contains(&checkpoints.len()), "{checkpoints:?}");
    checkpoints
}

#[test]
fn a_damaged_checkpoint_costs_rounds_and_nothing_else() {
    let scratch = Scratch::new();
    scratch.succeeds(&[&RUN[..], &["--out=whole"]].concat());
    let checkpoints = half_a_run(&scratch);
    // The newest is cut short: the one before it is taken.
    let newest = format!("half/{}", checkpoints[checkpoints.len() - 1]);
    let bytes = scratch.bytes(&newest);
    scratch.write(&newest, &bytes[..bytes.len() / 2]);
    let ended = scratch.succeeds(&["resume", "half", "--threads=1"]);
    assert!(ended.stderr.contains("cannot be used: its checksum does not match"), "{}", ended.stderr);
    same(&scratch, "half", "whole", "the newest is damaged");
}

#[test]
fn with_every_checkpoint_damaged_it_starts_over_and_says_so() {
    let scratch = Scratch::new();
    scratch.succeeds(&[&RUN[..], &["--out=whole"]].concat());
    for name in half_a_run(&scratch) {
        scratch.write(&format!("half/{name}"), b"nothing");
    }
    let ended = scratch.succeeds(&["resume", "half"]);
    assert!(ended.stderr.contains("starting from round 1"), "{}", ended.stderr);
    same(&scratch, "half", "whole", "all are damaged");
}

#[test]
fn what_cannot_be_resumed_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    scratch.write("mine/notes.txt", "mine");
    refuses(
        &scratch,
        &["resume"],
        &[
            (&["nowhere"], &["nowhere", "is not the folder of a run"]),
            (&["mine"], &["mine", "holds no run that fedsi wrote"]),
            (&["mine/notes.txt"], &["is not the folder of a run"]),
        ],
    );
    // Checkpoints from the future, and of other settings.
    let checkpoints: Vec<String> =
        half_a_run(&scratch).into_iter().map(|name| format!("half/{name}")).collect();
    let kept: Vec<Vec<u8>> = checkpoints.iter().map(|name| scratch.bytes(name)).collect();
    let newer = |bytes: &Vec<u8>| {
        let (version, body) = ([200, 0, 0, 0], &bytes[44..]);
        let sum = Sha256::new().chain_update(version).chain_update(body).finalize();
        [&bytes[..8], &version, &sum[..], body].concat()
    };
    checkpoints.iter().zip(&kept).for_each(|(name, bytes)| scratch.write(name, newer(bytes)));
    refuses(&scratch, &["resume"], &[(&["half"], &["version 200", "the fedsi that wrote it"])]);
    checkpoints.iter().zip(&kept).for_each(|(name, bytes)| scratch.write(name, bytes));
    let config = scratch.text("half/config.toml");
    scratch.write("half/config.toml", config.replace("batch_size = 50", "batch_size = 40"));
    refuses(&scratch, &["resume"], &[(&["half"], &["other settings"])]);
    scratch.write("half/config.toml", config);
    // Whoever was refused has touched nothing.
    scratch.succeeds(&["resume", "half", "--quiet"]);
}

#[test]
fn two_processes_never_work_in_one_folder() {
    let scratch = Scratch::new();
    let mut child = start(&scratch, &["run", "--rounds=100000", "--clients=4", "--out=r", "--quiet"]);
    wait_for(&mut child, || lines(&scratch, "r") >= 1);
    let ended = scratch.fedsi(&["resume", "r"]);
    let forced = scratch.fedsi(&["run", "--rounds=1", "--out=r", "--force"]);
    child.kill().unwrap();
    child.wait().unwrap();
    for ended in [ended, forced] {
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("in use by another fedsi"), "{}", ended.stderr);
    }
}

/// Data that is gone is named; what was saved stays; with the data back the run is resumed.
#[test]
fn vanished_data_is_named_and_nothing_is_lost() {
    let scratch = Scratch::new();
    let rows: String = (0..60).map(|row| format!("{},{},{}\n", row % 7, row % 5, row % 2)).collect();
    let table = format!("a,b,outcome\n{rows}");
    scratch.write("table.csv", &table);
    let run = [
        "run",
        "--dataset=files",
        "--set=data.files.train=table.csv",
        "--set=data.files.target=outcome",
        "--set=partition.kind=iid",
        "--clients=3",
        "--rounds=400",
        "--set=checkpoint.rounds=1",
        "--quiet",
        "--out=r",
    ];
    let mut child = start(&scratch, &run);
    assert!(wait_for(&mut child, || lines(&scratch, "r") >= 3));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(scratch.path("table.csv")).unwrap();
    let before = scratch.below("r");
    refuses(&scratch, &["resume"], &[(&["r"], &["table.csv"])]);
    assert_eq!(scratch.below("r"), before, "nothing was touched");
    scratch.write("table.csv", &table);
    scratch.succeeds(&["resume", "r", "--quiet"]);
}

/// A place that cannot be written: exit code 1, the way to go on, and the checkpoints before it whole.
#[test]
fn what_cannot_be_written_stops_the_run_and_loses_nothing() {
    let scratch = Scratch::new();
    scratch.succeeds(&[&RUN[..], &["--out=whole"]].concat());
    half_a_run(&scratch);
    // Where personal models are to go there is a file: even root cannot make a folder of it.
    scratch.write("half/clients", "in the way");
    let ended = scratch.fedsi(&["resume", "half", "--quiet"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("half/clients") && ended.stderr.contains("fedsi resume half"),
        "{}",
        ended.stderr
    );
    fs::remove_file(scratch.path("half/clients")).unwrap();
    scratch.succeeds(&["resume", "half", "--quiet"]);
    same(&scratch, "half", "whole", "after the way was free");
}
