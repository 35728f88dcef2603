//! Other executors than the CPU's, and no executor at all: the same federation, to the bit; and executors that misbehave.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fedsi_bayes::LinearisedNetwork;
use fedsi_data::{Federation, Split};
use fedsi_fl::calibration::CandidateScore;
use fedsi_fl::client::{ClientError, LocalData, PersonalModel, Predictions};
use fedsi_fl::config::{ModesSetting, Temperature};
use fedsi_fl::executor::{CpuExecutor, Executor, ExecutorError, Outcome, Task, TaskResult, Worker};
use fedsi_fl::methods::METHODS;
use fedsi_fl::network::{Batches, ClientNetwork, NativeNetwork, NetworkFailure, PointTraining};
use fedsi_fl::parameters::{Kept, Parameters};
use fedsi_fl::server::{Exclusion, ServerState};
use fedsi_fl::simulation::ClientEvaluation;
use fedsi_fl::wire::{CalibrationScores, Download, SharedMode, Upload, decode_parameters, encode_parameters};
use fedsi_fl::{
    Checked, Client, ClientStates, ClientStore, Config, Part, Server, Simulation, SimulationError, StoreError,
};
use fedsi_nn::Layout;
use fedsi_random::ChaCha8Rng;
use support::{Clouds, clouds, config, evaluations, try_evaluate};

const ROUNDS: usize = 4;

/// Four rounds: FedSI's prior variance is chosen after the third.
fn four_rounds(method: &str, threads: usize) -> Checked {
    Config { rounds: ROUNDS, threads, ..config(method, 3) }.check().unwrap()
}

/// What becomes of an outcome on its way back: it may be lost, replaced, or come several times.
type Change = Box<dyn Fn(Outcome) -> Vec<Outcome> + Send + Sync>;

/// The CPU's executor, with something between it and the simulation.
struct Between {
    inner: CpuExecutor,
    task: fn(Task) -> Task,
    change: Change,
}

impl Executor for Between {
    fn run(
        &self,
        tasks: &mut (dyn Iterator<Item = Task> + Send),
        each: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), ExecutorError> {
        self.inner.run(&mut tasks.map(self.task), &mut |outcome| {
            (self.change)(outcome).into_iter().try_for_each(&mut *each)
        })
    }
}

fn with_executor(
    config: &Checked,
    federation: Arc<dyn Federation>,
    task: fn(Task) -> Task,
    change: impl FnOnce(&Arc<Client>) -> Change,
) -> Simulation {
    let data = Arc::clone(&federation);
    Simulation::with_executor(config, federation, |client| {
        let inner = CpuExecutor::new(Worker::new(Arc::clone(client), data), config.threads)?;
        Ok(Box::new(Between { inner, task, change: change(client) }))
    })
    .unwrap()
}

/// Every task and every outcome becomes bytes and is read again.
fn encoding(config: &Checked, federation: Arc<dyn Federation>) -> Simulation {
    let task = |task: Task| Task::decode(&task.encode().unwrap()).unwrap();
    with_executor(config, federation, task, |client| {
        let client = Arc::clone(client);
        Box::new(move |outcome| {
            let number = outcome.client;
            // What cannot be read is a failure of that client.
            let read = Outcome::decode(&outcome.encode().unwrap(), &client);
            let unreadable = |error: fedsi_fl::wire::WireError| Outcome {
                client: number,
                result: Err(ClientError::Remote { reason: error.to_string(), diverged: true }),
            };
            vec![read.unwrap_or_else(unreadable)]
        })
    })
}

/// Outcomes pass through this on their way back.
fn changing(
    config: &Checked,
    change: impl Fn(Outcome) -> Vec<Outcome> + Send + Sync + 'static,
) -> Simulation {
    with_executor(config, clouds(5), |task| task, |_| Box::new(change))
}

type Finals = (ServerState, Vec<(PersonalModel, Predictions)>);

