//! Bytes of memory of a simulation, before any of it is taken.
//!
//! Counted in parts, each between what it takes at least and what it takes at most. The factors are measured (peaks of
//! whole runs of 10^6 to 10^8 parameters, one to eight clients, one and two threads, every kind of method), not derived:
//! what a method holds at its peak is spread over the trainer, the client, the messages and the files.

use fedsi_data::{Federation, Split};
use thiserror::Error;

use crate::config::ConfigError;
use crate::executor::CACHE_BYTES;
use crate::methods::{Objective, Participation, PosteriorStructure, Procedure, Reference, Uncertainty};
use crate::registry::Checked;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryPart {
    /// Parameters of the server and of the clients at work, with their gradients and the optimiser's state.
    Parameters,
    /// What passes through the layers, batch by batch.
    Activations,
    /// What participants send in a round.
    Uploads,
    /// What clients keep from round to round.
    KeptParameters,
    /// Covariances of personal models.
    Posteriors,
    /// Samples of the clients at work, and those that are cached.
    Samples,
    /// Predictions for all test samples.
    Predictions,
}

impl MemoryPart {
    /// The part in words, and the setting that decides it.
    #[must_use]
    pub const fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Parameters => ("the parameters of the network while clients train", "model.body"),
            Self::Activations => ("what passes through the layers", "training.batch_size"),
            Self::Uploads => ("what participants send in a round", "federation.participants"),
            Self::KeptParameters => {
                ("what clients keep from round to round", "partition.clients, or checkpoint.state_dir")
            }
            Self::Posteriors => ("the covariances of personal models", "fedsi.subnetwork"),
            Self::Samples => ("the samples of clients at work", "partition.train"),
            Self::Predictions => ("predictions for the test samples of all clients", "partition.test"),
        }
    }
}

/// A config that needs more memory than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the run needs at least {} of memory and {} can be had: {} for {}, which follows from {}",
    gigabytes(*.needed),
    gigabytes(*.available),
    gigabytes(*.bytes),
    .part.describe().0,
    .part.describe().1
)]
pub struct MemoryError {
    /// What the simulation takes at least, in bytes.
    pub needed: u64,
    /// What can be had.
    pub available: u64,
    /// What takes most of it.
    pub part: MemoryPart,
    /// What this part takes at least.
    pub bytes: u64,
}

/// Bytes as gigabytes.
fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// What a part takes: at least, and at most.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    part: MemoryPart,
    least: f64,
    most: f64,
}

/// What a simulation holds at its peak beside the data it is given, part by part.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEstimate {
    spans: Vec<Span>,
}

/// What a process holds before it does anything.
const PROCESS: f64 = (16_u64 << 20) as f64;

/// Values of four bytes that a part of the parameters takes at least and at most, for each of its parameters.
type Values = (f64, f64);

impl MemoryEstimate {
    /// Of a config on this data, on so many threads. Cost: one look at every client's number of samples.
    ///
    /// # Errors
    /// A network that does not fit the data, more participants than clients.
    pub fn of(config: &Checked, federation: &dyn Federation, threads: usize) -> Result<Self, ConfigError> {
        let network = config.network(federation.input_shape(), federation.task())?;
        let (layout, procedure) = (network.layout(), config.procedure());
        let clients = federation.clients();
        let participants = match procedure.participation {
            Participation::Sampled => config.participants_of(clients)?,
            Participation::Everyone => clients,
        };
        // Floats throughout: no product of sizes overflows.
        let at_work = threads.clamp(1, clients.max(1)) as f64;
        let part_len = |range: std::ops::Range<usize>| range.len() as f64;
        let (parameters, shared) = (layout.len() as f64, part_len(procedure.held().range(layout)));
        let on_disk = !config.checkpoint.state_dir.as_os_str().is_empty();
        let kept = if on_disk { 0.0 } else { part_len(procedure.kept.range(layout)) };
        let rows = Rows::of(federation);
        let (width, outputs) = (network.inputs() as f64, network.outputs() as f64);

        let (base, each) = training_values(&procedure);
        let upload = upload_values(&procedure);
        let largest = rows.of_largest(1);
        let batch = (config.training.batch_size as f64).min(largest);
        let activations = 4.0 * at_work * batch * network.activations() as f64;
        let modes = procedure.modes.count as f64;
        let cached = (4.0 * width * rows.train * modes).min(CACHE_BYTES as f64);
        let samples = 4.0 * width * rows.of_largest(at_work as usize);
        let predictions = 4.0 * outputs * rows.test;
        let posterior = posterior_values(&procedure, shared, largest * outputs);
        let clients = clients as f64;
        let values = |count: f64, (least, most): Values| (4.0 * count * least, 4.0 * count * most);
        let with_threads = (base.0 + at_work * each.0, base.1 + at_work * each.1);
        let span = |part, (least, most): (f64, f64)| Span { part, least, most };
        Ok(Self {
            spans: vec![
                span(MemoryPart::Parameters, values(modes * parameters, with_threads)),
                span(MemoryPart::Activations, (activations, 3.0 * activations)),
                span(MemoryPart::Uploads, values(shared * participants as f64, upload)),
                span(MemoryPart::KeptParameters, values(kept * clients, kept_values(&procedure))),
                span(MemoryPart::Posteriors, (at_work * posterior.0, at_work * posterior.1)),
                span(MemoryPart::Samples, (samples, cached + 3.0 * samples)),
                span(MemoryPart::Predictions, (2.0 * predictions, 6.0 * predictions)),
            ],
        })
    }

