//! Runs the fuzz targets for some seconds each, without libFuzzer: mutations of their seeds, from a seeded generator. An
//! input that makes a reader panic is saved, and named on stderr.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use fedsi_fuzz::{TARGETS, clean_up, smoke, target};

/// Fuzz without libFuzzer.
#[derive(Parser)]
struct Arguments {
    /// Targets; all where none is named.
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seed of the mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where inputs that make a reader panic are saved.
    #[arg(long, default_value = "fuzz/artifacts")]
    artifacts: PathBuf,
    /// Read this file instead of mutations: to see a saved panic again.
    #[arg(long)]
    input: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let time = Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?;
    let mut targets = Vec::new();
    for name in &arguments.targets {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        let found = target(name);
        targets.push(found.with_context(|| format!("no target `{name}`: expected {}", known.join(", ")))?);
    }
    if targets.is_empty() {
        targets.extend(TARGETS);
    }
    if let Some(path) = &arguments.input {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        for target in targets {
            println!("{}: {}", target.name, if (target.read)(&bytes)? { "read" } else { "refused" });
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut panics = 0;
    for target in targets {
        panics += usize::from(!smoke(target, time, arguments.seed, &arguments.artifacts)?);
    }
    clean_up();
    Ok(if panics == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