fn finals(mut simulation: Simulation) -> Finals {
    for _ in 0..ROUNDS {
        assert!(simulation.round().unwrap().left_out.is_empty());
    }
    let clients = evaluations(&simulation).into_iter();
    let clients = clients.map(|ClientEvaluation { model, predictions, .. }| (model.unwrap(), predictions));
    (simulation.server().state().clone(), clients.collect())
}

#[test]
fn work_that_travels_as_bytes_gives_the_same_bits() {
    for method in METHODS {
        let plain = finals(Simulation::new(&four_rounds(method.name, 1), clouds(5)).unwrap());
        let searches = ["fedsi", "fedsi-fac"].contains(&method.name);
        assert_eq!(
            plain.0.calibration.prior_variance.is_some(),
            searches,
            "{}: the prior is searched",
            method.name
        );
        for threads in [1, 3] {
            let travelled = finals(encoding(&four_rounds(method.name, threads), clouds(5)));
            assert_eq!(travelled, plain, "{}, {threads} threads", method.name);
        }
    }
}

/// Clients that fail do so in the same words, wherever they are.
#[test]
fn failures_travel_as_well() {
    for method in METHODS {
        let mut config = config(method.name, 5);
        config.training.optimizer = fedsi_fl::config::OptimizerName::Sgd;
        config.model.body[1] = fedsi_nn::LayerSpec::Relu;
        let config = config.check().unwrap();
        let broken = || Arc::new(Clouds { clients: 5, samples: 10, broken: Some(2) });
        let of = |mut simulation: Simulation| {
            let left_out = simulation.round().unwrap().left_out;
            assert!(left_out.iter().any(|out| out.client == 2), "{}: {left_out:?}", method.name);
            let clients = evaluations_without_models(&simulation);
            (left_out, clients, simulation.server().state().clone())
        };
        let plain = of(Simulation::new(&config, broken()).unwrap());
        assert_eq!(of(encoding(&config, broken())), plain, "{}", method.name);
    }
}

fn evaluations_without_models(simulation: &Simulation) -> Vec<(usize, Predictions)> {
    let clients = try_evaluate(simulation).unwrap().into_iter();
    clients.map(|client| (client.client, client.predictions)).collect()
}

/// A client's site: its own copy of the client's code, its data, and what it kept, as bytes.
struct Site {
    number: usize,
    client: Client,
    federation: Arc<dyn Federation>,
    kept: Option<Vec<u8>>,
}

impl Site {
    fn new(number: usize, config: &Checked, federation: &Arc<dyn Federation>) -> Self {
        let client = Client::of_config(config, federation.input_shape(), federation.task(), None).unwrap();
        Self { number, client, federation: Arc::clone(federation), kept: None }
    }

    /// What it trains on in a mode, and sets aside.
    fn data(&self, download: &Download, mode: usize) -> LocalData {
        let samples = self.federation.samples(self.number, Split::Train);
        let division = self.client.division(mode, download);
        self.client.divide(self.number, samples, division)
    }

    fn kept(&self) -> Option<Parameters> {
        self.kept.as_deref().map(|bytes| decode_parameters(bytes).unwrap())
    }

    /// A round's download becomes an upload.
    fn train(&mut self, download: &[u8]) -> Vec<u8> {
        let download = Download::decode(download).unwrap();
        let (data, kept) = (self.data(&download, download.modes[0].mode), self.kept());
        let trained = self.client.train(self.number, &download, kept.as_ref(), &data).unwrap();
        if self.client.procedure().kept != Part::Nothing {
            self.kept = Some(encode_parameters(trained.kept.parameters().unwrap()).unwrap());
        }
        trained.upload.encode().unwrap()
    }

