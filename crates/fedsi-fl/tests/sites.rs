//! A coordinator and clients' own sites that know nothing of each other but bytes: the simulated federation, to the bit,
//! whatever is lost, late or repeated on the way.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use fedsi_data::{Federation, Scaling};
use fedsi_fl::client::{
    ChainSummary, ClientError, PersonalModel, PosteriorKind, PosteriorSummary, Predictions, Scored, Trained,
    Validation,
};
use fedsi_fl::config::{FinalPrior, ModesSetting, Temperature};
use fedsi_fl::coordinator::{RoundRecord, Snapshot};
use fedsi_fl::executor::{
    EvaluationData, Exchange, Outcome, RemoteExecutor, Request, Response, Task, TaskResult, Work, Worker,
};
use fedsi_fl::methods::METHODS;
use fedsi_fl::parameters::{Kept, Parameters};
use fedsi_fl::scores::Scores;
use fedsi_fl::server::{Exclusion, ServerState};
use fedsi_fl::simulation::Evaluation;
use fedsi_fl::site::{MemoryStates, RequestError, SiteStateError, SiteStates};
use fedsi_fl::{Checked, Client, Config, Coordinator, Simulation, Site, SiteVersions};
use support::{Clouds, CloudsOfValues, clouds, config, evaluations};

const ROUNDS: usize = 4;
const ID: &str = "a-federation";

/// A site's states, which outlive the site.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<MemoryStates>>);

impl SiteStates for Disk {
    fn versions(&self) -> Result<Vec<u64>, SiteStateError> {
        self.0.lock().unwrap().versions()
    }
    fn get(&self, round: u64) -> Result<Option<Parameters>, SiteStateError> {
        self.0.lock().unwrap().get(round)
    }
    fn put(&self, round: u64, state: &Parameters) -> Result<(), SiteStateError> {
        self.0.lock().unwrap().put(round, state)
    }
    fn remove_before(&self, round: u64) {
        self.0.lock().unwrap().remove_before(round);
    }
}

impl Disk {
    fn wipe(&self) {
        *self.0.lock().unwrap() = MemoryStates::default();
    }
}

/// What happens before an exchange of a kind, to the sites' disks.
type Before = Box<dyn Fn(&str, &[Disk]) + Send + Sync>;

/// What becomes of an answer: nothing, itself, or others.
type Change = Box<dyn Fn(&str, usize, Vec<u8>) -> Vec<(usize, Vec<u8>)> + Send + Sync>;

