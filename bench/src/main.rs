//! Times what fedsi's peers are timed at: `bench/peers/run` calls this beside PyTorch and JAX in one run.

mod random_data;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fedsi_fl::config::{self, Overrides};
use fedsi_fl::simulation::EvaluationRequest;
use fedsi_fl::{Checked, Simulation, resolve};
use fedsi_run::ComputeDevice;
use serde_json::{Value, json};

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
    /// Rounds of `FedAvg`, unless another method is named: 10 clients, 10 epochs, batch 50, Adam. Prints one line of JSON.
    Round(Work),
    /// Posteriors and predictions of `FedSI` for 10 clients after one round of training, each with as many test samples as
    /// training samples. Prints one line of JSON.
    Evaluation(Work),
}

/// What is timed.
#[derive(Args)]
struct Work {
    /// Network and samples a client.
    #[arg(long)]
    case: Case,
    /// How often; the best counts.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Threads; 0 for one a core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// What networks are computed on: cpu, cuda or auto.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// The method.
    #[arg(long)]
    method: Option<String>,
    /// Clients of a round.
    #[arg(long, default_value_t = CLIENTS)]
    clients: usize,
    /// Samples a client, instead of the case's.
    #[arg(long)]
    samples: Option<usize>,
    /// Any other key of the config. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
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
    match Arguments::parse().command {
        Command::Round(work) => {
            let (mut simulation, device) = work.simulation("fedavg")?;
            simulation.round()?; // warms caches and memory up, as compiling does for the peers
            work.print_times(&device, || Ok(json!(simulation.round()?.seconds)))
        }
        Command::Evaluation(work) => {
            let (mut simulation, device) = work.simulation("fedsi")?;
            simulation.round()?;
            let request = EvaluationRequest { first: 0, models: false, further_inputs: &|_| Vec::new() };
            work.print_times(&device, || {
                simulation.evaluate(&request, |_| Ok(()))?;
                Ok(Value::Null)
            })
        }
    }
}

impl Work {
    /// A method's simulation on random data of the case's size, and what it is computed on.
    fn simulation(&self, method: &str) -> anyhow::Result<(Simulation, ComputeDevice)> {
        let (dataset, samples, _) = self.case.settings();
        let config = self.config(self.method.as_deref().unwrap_or(method), dataset)?;
        let form = config.dataset().form().context("the dataset's shape is known before it is opened")?;
        let samples = self.samples.unwrap_or(samples);
        let federation = RandomFederation::new(self.clients, samples, form.input_shape.to_vec());
        let device = ComputeDevice::open(config.device)?;
        Ok((device.simulation(&config, Arc::new(federation))?, device))
    }

    fn config(&self, method: &str, dataset: &str) -> anyhow::Result<Checked> {
        let whole = |value: usize| toml::Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
        let text = |value: &str| toml::Value::String(value.to_owned());
        let mut given = vec![
            ("method".to_owned(), text(method)),
            ("data.dataset".to_owned(), text(dataset)),
            ("device".to_owned(), text(&self.device)),
            ("threads".to_owned(), whole(self.threads)),
            ("partition.clients".to_owned(), whole(self.clients)),
            ("federation.participants".to_owned(), whole(self.clients)),
        ];
        for assignment in &self.set {
            given.push(config::assignment(assignment)?);
        }
        Ok(resolve(&[Overrides::from_assignments("the command line", given)?])?.check()?)
    }

    /// Times some work, which may tell its parts, and prints its best and all times.
    fn print_times(
        &self,
        device: &ComputeDevice,
        mut work: impl FnMut() -> anyhow::Result<Value>,
    ) -> anyhow::Result<()> {
        let (mut seconds, mut parts) = (Vec::new(), Vec::new());
        for _ in 0..self.repeats.max(1) {
            let started = Instant::now();
            parts.push(work()?);
            seconds.push(started.elapsed().as_secs_f64());
        }
        let (_, samples, name) = self.case.settings();
        let line = json!({
            "peer": "fedsi",
            "case": name,
            "method": self.method,
            "clients": self.clients,
            "samples": self.samples.unwrap_or(samples),
            "set": self.set,
            "seconds_best": seconds.iter().copied().fold(f64::INFINITY, f64::min),
            "seconds_all": seconds,
            "parts": parts,
            "versions": { "fedsi": env!("CARGO_PKG_VERSION") },
            "device": device.kind(),
            "threads": self.threads,
        });
        writeln!(std::io::stdout(), "{line}")?;
        Ok(())
    }
}