    /// What the federation chooses on data set aside.
    fn score(&self, download: &[u8]) -> Vec<u8> {
        let download = Download::decode(download).unwrap();
        let data = |shared: &SharedMode| Arc::new(self.data(&download, shared.mode));
        let data: Vec<Arc<LocalData>> = download.modes.iter().map(data).collect();
        let kept = self.kept();
        let scores = self.client.score_candidates(self.number, &download, kept.as_ref(), &data);
        scores.unwrap().encode().unwrap()
    }

    fn evaluate(&self, download: &[u8]) -> (PersonalModel, Predictions) {
        let download = Download::decode(download).unwrap();
        let (data, kept) = (self.data(&download, 0), self.kept());
        let model = self.client.personalise(self.number, &download, kept.as_ref(), &data).unwrap();
        let test = self.federation.samples(self.number, Split::Test);
        let predictions = self.client.predict(&model, &test).unwrap();
        (model, predictions)
    }
}

/// A server and sites that know nothing of each other but bytes.
fn by_messages(config: &Checked, federation: &Arc<dyn Federation>) -> Finals {
    let mut sites: Vec<Site> =
        (0..federation.clients()).map(|number| Site::new(number, config, federation)).collect();
    let client = Client::of_config(config, federation.input_shape(), federation.task(), None).unwrap();
    let participants = config.participants_of(sites.len()).unwrap();
    let layout = client.network().layout();
    let mut server =
        Server::new(config, client.procedure(), layout, client.initial(), sites.len(), participants).unwrap();
    for _ in 0..ROUNDS {
        let participants = server.participants();
        let download = server.training_download().encode().unwrap();
        let uploads: Vec<Upload> = participants
            .iter()
            .map(|&number| Upload::decode(&sites[number].train(&download)).unwrap())
            .collect();
        let outcome = server.complete(&participants, &uploads, vec![]).unwrap();
        assert_eq!(outcome.used, participants);
        while let Some(download) = server.calibration_download() {
            let bytes = download.encode().unwrap();
            let asked = server.calibration_participants().unwrap_or_else(|| participants.clone());
            let score = |&client: &usize| CalibrationScores::decode(&sites[client].score(&bytes)).unwrap();
            let scores: Vec<CalibrationScores> = asked.iter().map(score).collect();
            let (_, left_out) = server.choose(&asked, &scores);
            assert!(left_out.is_empty(), "{left_out:?}");
        }
    }
    let download = server.personal_download().encode().unwrap();
    let clients = sites.iter().map(|site| site.evaluate(&download)).collect();
    (server.state().clone(), clients)
}

#[test]
fn a_federation_of_messages_alone_is_the_simulated_one() {
    for method in METHODS {
        let config = four_rounds(method.name, 1);
        let simulated = finals(Simulation::new(&config, clouds(5)).unwrap());
        let federation: Arc<dyn Federation> = clouds(5);
        assert_eq!(by_messages(&config, &federation), simulated, "{}", method.name);
    }
    for (modes, common_share) in [(2, 0.0), (2, 0.25), (3, 0.0)] {
        let mut config = Config { rounds: ROUNDS, ..config("fedsi", 3) };
        (config.fedsi.modes, config.fedsi.common_share) = (ModesSetting::Fixed(modes), common_share);
        config.calibration.temperature = Temperature::AUTO;
        let config = config.check().unwrap();
        let simulated = finals(Simulation::new(&config, clouds(5)).unwrap());
        let federation: Arc<dyn Federation> = clouds(5);
        assert_eq!(by_messages(&config, &federation), simulated, "{modes} modes");
        assert_eq!(finals(encoding(&config, clouds(5))), simulated, "{modes} modes as bytes");
    }
    // Clients that are large enough for the effect of averages to be measured, at the end once more.
    let large = || Arc::new(Clouds { clients: 4, samples: 1000, broken: None });
    let mut config = Config { rounds: ROUNDS, ..config("fedsi", 3) };
    (config.fedsi.modes, config.training.epochs) = (ModesSetting::Fixed(3), 1);
    let config = config.check().unwrap();
    let simulated = finals(Simulation::new(&config, large()).unwrap());
    assert!(simulated.0.calibration.temperature_alone.is_some(), "measured");
    let federation: Arc<dyn Federation> = large();
    assert_eq!(by_messages(&config, &federation), simulated, "large clients");
}