/// All sites of a federation, and what is between them and the coordinator.
struct Sites {
    sites: Vec<Site>,
    disks: Vec<Disk>,
    before: Before,
    change: Change,
    /// What stays at the sites.
    personal: Mutex<BTreeMap<usize, (PersonalModel, Predictions)>>,
    /// Every request, in its order.
    requests: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl Sites {
    fn new(config: &Checked, federation: &Arc<dyn Federation>) -> Self {
        Self::with_disks(config, federation, (0..federation.clients()).map(|_| Disk::default()).collect())
    }

    /// Sites that start anew with what they had stored.
    fn with_disks(config: &Checked, federation: &Arc<dyn Federation>, disks: Vec<Disk>) -> Self {
        let site = |(number, disk): (usize, &Disk)| {
            let worker = Worker::of_config(config, Arc::clone(federation)).unwrap();
            Site::new(ID, number, worker, Box::new(disk.clone()))
        };
        Self {
            sites: disks.iter().enumerate().map(site).collect(),
            disks,
            before: Box::new(|_, _| ()),
            change: Box::new(|_, client, answer| vec![(client, answer)]),
            personal: Mutex::default(),
            requests: Mutex::default(),
        }
    }
}

struct Transport(Arc<Sites>);

impl Exchange for Transport {
    fn exchange(
        &self,
        kind: &str,
        requests: Vec<(usize, Vec<u8>)>,
        each: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let sites = &self.0;
        (sites.before)(kind, &sites.disks);
        // The last is asked first: the order of answers does not matter.
        for (client, request) in requests.into_iter().rev() {
            let performed = sites.sites[client].perform(&request)?;
            sites.requests.lock().unwrap().push((client, request));
            if let Some(personal) = performed.personal {
                let found = (personal.model, personal.predictions);
                sites.personal.lock().unwrap().insert(client, found);
            }
            for (client, answer) in (sites.change)(kind, client, performed.response) {
                if each(client, &answer).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn coordinator(config: &Checked, federation: &Arc<dyn Federation>, sites: &Arc<Sites>) -> Coordinator {
    let scaling = federation.target_scaling().cloned();
    let client = Client::of_config(config, federation.input_shape(), federation.task(), scaling).unwrap();
    let client = Arc::new(client);
    let executor = RemoteExecutor::new(ID, Arc::clone(&client), Box::new(Transport(Arc::clone(sites))));
    let mut coordinator = Coordinator::new(config, federation.clients(), client, Box::new(executor)).unwrap();
    coordinator.set_client_store(Box::new(SiteVersions::new()));
    coordinator
}

/// What a round's record says, but for the time it took.
fn figures(record: RoundRecord) -> RoundRecord {
    RoundRecord { seconds: fedsi_fl::coordinator::RoundSeconds::default(), ..record }
}

type Finals = (Vec<RoundRecord>, ServerState, Vec<(PersonalModel, Predictions)>);

fn simulated(config: &Checked, federation: &Arc<dyn Federation>) -> Finals {
    let mut simulation = Simulation::new(config, Arc::clone(federation)).unwrap();
    let records = (0..config.rounds).map(|_| figures(simulation.round().unwrap())).collect();
    let clients = evaluations(&simulation).into_iter();
    let clients = clients.map(|client| (client.model.unwrap(), client.predictions)).collect();
    (records, simulation.server().state().clone(), clients)
}

/// The rounds that are left, then what the sites have after they were scored.
fn finish(coordinator: &mut Coordinator, sites: &Sites, rounds: usize) -> Finals {
    let left = coordinator.server().round()..rounds as u64;
    let records = left.map(|_| figures(coordinator.round().unwrap())).collect();
    coordinator.score(|_| Ok(())).unwrap();
    let personal = std::mem::take(&mut *sites.personal.lock().unwrap());
    (records, coordinator.server().state().clone(), personal.into_values().collect())
}

fn at_sites(config: &Checked, federation: &Arc<dyn Federation>) -> Finals {
    let sites = Arc::new(Sites::new(config, federation));
    finish(&mut coordinator(config, federation, &sites), &sites, config.rounds)
}

fn rounds_of(method: &str, participants: usize) -> Config {
    Config { rounds: ROUNDS, threads: 1, ..config(method, participants) }
}

fn clouds_of(clients: usize) -> Arc<dyn Federation> {
    clouds(clients)
}

#[test]
fn clients_at_their_own_sites_give_the_bits_of_the_simulation() {
    let mut configs: Vec<Config> = METHODS.iter().map(|method| rounds_of(method.name, 3)).collect();
    let mut warm = Config { rounds: 6, ..rounds_of("lg-fedavg", 3) };
    warm.lg_fedavg.warm_start = 0.4;
    let mut chosen = rounds_of("fedper", 3);
    chosen.calibration.temperature = Temperature::AUTO;
    // A site that takes no part in training is scored like the others.
    let mut novel = rounds_of("fedrep", 3);
    novel.federation.novel_clients = vec![3, 0];
    configs.extend([warm, chosen, novel]);
    for (modes, common_share) in [(2, 0.0), (2, 0.25), (3, 0.0)] {
        let mut config = rounds_of("fedsi", 3);
        (config.fedsi.modes, config.fedsi.common_share) = (ModesSetting::Fixed(modes), common_share);
        config.calibration.temperature = Temperature::AUTO;
        configs.push(config);
    }
    let federation = clouds_of(5);
    for config in configs {
        let config = config.check().unwrap();
        assert_eq!(
            at_sites(&config, &federation),
            simulated(&config, &federation),
            "{}, modes {:?}",
            config.method,
            config.fedsi.modes
        );
    }
}

/// What a client keeps leaves its site in no message.
#[test]
fn what_clients_keep_stays_with_them() {
    let config = rounds_of("fedper", 5).check().unwrap();
    let federation = clouds_of(5);
    let mut sites = Sites::new(&config, &federation);
    let client = Client::of_config(&config, federation.input_shape(), federation.task(), None).unwrap();
    sites.change = Box::new(move |kind, number, answer| {
        let outcome = Response::decode(&answer, &client).unwrap().outcome;
        match outcome.result.unwrap() {
            TaskResult::Trained(trained) => {
                assert_eq!(trained.kept, Kept::AtSite { round: trained.upload.round });
            }
            TaskResult::Scored(Scored::Scores(_)) if kind == "score-test" => {}
            other => panic!("{other:?}"),
        }
        vec![(number, answer)]
    });
    let sites = Arc::new(sites);
    let mut coordinator = coordinator(&config, &federation, &sites);
    finish(&mut coordinator, &sites, ROUNDS);
    for (_, request) in sites.requests.lock().unwrap().iter() {
        let kept = Request::decode(request).unwrap().task.kept;
        assert!(kept.is_none_or(|kept| kept.parameters().is_none()));
    }
}

#[test]
fn a_lost_state_is_noticed_and_the_client_starts_anew() {
    let config = Config { rounds: 6, ..rounds_of("fedper", 5) }.check().unwrap();
    let federation = clouds_of(5);
    let sites = Arc::new(Sites::new(&config, &federation));
    let mut coordinator = coordinator(&config, &federation, &sites);
    for _ in 0..2 {
        assert!(coordinator.round().unwrap().left_out.is_empty());
    }
    sites.disks[1].wipe();
    let record = coordinator.round().unwrap();
    let [out] = &record.left_out[..] else { panic!("{:?}", record.left_out) };
    assert_eq!((out.client, out.kind), (1, Exclusion::LostState));
    assert_eq!(out.reason, "it has lost what it kept in round 2; its site has no state");
    assert_eq!(coordinator.kept(1).unwrap(), None, "forgotten");
    assert_eq!(coordinator.kept(0).unwrap(), Some(Kept::AtSite { round: 3 }));
    sites.requests.lock().unwrap().clear();
    assert!(coordinator.round().unwrap().left_out.is_empty(), "it starts anew");
    let task = |client: usize| {
        let requests = sites.requests.lock().unwrap();
        let (_, request) = requests.iter().find(|(number, _)| *number == client).unwrap();
        Request::decode(request).unwrap().task
    };
    assert_eq!((task(1).kept, task(0).kept), (None, Some(Kept::AtSite { round: 3 })));
    assert_eq!(coordinator.kept(1).unwrap(), Some(Kept::AtSite { round: 4 }));
    // Back from an old copy of its disk: the newest version is not there, an older one is.
    let copy = sites.disks[2].get(4).unwrap().unwrap();
    sites.disks[2].wipe();
    sites.disks[2].put(3, &copy).unwrap();
    let record = coordinator.round().unwrap();
    assert_eq!(
        record.left_out[0].reason,
        "it has lost what it kept in round 4; the newest state its site has is of round 3"
    );
    // Lost before the scores: said once, and scored as a new client when asked again.
    sites.disks[3].wipe();
    let scores = coordinator.score(|_| Ok(())).unwrap();
    let problems: Vec<usize> =
        scores.clients.iter().filter(|one| one.problem.is_some()).map(|one| one.client).collect();
    assert_eq!(problems, [3]);
    let scores = coordinator.score(|_| Ok(())).unwrap();
    assert!(scores.clients.iter().all(|one| one.scores().is_some()));
}

#[test]
fn a_state_that_is_lost_before_a_choice_is_forgotten() {
    let mut config = rounds_of("fedper", 5);
    config.calibration.temperature = Temperature::AUTO;
    let config = config.check().unwrap();
    let federation = clouds_of(5);
    let mut sites = Sites::new(&config, &federation);
    sites.before = Box::new(|kind, disks| {
        if kind == "score-candidates" {
            disks[4].wipe();
        }
    });
    let sites = Arc::new(sites);
    let mut coordinator = coordinator(&config, &federation, &sites);
    for _ in 0..3 {
        coordinator.round().unwrap();
    }
    assert!(coordinator.server().calibration().temperature.is_some(), "chosen by the others");
    assert_eq!(coordinator.kept(4).unwrap(), None);
    let record = coordinator.round().unwrap();
    assert!(record.left_out.is_empty(), "{:?}", record.left_out);
}

/// Answers that are lost: the same federation as where an executor loses them, although the site has trained.
#[test]
fn answers_that_are_lost_change_nothing_but_who_took_part() {
    for method in METHODS {
        let config = rounds_of(method.name, 5).check().unwrap();
        let federation = clouds_of(5);
        let is_lost =
            |round: usize, client: usize| client == 3 && round.is_multiple_of(2) || client == 1 && round == 3;
        // The simulation's clients fail by its own executor: of these rounds nothing comes.
        let mut simulation = with_losses(&config, &federation, is_lost);
        let mut sites = Sites::new(&config, &federation);
        let round = Arc::new(Mutex::new(0));
        let now = Arc::clone(&round);
        sites.change = Box::new(move |kind, client, answer| {
            let lost = kind == "train" && is_lost(*now.lock().unwrap(), client);
            if lost { vec![] } else { vec![(client, answer)] }
        });
        let sites = Arc::new(sites);
        let mut coordinator = coordinator(&config, &federation, &sites);
        for number in 1..=ROUNDS {
            *round.lock().unwrap() = number;
            let (real, plain) = (coordinator.round().unwrap(), simulation.round().unwrap());
            assert_eq!(figures(real), figures(plain), "{}, round {number}", method.name);
        }
        assert_eq!(coordinator.server().state(), simulation.server().state(), "{}", method.name);
    }
}

fn with_losses(
    config: &Checked,
    federation: &Arc<dyn Federation>,
    is_lost: impl Fn(usize, usize) -> bool + Send + Sync + 'static,
) -> Simulation {
    struct Losing<F>(Worker, F);
    impl<F: Fn(usize, usize) -> bool + Send + Sync> fedsi_fl::Executor for Losing<F> {
        fn run(
            &self,
            tasks: &mut (dyn Iterator<Item = Task> + Send),
            each: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
        ) -> Result<(), fedsi_fl::executor::ExecutorError> {
            for task in tasks {
                let lost = task.work == Work::Train && (self.1)(task.download.round as usize, task.client);
                if !lost && each(self.0.perform(task)).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }
    let data = Arc::clone(federation);
    Simulation::with_executor(config, Arc::clone(federation), |client| {
        Ok(Box::new(Losing(Worker::new(Arc::clone(client), data), is_lost)))
    })
    .unwrap()
}

/// Server and sites that end at any point and come back: the server from its newest snapshot, which may be older than what
/// sites have stored since.
#[test]
fn a_coordinator_goes_back_and_the_sites_have_what_it_names() {
    for method in ["fedper", "fedpop", "pfedbayes", "lg-fedavg", "fedsi"] {
        let mut config = Config { rounds: 8, ..rounds_of(method, 3) };
        config.lg_fedavg.warm_start = 0.25;
        let config = config.check().unwrap();
        let federation = clouds_of(5);
        let expected = simulated(&config, &federation);
        let mut sites = Arc::new(Sites::new(&config, &federation));
        let mut current = coordinator(&config, &federation, &sites);
        // Snapshots as a run folder has them: the last two.
        let mut snapshots: Vec<Snapshot> = vec![current.snapshot().unwrap()];
        // Rounds after which the server ends, and how many snapshots back it goes.
        let mut ends = vec![(2, 1), (3, 0), (4, 1), (6, 1), (7, 0)];
        let mut records: BTreeMap<u64, RoundRecord> = BTreeMap::new();
        while current.server().round() < 8 {
            let record = figures(current.round().unwrap());
            records.insert(record.round, record);
            let round = current.server().round();
            snapshots.push(current.snapshot().unwrap());
            if snapshots.len() > 2 {
                snapshots.remove(0);
            }
            current.discard_before(snapshots[0].server.round);
            if ends.first().is_some_and(|(end, _)| *end == round) {
                let (_, back) = ends.remove(0);
                snapshots.truncate(snapshots.len() - back);
                sites = Arc::new(Sites::with_disks(&config, &federation, sites.disks.clone()));
                current = coordinator(&config, &federation, &sites);
                current.restore(snapshots.last().unwrap().clone()).unwrap();
            }
        }
        let (_, server, personal) = finish(&mut current, &sites, 8);
        let records: Vec<RoundRecord> = records.into_values().collect();
        assert_eq!((records, server, personal), expected, "{method}");
        for (client, disk) in sites.disks.iter().enumerate() {
            let versions = disk.versions().unwrap();
            assert!(versions.len() <= 4, "client {client} of {method} has never cleaned up: {versions:?}");
        }
    }
}

/// Scores without predictions are the scores of the predictions.
#[test]
fn scores_are_those_of_an_evaluation() {
    let values = CloudsOfValues {
        clouds: Clouds { clients: 4, samples: 30, broken: None },
        outputs: 2,
        values: |samples| samples.inputs.chunks(6).flat_map(|row| [row[0], row[1] - row[2]]).collect(),
        scaling: Some(Scaling { mean: vec![0.5, -1.0], std: vec![2.0, 3.0] }),
    };
    let classes = Arc::new(Clouds { clients: 4, samples: 30, broken: None });
    let federations: [Arc<dyn Federation>; 2] = [classes, Arc::new(values)];
    for federation in federations {
        for method in ["fedper", "fedsi", "fedpop"] {
            let mut config = rounds_of(method, 4);
            config.fedsi.prior_variance = FinalPrior::Fixed(1.0);
            let config = config.check().unwrap();
            let sites = Arc::new(Sites::new(&config, &federation));
            let mut coordinator = coordinator(&config, &federation, &sites);
            for _ in 0..ROUNDS {
                coordinator.round().unwrap();
            }
            let mut seen = BTreeSet::new();
            let found = coordinator
                .score(|client| {
                    seen.insert(client.client);
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, (0..4).collect());
            let mut simulation = Simulation::new(&config, Arc::clone(&federation)).unwrap();
            let Evaluation { task, clients } = simulation.run().unwrap();
            for (found, expected) in found.clients.iter().zip(&clients) {
                let scores = found.scores().unwrap();
                assert_eq!((found.client, scores.samples), (expected.client, expected.samples));
                assert_eq!(scores.scores, expected.predictions.scores(), "{method}");
            }
            let expected = Evaluation { task, clients }.scores().unwrap();
            close(&found.pooled.unwrap(), &expected);
        }
    }
}

/// All scores that pool, to rounding.
fn close(found: &Scores, expected: &Scores) {
    let unpooled = ["AURC"];
    for (found, expected) in found.figures().iter().zip(expected.figures()) {
        if unpooled.contains(&found.name) {
            assert_eq!(found.value, None);
            continue;
        }
        let (one, other) = (found.value.unwrap(), expected.value.unwrap());
        assert!((one - other).abs() < 1e-12, "{}: {one} and {other}", found.name);
        match (found.floor, expected.floor) {
            (None, None) => {}
            (Some(one), Some(other)) => assert!((one - other).abs() < 1e-9, "{one} and {other}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Where the run hides clients a site says that it is done, and scores no candidates.
#[test]
fn a_private_site_keeps_its_scores() {
    let mut config = support::private_data(rounds_of("fedper", 4));
    (config.privacy.noise, config.privacy.clip) = (0.5, 1.0);
    let config = config.check().unwrap();
    let federation = clouds_of(5);
    let sites = Arc::new(Sites::new(&config, &federation));
    let mut coordinator = coordinator(&config, &federation, &sites);
    for _ in 0..ROUNDS {
        coordinator.round().unwrap();
    }
    let found = coordinator.score(|_| Ok(())).unwrap();
    assert!(found.clients.iter().all(|client| client.scored == Some(Scored::Withheld)), "{found:?}");
    assert_eq!(found.pooled, None);
    assert_eq!(sites.personal.lock().unwrap().len(), 5, "models and predictions are at the sites");
    let download = Arc::new(coordinator.server().personal_download());
    let task = Task { client: 0, work: Work::ScoreCandidates, download, kept: None, needed_since: None };
    let error = answer(&sites.sites[0], task, coordinator.client()).unwrap_err();
    assert!(error.to_string().contains("does not score candidates"), "{error}");
}

/// What a site makes of a task of its federation.
fn answer(site: &Site, task: Task, client: &Client) -> Result<TaskResult, ClientError> {
    let request = Request { federation: ID.to_owned(), task }.encode().unwrap();
    let performed = site.perform(&request).unwrap();
    assert!(performed.personal.is_none());
    let response = Response::decode(&performed.response, client).unwrap();
    assert_eq!(response.request, Request::digest(&request));
    response.outcome.result
}

#[test]
fn a_site_does_what_it_is_for_and_nothing_else() {
    let config = rounds_of("fedper", 3).check().unwrap();
    let federation = clouds_of(3);
    let sites = Arc::new(Sites::new(&config, &federation));
    let coordinator = coordinator(&config, &federation, &sites);
    let (site, client) = (&sites.sites[1], coordinator.client());
    let download = Arc::new(coordinator.server().training_download());
    let task =
        |work| Task { client: 1, work, download: Arc::clone(&download), kept: None, needed_since: None };
    for (on, return_model) in [(EvaluationData::Test, true), (EvaluationData::HeldOut, false)] {
        let work = Work::Evaluate { on, further_inputs: vec![], return_model };
        let error = answer(site, task(work), client).unwrap_err();
        assert!(error.to_string().contains("does not return its model or its predictions"), "{error}");
    }
    let kept = Some(Kept::Parameters(Parameters::Point(vec![0.0])));
    let error = answer(site, Task { kept, ..task(Work::Train) }, client).unwrap_err();
    assert!(error.to_string().contains("a state that the server sent"), "{error}");
    let encoded =
        |federation: &str, task| Request { federation: federation.to_owned(), task }.encode().unwrap();
    let other = site.perform(&encoded("another", task(Work::Train))).unwrap_err();
    assert!(matches!(other, RequestError::OtherFederation { .. }), "{other}");
    let other = site.perform(&encoded(ID, Task { client: 2, ..task(Work::Train) })).unwrap_err();
    assert!(matches!(other, RequestError::OtherClient { expected: 1, found: 2 }), "{other}");
    assert!(matches!(site.perform(b"nothing").unwrap_err(), RequestError::Message(_)));
    assert_eq!(sites.disks[1].versions().unwrap(), [0_u64; 0], "nothing was stored");
    // A version that is named is never removed.
    assert!(answer(site, task(Work::Train), client).is_ok());
    let named = Task { kept: Some(Kept::AtSite { round: 1 }), needed_since: Some(99), ..task(Work::Train) };
    assert!(answer(site, named, client).is_ok());
    assert_eq!(sites.disks[1].versions().unwrap(), [1]);
}

/// Damage of one client's answers is a failure of that client; answers of earlier requests and from nobody are none.
#[test]
fn answers_that_are_none_are_a_failure_of_that_client_alone() {
    let config = rounds_of("fedper", 5).check().unwrap();
    let federation = clouds_of(5);
    let mut sites = Sites::new(&config, &federation);
    let earlier: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::default();
    sites.change = Box::new(move |_, client, answer| {
        let before = earlier.lock().unwrap().insert(client, answer.clone());
        match client {
            0 => vec![(0, answer[..answer.len() / 2].to_vec())],
            // An answer to the request of the round before.
            1 => vec![(1, before.unwrap_or(answer))],
            // Another client's name on it; then its own, which is too late.
            2 => vec![(77, answer.clone()), (2, answer.clone()), (2, answer)],
            _ => vec![(client, answer)],
        }
    });
    let sites = Arc::new(sites);
    let mut coordinator = coordinator(&config, &federation, &sites);
    let left_out = coordinator.round().unwrap().left_out;
    let kinds: Vec<_> = left_out.iter().map(|out| (out.client, out.kind)).collect();
    assert_eq!(kinds, [(0, Exclusion::Unreadable)]);
    let left_out = coordinator.round().unwrap().left_out;
    let kinds: Vec<_> = left_out.iter().map(|out| (out.client, out.kind)).collect();
    assert_eq!(kinds, [(0, Exclusion::Unreadable), (1, Exclusion::Unreadable)]);
    assert!(left_out[1].reason.contains("answers another request"), "{}", left_out[1].reason);
    assert_eq!(
        coordinator.kept(1).unwrap(),
        Some(Kept::AtSite { round: 1 }),
        "what it stored since does not count"
    );
}

/// An exchange that fails ends the round and leaves the one before.
#[test]
fn an_exchange_that_is_stopped_leaves_the_round_before() {
    struct Stopped;
    impl Exchange for Stopped {
        fn exchange(
            &self,
            _: &str,
            _: Vec<(usize, Vec<u8>)>,
            _: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Err("stopped".into())
        }
    }
    let config = rounds_of("fedper", 3).check().unwrap();
    let federation = clouds_of(3);
    let client = Client::of_config(&config, federation.input_shape(), federation.task(), None).unwrap();
    let client = Arc::new(client);
    let executor = RemoteExecutor::new(ID, Arc::clone(&client), Box::new(Stopped));
    let mut coordinator = Coordinator::new(&config, 3, client, Box::new(executor)).unwrap();
    coordinator.set_client_store(Box::new(SiteVersions::new()));
    let before = coordinator.snapshot().unwrap();
    let error = coordinator.round().unwrap_err();
    assert_eq!(error.to_string(), "the exchange with clients' sites failed: stopped");
    assert_eq!(coordinator.snapshot().unwrap(), before);
}

/// Figures of training that no client has would make sums that are no numbers, and checkpoints that cannot be read.
#[test]
fn figures_that_no_training_has_are_a_failure_of_that_client() {
    let config = rounds_of("fedper", 5).check().unwrap();
    let federation = clouds_of(5);
    type Bad = fn(&mut Trained);
    let bad: [Bad; 6] = [
        |trained| trained.seconds.train = -1e300,
        |trained| trained.seconds.posterior = 1e300,
        |trained| trained.validation = Some(Validation { samples: usize::MAX, ..Validation::default() }),
        |trained| trained.validation = Some(Validation { nll: Some(1e308), ..Validation::default() }),
        |trained| {
            let kind = PosteriorKind::MeanField;
            let (parameters, variance) = (1.0, -1e308);
            trained.posterior =
                Some(PosteriorSummary { kind, parameters, variance, laplace: None, chain: None });
        },
        |trained| {
            let kind = PosteriorKind::Samples;
            let chain = Some(ChainSummary { r_hat: 1e308, correlation: 0.0 });
            trained.posterior =
                Some(PosteriorSummary { kind, parameters: 1.0, variance: 1.0, laplace: None, chain });
        },
    ];
    for (case, change) in bad.into_iter().enumerate() {
        let mut sites = Sites::new(&config, &federation);
        let client = Client::of_config(&config, federation.input_shape(), federation.task(), None).unwrap();
        sites.change = Box::new(move |_, number, answer| {
            let mut response = Response::decode(&answer, &client).unwrap();
            if number == 2
                && let Ok(TaskResult::Trained(trained)) = &mut response.outcome.result
            {
                change(trained);
            }
            vec![(number, response.encode().unwrap())]
        });
        let sites = Arc::new(sites);
        let record = coordinator(&config, &federation, &sites).round().unwrap();
        let kinds: Vec<_> = record.left_out.iter().map(|out| (out.client, out.kind)).collect();
        assert_eq!(kinds, [(2, Exclusion::Unreadable)], "case {case}");
    }
}

/// A store that fails with text that is nobody else's business.
struct Failing {
    gets: bool,
    puts: bool,
    inner: Disk,
}

const SECRET: &str = "/home/clinic/patients: Permission denied";

impl SiteStates for Failing {
    fn versions(&self) -> Result<Vec<u64>, SiteStateError> {
        self.inner.versions()
    }
    fn get(&self, round: u64) -> Result<Option<Parameters>, SiteStateError> {
        if self.gets { Err(SiteStateError::Failed(SECRET.into())) } else { self.inner.get(round) }
    }
    fn put(&self, round: u64, state: &Parameters) -> Result<(), SiteStateError> {
        if self.puts { Err(SiteStateError::Failed(SECRET.into())) } else { self.inner.put(round, state) }
    }
    fn remove_before(&self, round: u64) {
        self.inner.remove_before(round);
    }
}

/// What the server learns of a site's store that fails has no path in it; a state that cannot be read now is not lost.
#[test]
fn a_site_whose_store_fails_says_so_and_no_more() {
    let config = rounds_of("fedper", 3).check().unwrap();
    let federation = clouds_of(3);
    let failing = |gets, puts, inner: &Disk| {
        let worker = Worker::of_config(&config, Arc::clone(&federation)).unwrap();
        Site::new(ID, 1, worker, Box::new(Failing { gets, puts, inner: inner.clone() }))
    };
    let mut sites = Sites::new(&config, &federation);
    sites.sites[1] = failing(false, true, &sites.disks[1]);
    let record = coordinator(&config, &federation, &Arc::new(sites)).round().unwrap();
    let [out] = &record.left_out[..] else { panic!("{:?}", record.left_out) };
    assert_eq!(out.reason, "its site could not store its state; its log says why");

    let sites = Arc::new(Sites::new(&config, &federation));
    let mut first = coordinator(&config, &federation, &sites);
    first.round().unwrap();
    let snapshot = first.snapshot().unwrap();
    let mut sites = Sites::with_disks(&config, &federation, sites.disks.clone());
    sites.sites[1] = failing(true, false, &sites.disks[1]);
    let mut second = coordinator(&config, &federation, &Arc::new(sites));
    second.restore(snapshot).unwrap();
    let record = second.round().unwrap();
    let [out] = &record.left_out[..] else { panic!("{:?}", record.left_out) };
    assert_eq!(out.reason, "its site could not read its state; its log says why");
    assert_eq!(second.kept(1).unwrap(), Some(Kept::AtSite { round: 1 }), "the version is kept");
}
