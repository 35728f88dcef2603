//! What networks are computed on. Tests hide a GPU that this machine may have.

use std::process::{Command, Output};

use crate::support::Scratch;

const RUN: [&str; 6] = ["run", "--rounds=2", "--clients=3", "--epochs=1", "--threads=1", "--out=out"];

/// fedsi on a machine whose GPUs are hidden.
fn fedsi(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedsi"));
    // CUDA then finds no device; where CUDA is not installed at all nothing changes.
    command.env("CUDA_VISIBLE_DEVICES", "-1").current_dir(scratch.path(""));
    command.args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_gpu_that_is_not_there_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    let output = fedsi(&scratch, &[&RUN[..], &["--device=cuda"]].concat());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the GPU cannot be used"), "{text}");
    assert!(text.contains("--device auto"), "{text}");
    assert!(!scratch.path("out").exists(), "a folder was left behind");
}

#[test]
fn auto_says_why_there_is_no_gpu_and_uses_the_cpu() {
    let scratch = Scratch::new();
    let output = fedsi(&scratch, &[&RUN[..], &["--device=auto"]].concat());
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("device = auto: the CPU is used, since"), "{text}");
    let summary = scratch.json("out/summary.json");
    assert_eq!(summary["device"], "cpu");
    // The same results as those of a run that never asked.
    let plain =
        fedsi(&scratch, &["run", "--rounds=2", "--clients=3", "--epochs=1", "--threads=1", "--out=plain"]);
    assert!(plain.status.success(), "{}", stderr(&plain));
    assert_eq!(scratch.json("plain/summary.json")["accuracy"], summary["accuracy"]);
}

#[test]
fn a_device_that_nobody_knows_is_refused() {
    let scratch = Scratch::new();
    let output = fedsi(&scratch, &[&RUN[..], &["--device=tpu"]].concat());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("device") && text.contains("cuda") && text.contains("auto"), "{text}");
}

#[test]
fn a_comparison_reuses_runs_whatever_they_were_computed_on() {
    let scratch = Scratch::new();
    let compare = [
        "compare",
        "--methods=fedavg",
        "--seeds=1",
        "--rounds=2",
        "--clients=3",
        "--epochs=1",
        "--out=table",
    ];
    let first = fedsi(&scratch, &compare);
    assert!(first.status.success(), "{}", stderr(&first));
    let again = fedsi(&scratch, &[&compare[..], &["--device=auto"]].concat());
    let text = stderr(&again);
    assert!(again.status.success(), "{text}");
    assert!(!text.contains("the CPU is used"), "nothing was left to compute: {text}");
}
