//! Times what fedsi's peers are timed at: `bench/peers/run` calls this beside PyTorch and JAX in one run.

mod random_data;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use fedsi_data::Size;
use fedsi_fl::{Config, Simulation};
use serde_json::json;

use random_data::RandomFederation;

/// As the command line has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Clients of a round.
const CLIENTS: usize = 10;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One round of `FedAvg`: 10 clients, 10 epochs, batch 50, Adam. Prints one line of JSON.
    Round {
        /// Network and samples a client.
        #[arg(long)]
        case: Case,
        /// Rounds to time; the best counts.
        #[arg(long, default_value_t = 5)]
        repeats: usize,
        /// Threads; 0 for one a core.
        #[arg(long, default_value_t = 0)]
        threads: usize,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Case {
    MlpSmall,
    MlpLarge,
    CnnSmall,
    CnnLarge,
}

impl Case {
    /// The dataset whose network it is, samples a client, and its name.
    const fn settings(self) -> (&'static str, usize, &'static str) {
        match self {
            Self::MlpSmall => ("mnist", 250, "mlp-small"),
            Self::MlpLarge => ("mnist", 4500, "mlp-large"),
            Self::CnnSmall => ("cifar-10", 125, "cnn-small"),
            Self::CnnLarge => ("cifar-10", 2250, "cnn-large"),
        }
    }
}

fn main() -> anyhow::Result<()> {
    let Command::Round { case, repeats, threads } = Arguments::parse().command;
    let (dataset, samples, name) = case.settings();
    let mut config = Config::defaults("fedavg", dataset, Size::Small)?;
    config.partition.clients = CLIENTS;
    config.federation.participants = CLIENTS;
    config.threads = threads;
    let config = config.check()?;
    let form = config.dataset().form().context("the dataset's shape is known before it is opened")?;
    let federation = RandomFederation::new(CLIENTS, samples, form.input_shape.to_vec());
    let mut simulation = Simulation::new(&config, Arc::new(federation))?;
    simulation.round()?; // warms caches and memory up, as compiling does for the peers
    let mut seconds = Vec::with_capacity(repeats);
    for _ in 0..repeats.max(1) {
        let started = Instant::now();
        simulation.round()?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    let best = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let line = json!({
        "peer": "fedsi",
        "case": name,
        "seconds_best": best,
        "seconds_all": seconds,
        "versions": { "fedsi": env!("CARGO_PKG_VERSION") },
        "threads": threads,
    });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
