//! The gate between a config and a run.

use std::ops::Deref;

use fedsi_data::{DatasetName, PartitionKind, Task};
use fedsi_nn::{LayerSpec, Network};

use super::{Config, ConfigError, FinalPrior, MOST_PARTICIPANTS};
use crate::methods::{self, Method};

/// Largest number of threads anyone may ask for.
const MOST_THREADS: usize = 1024;

/// Largest number of clients: what a machine can evaluate within days.
const MOST_CLIENTS: usize = 10_000_000;

/// A config that was found sound. Nothing else can be run.
#[derive(Clone, Debug)]
pub struct Checked {
    config: Config,
    method: &'static Method,
}

impl Deref for Checked {
    type Target = Config;
    fn deref(&self) -> &Config {
        &self.config
    }
}

impl Config {
    /// Checks every value that can be checked without the data.
    ///
    /// # Errors
    /// The first value that cannot be used, and what it must be.
    pub fn check(self) -> Result<Checked, ConfigError> {
        let method = methods::find(&self.method)?;
        self.check_numbers()?;
        self.check_fedsi()?;
        self.check_rivals()?;
        self.check_trouble()?;
        self.check_partition()?;
        let shape = match self.data.dataset {
            DatasetName::Digits | DatasetName::Mnist | DatasetName::FashionMnist => Some(&[1, 28, 28][..]),
            DatasetName::Cifar10 => Some(&[3, 32, 32][..]),
            DatasetName::Files => None,
        };
        let checked = Checked { config: self, method };
        if let Some(shape) = shape {
            checked.network(shape, Task::Classification { classes: 10 })?;
        }
        Ok(checked)
    }

    fn check_numbers(&self) -> Result<(), ConfigError> {
        let rate = "it must be a finite number above 0";
        let (training, tuning) = (&self.training, &self.tuning);
        whole("rounds", self.rounds, 1..=usize::MAX, "a run needs at least 1 round")?;
        whole("threads", self.threads, 0..=MOST_THREADS, "at most 1024 threads")?;
        let most = usize::try_from(i64::MAX).unwrap_or(usize::MAX);
        whole("seed", usize::try_from(self.seed).unwrap_or(usize::MAX), 0..=most, "at most 2^63 - 1")?;
        whole("training.epochs", training.epochs, 1..=usize::MAX, "a round needs at least 1 epoch")?;
        whole("training.batch", training.batch, 1..=1 << 24, "between 1 and 16777216 samples a step")?;
        number("training.rate", training.rate, |x| x > 0.0, rate)?;
        number(
            "training.momentum",
            training.momentum,
            |x| (0.0..1.0).contains(&x),
            "0 up to, not including, 1",
        )?;
        number("tuning.rate", tuning.rate, |x| x > 0.0, rate)?;
        let quorum = "a share above 0 and at most 1";
        number("federation.quorum", self.federation.quorum, |x| x > 0.0 && x <= 1.0, quorum)?;
        let held_out = "a share from 0 to 0.9";
        number("validation.fraction", self.validation.fraction, |x| (0.0..=0.9).contains(&x), held_out)?;
        let day = "a number from 0 to 86400";
        number("checkpoint.seconds", self.checkpoint.seconds, |x| (0.0..=86_400.0).contains(&x), day)?;
        number("model.noise", self.model.noise, |x| x >= 0.0, "a finite number, 0 or above")
    }

    fn check_fedsi(&self) -> Result<(), ConfigError> {
        let fedsi = &self.fedsi;
        let positive = "a finite number above 0";
        let share = "a share above 0 and at most 1";
        number("fedsi.subnetwork", fedsi.subnetwork, |x| x > 0.0 && x <= 1.0, share)?;
        // Variances travel in single precision.
        let single = "a number from 1e-30 to 1e30";
        number("fedsi.alpha", fedsi.alpha, |x| (1e-30..=1e30).contains(&x), single)?;
        number("fedsi.noise", fedsi.noise, |x| x >= 0.0, "a finite number, 0 or above")?;
        for (key, value) in
            [("fedsi.tolerance", fedsi.tolerance), ("fedsi.round_tolerance", fedsi.round_tolerance)]
        {
            number(key, value, |x| x >= 0.0, "a finite number, 0 or above")?;
        }
        if let FinalPrior::Fixed(variance) = fedsi.prior_variance {
            number("fedsi.prior_variance", variance, |x| x > 0.0, positive)?;
        }
        let every = usize::try_from(fedsi.every).unwrap_or(usize::MAX);
        whole("fedsi.every", every, 1..=usize::MAX, "at least 1: every round")?;
        whole("fedsi.draws", fedsi.draws, 1..=1 << 20, "between 1 and 1048576 draws")
    }