#[test]
fn a_lost_outcome_is_a_client_that_did_not_answer() {
    for method in METHODS {
        let config = Config { rounds: ROUNDS, ..config(method.name, 5) }.check().unwrap();
        let mut simulation =
            changing(&config, |outcome| if outcome.client == 3 { vec![] } else { vec![outcome] });
        for _ in 0..ROUNDS {
            let record = simulation.round().unwrap();
            let [out] = &record.left_out[..] else { panic!("{}: {:?}", method.name, record.left_out) };
            assert_eq!((out.client, out.kind), (3, Exclusion::Dropped), "{}", method.name);
            assert!(out.reason.contains("did not answer") && !record.skipped, "{}", method.name);
        }
        let predicted: BTreeMap<usize, bool> = evaluations_without_models(&simulation)
            .into_iter()
            .map(|(client, predictions)| (client, !predictions.is_empty()))
            .collect();
        let expected = (0..5).map(|client| (client, client != 3)).collect();
        assert_eq!(
            predicted, expected,
            "{}: who is lost at the end is named with no predictions",
            method.name
        );
    }
}

#[test]
fn results_of_another_kind_are_named() {
    let config = Config { rounds: ROUNDS, threads: 2, ..config("fedsi", 5) }.check().unwrap();
    let mut simulation = changing(&config, |Outcome { client, result }| {
        let scores =
            CalibrationScores { round: 1, client, samples: 1, candidates: vec![CandidateScore::default()] };
        let other = Ok(TaskResult::CalibrationScores(scores));
        vec![Outcome { client, result: if client % 2 == 1 { other } else { result } }]
    });
    for _ in 0..ROUNDS {
        let record = simulation.round().unwrap();
        let named: Vec<usize> = record.left_out.iter().map(|out| out.client).collect();
        assert_eq!(named, [1, 3]);
        assert!(record.left_out.iter().all(|out| out.reason.contains("the result of another task")));
    }
    assert!(simulation.server().calibration().prior_variance.is_some(), "chosen by what the others found");
    for (client, predictions) in evaluations_without_models(&simulation) {
        assert_eq!(predictions.is_empty(), client % 2 == 1, "client {client}");
    }
    // All of them: no round, no evaluation, and no panic.
    let mut simulation = changing(&config, |Outcome { client, .. }| {
        let scores =
            CalibrationScores { round: 1, client, samples: 1, candidates: vec![CandidateScore::default()] };
        vec![Outcome { client, result: Ok(TaskResult::CalibrationScores(scores)) }]
    });
    let error = simulation.round().unwrap_err();
    assert!(error.to_string().contains("the result of another task"), "{error}");
    let error = try_evaluate(&simulation).unwrap_err();
    assert!(matches!(error, SimulationError::NoModels { diverged: false, .. }), "{error}");
    assert!(error.to_string().contains("the result of another task"), "{error}");
}

/// Outcomes that nobody asked for, or that come again, change nothing.
#[test]
fn outcomes_that_nobody_waits_for_are_ignored() {
    for method in ["fedsi", "fedper"] {
        let config = four_rounds(method, 2);
        let repeating = changing(&config, |outcome| {
            let failed = |client| Outcome { client, result: Err(ClientError::Diverged) };
            let client = outcome.client;
            vec![failed(1_000_000), outcome, failed(client)]
        });
        let plain = finals(Simulation::new(&config, clouds(5)).unwrap());
        assert_eq!(finals(repeating), plain, "{method}");
    }
}