    /// Bytes that it takes at least.
    #[must_use]
    pub fn least(&self) -> u64 {
        // `as` saturates.
        self.spans.iter().map(|span| span.least).sum::<f64>() as u64
    }

    /// Bytes that it takes at most: on the safe side.
    #[must_use]
    pub fn most(&self) -> u64 {
        (self.spans.iter().map(|span| span.most).sum::<f64>() + PROCESS) as u64
    }

    /// Refuses what cannot fit, whatever happens, into the bytes that can be had.
    ///
    /// # Errors
    /// More needed at least than there is; names what takes most.
    pub fn check(&self, available: u64) -> Result<(), MemoryError> {
        let largest = self.spans.iter().max_by(|a, b| a.least.total_cmp(&b.least));
        match (self.least(), largest) {
            (needed, Some(span)) if needed > available => {
                Err(MemoryError { needed, available, part: span.part, bytes: span.least as u64 })
            }
            _ => Ok(()),
        }
    }
}

/// Bytes that a simulation may hold beside the data it is given: an estimate on the safe side, known before it is built.
///
/// # Errors
/// A network that does not fit the data.
pub fn memory_bytes(
    config: &Checked,
    federation: &dyn Federation,
    threads: usize,
) -> Result<u64, ConfigError> {
    Ok(MemoryEstimate::of(config, federation, threads)?.most())
}

/// Rows of data: of all clients to train and to test, and of each of them.
struct Rows {
    train: f64,
    test: f64,
    /// Of each client the more of both, from the largest down.
    sizes: Vec<f64>,
}

impl Rows {
    fn of(federation: &dyn Federation) -> Self {
        let mut rows = Self { train: 0.0, test: 0.0, sizes: Vec::new() };
        for client in 0..federation.clients() {
            let [train, test] =
                [Split::Train, Split::Test].map(|split| federation.count(client, split) as f64);
            rows.train += train;
            rows.test += test;
            rows.sizes.push(train.max(test));
        }
        rows.sizes.sort_unstable_by(|a, b| b.total_cmp(a));
        rows
    }

    /// The rows of so many clients at once, at most.
    fn of_largest(&self, clients: usize) -> f64 {
        self.sizes.iter().take(clients).sum()
    }
}

/// Values for each parameter of the network: once, and for each client at work.
fn training_values(procedure: &Procedure) -> (Values, Values) {
    let phases = || procedure.local.iter().chain(&procedure.personalise);
    let trains_against_server = phases().any(|phase| {
        matches!(phase.objective, Objective::Variational { reference: Reference::Server { .. }, .. })
    });
    match &procedure.uncertainty {
        Uncertainty::None | Uncertainty::Samples(_) => ((3.0, 8.0), (3.0, 7.0)),
        Uncertainty::MeanField(_) if trains_against_server => ((4.0, 10.0), (28.0, 40.0)),
        Uncertainty::MeanField(_) => ((4.0, 10.0), (20.0, 30.0)),
        Uncertainty::Laplace(laplace) => match laplace.structure {
            PosteriorStructure::Subnetwork { .. } => ((4.0, 12.0), (15.0, 24.0)),
            PosteriorStructure::Whole | PosteriorStructure::Diagonal => ((20.0, 48.0), (20.0, 32.0)),
        },
    }
}

/// Values for each shared parameter of an upload.
fn upload_values(procedure: &Procedure) -> Values {
    match &procedure.uncertainty {
        Uncertainty::None | Uncertainty::Samples(_) => (1.0, 1.5),
        Uncertainty::MeanField(_) => (2.0, 2.5),
        Uncertainty::Laplace(laplace) => match laplace.structure {
            PosteriorStructure::Subnetwork { .. } => (1.0, 2.0),
            PosteriorStructure::Whole | PosteriorStructure::Diagonal => (2.0, 5.0),
        },
    }
}

/// Values for each parameter that a client keeps: stored, staged, and in a checkpoint that is being written.
const fn kept_values(procedure: &Procedure) -> Values {
    match &procedure.uncertainty {
        Uncertainty::MeanField(_) => (4.0, 10.0),
        Uncertainty::None | Uncertainty::Samples(_) | Uncertainty::Laplace(_) => (2.0, 5.0),
    }
}