    fn check_rivals(&self) -> Result<(), ConfigError> {
        let Self { mean_field, pfedbayes, bpfed, fedpop, .. } = self;
        // Squares of deviations travel in single precision.
        let single = "a number from 1e-15 to 1e15";
        for (key, value) in [
            ("mean_field.initial_mean", mean_field.initial_mean),
            ("mean_field.initial_deviation", mean_field.initial_deviation),
        ] {
            number(key, value, |x| (1e-15..=1e15).contains(&x), single)?;
        }
        whole("mean_field.draws", mean_field.draws, 1..=1 << 20, "between 1 and 1048576 draws")?;
        for (key, value) in [("pfedbayes.zeta", pfedbayes.zeta), ("bpfed.zeta", bpfed.zeta)] {
            number(key, value, |x| x >= 0.0, "a finite number, 0 or above")?;
        }
        whole("fedpop.steps", fedpop.steps, 1..=1 << 20, "between 1 and 1048576 steps")?;
        let fewer = "fewer than fedpop.steps: at least one step is kept";
        whole("fedpop.discard", fedpop.discard, 0..=fedpop.steps - 1, fewer)?;
        let positive = "a finite number above 0";
        number("fedpop.step", fedpop.step, |x| x > 0.0, positive)?;
        number("fedpop.prior_variance", fedpop.prior_variance, |x| x > 0.0, positive)?;
        whole("fedpop.samples", fedpop.samples, 1..=1 << 20, "between 1 and 1048576 samples")
    }

    fn check_partition(&self) -> Result<(), ConfigError> {
        let partition = &self.partition;
        let fraction = "a share from 0 up to, not including, 1";
        let positive = "a finite number above 0";
        number("partition.test_fraction", partition.test_fraction, |x| (0.0..1.0).contains(&x), fraction)?;
        number("partition.concentration", partition.concentration, |x| x > 0.0, positive)?;
        whole("partition.labels_per_client", partition.labels_per_client, 1..=usize::MAX, "at least 1")?;
        whole("partition.shards_per_client", partition.shards_per_client, 1..=usize::MAX, "at least 1")?;
        if matches!(partition.kind, PartitionKind::Natural | PartitionKind::File) {
            return Ok(()); // the data says how many clients there are
        }
        whole(
            "partition.clients",
            partition.clients,
            1..=MOST_CLIENTS,
            "at least 1 and at most 10000000 clients",
        )?;
        self.participants_of(partition.clients).map(|_| ())
    }

    /// How many of `clients` clients take part in a round.
    ///
    /// # Errors
    /// More participants than clients.
    pub fn participants_of(&self, clients: usize) -> Result<usize, ConfigError> {
        let wanted = self.federation.participants;
        if wanted > clients {
            return Err(ConfigError::Value {
                key: "federation.participants",
                found: wanted.to_string(),
                expected: format!("there are {clients} clients; ask for at most {clients} participants"),
            });
        }
        Ok(if wanted == 0 { clients.min(MOST_PARTICIPANTS) } else { wanted })
    }
}

impl Checked {
    /// The method of the run.
    #[must_use]
    pub const fn method(&self) -> &'static Method {
        self.method
    }

    /// The same run on another number of threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.config.threads = threads;
        self
    }

    /// The network for inputs of this shape: the body, and a head with an output for each class or target.
    ///
    /// # Errors
    /// A body that does not fit the inputs, or that the method cannot choose a subnetwork of.
    pub fn network(&self, input: &[usize], task: Task) -> Result<Network, ConfigError> {
        let outputs = match task {
            Task::Classification { classes } => classes,
            Task::Regression { outputs } => outputs,
        };
        let mut layers = self.model.body.clone();
        layers.push(LayerSpec::Linear(outputs));
        let network = Network::new(input, &layers)?;
        let procedure = (self.method.declare)(self);
        if let Some(laplace) = procedure.laplace() {
            let range = procedure.shared.range(network.layout());
            laplace.structure.check(network.layout(), range).map_err(ConfigError::Subnetwork)?;
        }
        Ok(network)
    }
}

fn whole(
    key: &'static str,
    found: usize,
    allowed: std::ops::RangeInclusive<usize>,
    expected: &str,
) -> Result<(), ConfigError> {
    if allowed.contains(&found) {
        return Ok(());
    }
    Err(ConfigError::Value { key, found: found.to_string(), expected: expected.to_owned() })
}

pub(super) fn number(
    key: &'static str,
    found: f64,
    good: impl Fn(f64) -> bool,
    expected: &str,
) -> Result<(), ConfigError> {
    if found.is_finite() && good(found) {
        return Ok(());
    }
    Err(ConfigError::Value { key, found: found.to_string(), expected: expected.to_owned() })
}