/// Counts tasks that were taken and are not yet done with, and keeps nothing.
#[derive(Debug, Default)]
struct CountingStore {
    live: AtomicUsize,
    most: Arc<AtomicUsize>,
}

impl ClientStore for CountingStore {
    fn get(&self, _: usize) -> Result<Option<Kept>, StoreError> {
        let live = self.live.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(live, Ordering::SeqCst);
        Ok(None)
    }
    fn stage(&self, client: usize, _: Kept, _: u64) -> Result<(), StoreError> {
        // Slower than the workers for a while, so that they would run ahead if they could.
        if client < 100 {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.live.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
    fn commit(&mut self, _: usize, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn discard(&mut self, _: usize, _: u64) {}
    fn len(&self) -> usize {
        0
    }
    fn snapshot(&mut self) -> Result<ClientStates, StoreError> {
        Ok(ClientStates::Held(BTreeMap::new()))
    }
    fn restore(&mut self, _: ClientStates, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn discard_before(&mut self, _: u64) {}
}

#[test]
fn memory_follows_what_is_at_work_and_not_the_number_of_clients() {
    for threads in [1, 3] {
        let mut config = Config { threads, ..config("local", 10) };
        config.training.epochs = 1;
        let federation = Arc::new(Clouds { clients: 1_000, samples: 4, broken: None });
        let mut simulation = Simulation::new(&config.check().unwrap(), federation).unwrap();
        let store = CountingStore::default();
        let most = Arc::clone(&store.most);
        simulation.set_client_store(Box::new(store));
        assert_eq!(simulation.round().unwrap().participants.len(), 1_000);
        let most = most.load(Ordering::SeqCst);
        // One a thread, as many outcomes that wait, and the one that is being taken in.
        assert!(most <= 2 * threads + 1, "{most} tasks at a time on {threads} threads");
    }
}

/// A network that only shows what every network must have, and its features, as one of another library would.
#[derive(Debug)]
struct Foreign(NativeNetwork);

impl ClientNetwork for Foreign {
    fn layout(&self) -> &Layout {
        self.0.layout()
    }
    fn input_size(&self) -> usize {
        self.0.input_size()
    }
    fn output_size(&self) -> usize {
        self.0.output_size()
    }
    fn initialise(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        self.0.initialise(rng)
    }
    fn outputs(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        self.0.outputs(values, inputs)
    }
    fn features(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        self.0.features(values, inputs)
    }
    fn linearised(&self) -> Arc<dyn LinearisedNetwork> {
        self.0.linearised()
    }
    fn train(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, NetworkFailure> {
        self.0.train(training, values, batches)
    }
}

/// A simulation of these clients, with their network hidden behind the trait.
fn with_foreign_network(config: &Checked) -> Simulation {
    let federation = clouds(5);
    let task = federation.task();
    let network = Foreign(NativeNetwork::new(config.network(federation.input_shape(), task).unwrap()));
    let client = Client::new(config, config.procedure(), Arc::new(network), task, None, config.rules());
    let data: Arc<dyn Federation> = Arc::clone(&federation) as _;
    Simulation::with_client(config, federation, Arc::new(client.unwrap()), |client| {
        Ok(Box::new(CpuExecutor::new(Worker::new(Arc::clone(client), data), 1)?))
    })
    .unwrap()
}

#[test]
fn a_network_behind_the_trait_trains_points_and_refuses_the_rest() {
    for method in ["fedavg", "fedrep", "fedsi"] {
        let config = four_rounds(method, 1);
        let native = finals(Simulation::new(&config, clouds(5)).unwrap());
        assert_eq!(finals(with_foreign_network(&config)), native, "{method}");
    }
    for (method, reason) in [("bpfed", "train a distribution"), ("fedpop", "draw samples of its head")] {
        let error = with_foreign_network(&four_rounds(method, 1)).round().unwrap_err().to_string();
        assert!(error.contains("this network cannot") && error.contains(reason), "{method}: {error}");
    }
}