/// Bytes of a posterior's factor: its parameters by what the data determines, which is known at least where it is exact,
/// several times while it is made.
fn posterior_values(procedure: &Procedure, candidates: f64, determined: f64) -> (f64, f64) {
    let Some(laplace) = procedure.laplace() else { return (0.0, 0.0) };
    let share = match laplace.structure {
        PosteriorStructure::Subnetwork { share, .. } => share,
        PosteriorStructure::Whole => 1.0,
        PosteriorStructure::Diagonal => return (0.0, 0.0),
    };
    let size = (share * candidates).max(1.0);
    let modes = procedure.modes.count as f64;
    let factor = 8.0 * size * size.min(determined);
    // With a tolerance a few directions may be enough. A model holds the factors of all its modes.
    (if laplace.tolerance > 0.0 { 0.2 * factor } else { factor }, (2.0 + modes) * factor)
}

#[cfg(test)]
mod tests {
    use fedsi_data::Size;

    use super::*;
    use crate::Config;
    use crate::methods::METHODS;

    fn estimate(method: &str, change: &dyn Fn(&mut Config)) -> MemoryEstimate {
        let mut config = Config::defaults(method, "digits", Size::Small).unwrap();
        change(&mut config);
        let config = config.check().unwrap();
        let data = fedsi_data::open(&config.data, &config.partition, 1).unwrap();
        MemoryEstimate::of(&config, data.as_ref(), 2).unwrap()
    }

    /// One hidden layer of this many units, two clients with a handful of samples.
    fn wide(units: usize) -> impl Fn(&mut Config) {
        move |config: &mut Config| {
            config.model.body =
                serde_json::from_value(serde_json::json!(["flatten", { "linear": units }, "relu"])).unwrap();
            (config.partition.clients, config.partition.train, config.partition.test) = (2, 4, 4);
            config.federation.participants = 0;
        }
    }

    #[test]
    fn a_run_on_digits_is_small_for_every_method() {
        for method in METHODS {
            let found = estimate(method.name, &|_| {});
            assert!((8 << 20..2 << 30).contains(&found.most()), "{}: {}", method.name, found.most());
            assert!(found.least() < found.most() / 2 && found.check(1 << 30).is_ok(), "{}", method.name);
        }
        let most = |method| estimate(method, &|_| {}).most();
        assert!(most("fedsi") > most("fedavg") && most("pfedbayes") > most("fedavg"));
    }

    /// Peaks of whole runs, in megabytes: two threads, two clients, the process itself (30 MB) taken off.
    #[test]
    fn measured_peaks_lie_between_least_and_most() {
        let peaks = [
            ("fedavg", 12_600, 579.0),
            ("fedper", 12_600, 580.0),
            ("fedpop", 12_600, 725.0),
            ("pfedbayes", 12_600, 3_493.0),
            ("bpfed", 6_300, 1_182.0),
            ("local", 6_300, 402.0),
            ("fedsi", 12_600, 2_713.0),
            ("fedsi-fac", 6_300, 2_077.0),
        ];
        for (method, units, peak) in peaks {
            let found = estimate(method, &wide(units));
            let [least, most] = [found.least(), found.most()].map(|bytes| bytes as f64 / 1e6);
            assert!(least < peak && peak < most, "{method}: {least:.0} < {peak:.0} < {most:.0}");
            // How many directions a posterior keeps is not known before it is there.
            assert!(least > 0.4 * peak && most < 3.0 * peak, "{method}: {least:.0} < {peak:.0} < {most:.0}");
        }
    }

    #[test]
    fn what_cannot_fit_is_refused_with_what_takes_most() {
        let error = estimate("fedavg", &wide(1 << 20)).check(16 << 30).unwrap_err();
        assert_eq!((error.part, error.available), (MemoryPart::Parameters, 16 << 30));
        let text = error.to_string();
        assert!(text.contains("at least 37.0 GB") && text.contains("17.2 GB can be had"), "{text}");
        assert!(text.contains("follows from model.body"), "{text}");

        let many = estimate("local", &|config| {
            wide(1000)(config);
            config.partition.clients = 100_000;
        });
        assert_eq!(many.check(1 << 36).unwrap_err().part, MemoryPart::KeptParameters);
        let exact = estimate("fedsi", &|config| {
            (config.fedsi.subnetwork, config.fedsi.tolerance) = (1.0, 0.0);
            (config.partition.train, config.partition.test) = (1000, 0);
            config.partition.clients = 2;
            config.federation.participants = 0;
        });
        assert_eq!(exact.check(1 << 30).unwrap_err().part, MemoryPart::Posteriors);
    }

    #[test]
    fn ten_thousand_clients_are_no_reason_to_refuse() {
        for method in ["fedavg", "fedsi", "fedper"] {
            let found = estimate(method, &|config| config.partition.clients = 10_000);
            assert!(found.check(2 << 30).is_ok(), "{method}: {}", found.least());
        }
    }
}
