//! A server and its sites with their folders, killed at any point: in the end the bits of a federation that never stopped, and
//! those of the simulation.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../fedsi-fl/tests/support/mod.rs"]
mod support;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fedsi_data::Federation;
use fedsi_fl::client::{Client, Predictions};
use fedsi_fl::coordinator::{RoundRecord, RoundSeconds};
use fedsi_fl::executor::Exchange;
use fedsi_fl::server::{Exclusion, ServerState};
use fedsi_fl::{Checked, Config, Simulation, SimulationError};
use fedsi_random::{Purpose, Streams};
use fedsi_run::RunError;
use fedsi_run::crash_points::{Crash, Then, with_hook};
use fedsi_run::federation::{
    DataOutline, FederationError, FederationResult, FederationServer, FederationSetup, SavedSite, SiteFolder,
    SiteSetup,
};
use fedsi_run::saved::{Predicted, SavedRun};
use rand::RngExt as _;
use support::{clouds, config, evaluations};

const CLIENTS: usize = 3;

/// A federation's folders and data.
struct World {
    root: tempfile::TempDir,
    config: Checked,
    data: Arc<dyn Federation>,
}

impl World {
    fn new(config: Config) -> Self {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self { root: root.unwrap(), config: config.check().unwrap(), data: clouds(CLIENTS) }
    }

    fn server(&self) -> PathBuf {
        self.root.path().join("server")
    }

    fn site(&self, client: usize) -> PathBuf {
        self.root.path().join(format!("site-{client}"))
    }

    fn setup(&self) -> FederationSetup {
        let (shape, task) = (self.data.input_shape(), self.data.task());
        let names: Vec<String> = (0..CLIENTS).map(|client| format!("hospital {client}")).collect();
        FederationSetup {
            config: self.config.clone(),
            sites: names.clone(),
            agreement: Some(b"classes 3".to_vec()),
            client: Arc::new(Client::of_config(&self.config, shape, task, None).unwrap()),
            outline: Arc::new(DataOutline::new(names, shape.to_vec(), task)),
            own_network: false,
        }
    }

    /// The server as it is on disk, or a new one.
    fn open(&self, exchange: impl Exchange + 'static) -> Result<FederationServer, RunError> {
        let begun = self.server().join("federation.json").exists();
        let open = if begun { FederationServer::resume } else { FederationServer::create };
        open(&self.server(), self.setup(), Box::new(exchange))
    }

    /// A site as it is on disk, or a new one.
    fn open_site(&self, federation: &str, client: usize) -> SiteFolder {
        let setup = |config, agreement| SiteSetup {
            federation: federation.to_owned(),
            client,
            clients: CLIENTS,
            config,
            agreement,
            data: Arc::clone(&self.data),
            common: None,
        };
        let setup = match SavedSite::read(&self.site(client), federation) {
            Ok(saved) => setup(saved.config, saved.agreement),
            Err(_) => setup(self.config.clone(), Some(b"classes 3".to_vec())),
        };
        SiteFolder::open(&self.site(client), setup).unwrap()
    }
}

/// Whether everything ends before this request: its kind and client.
type Stop = Box<dyn Fn(&str, usize) -> bool + Send + Sync>;

/// Carries bytes between a server and the sites of a world, which are opened for each request: as in a process of their own.
/// `stop` says before each request whether everything ends here.
struct Loopback {
    world: Arc<World>,
    stop: Stop,
}

impl Loopback {
    fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world), stop: Box::new(|_, _| false) }
    }
}

impl Exchange for Loopback {
    fn exchange(
        &self,
        kind: &str,
        requests: Vec<(usize, Vec<u8>)>,
        each: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let text = std::fs::read(self.world.server().join("federation.json"))?;
        let identity: serde_json::Value = serde_json::from_slice(&text)?;
        let id = identity["federation"].as_str().unwrap();
        for (client, request) in requests {
            if (self.stop)(kind, client) {
                return Err("killed".into());
            }
            let answer = self.world.open_site(id, client).perform(&request)?;
            if each(client, &answer).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// All that must be the same, whatever happened on the way.
type Finals = (Vec<RoundRecord>, ServerState, Vec<Predictions>, serde_json::Value);

/// Rounds until there are none left, then the scores.
fn finish(server: &mut FederationServer) -> Result<FederationResult, RunError> {
    while server.round() < server.config().rounds as u64 {
        server.step()?;
    }
    server.score()
}

fn figures(records: Vec<RoundRecord>) -> Vec<RoundRecord> {
    records.into_iter().map(|record| RoundRecord { seconds: RoundSeconds::default(), ..record }).collect()
}

/// What a federation that is done has on disk.
fn finals(world: &World, server: &FederationServer, result: &FederationResult) -> Finals {
    let written = std::fs::read(world.server().join("result.json")).unwrap();
    let mut written: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(written, serde_json::to_value(result).unwrap());
    for key in ["seconds", "federation", "run"] {
        written[key] = serde_json::Value::Null;
    }
    let predictions = |client: usize| {
        let folder = world.site(client).join(server.id());
        let (predictions, owners) = SavedRun::open(&folder).unwrap().predictions().unwrap();
        assert!(owners.iter().all(|&owner| owner == client));
        predictions
    };
    let lines = std::fs::read_to_string(world.server().join("metrics.jsonl")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records = figures(server.records().unwrap());
    assert_eq!(figures(lines), records, "metrics.jsonl");
    let state = server.coordinator().server().state().clone();
    (records, state, (0..CLIENTS).map(predictions).collect(), written)
}

fn uninterrupted(config: &Config) -> Finals {
    let world = Arc::new(World::new(config.clone()));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    let result = finish(&mut server).unwrap();
    finals(&world, &server, &result)
}

fn small(method: &str, rounds: usize) -> Config {
    let mut config = Config { rounds, threads: 1, ..config(method, 2) };
    config.training.epochs = 1;
    config
}

/// Methods that keep a part, keep a Gaussian, sample, and choose a prior variance after four fifths of the rounds.
fn methods() -> [Config; 4] {
    [small("fedper", 4), small("bpfed", 3), small("fedpop", 3), small("fedsi", 5)]
}

#[test]
fn folders_change_nothing_of_the_simulation() {
    for config in methods() {
        let (records, state, predictions, _) = uninterrupted(&config);
        let checked = config.clone().check().unwrap();
        let mut simulation = Simulation::new(&checked, clouds(CLIENTS)).unwrap();
        let expected: Vec<RoundRecord> = (0..config.rounds).map(|_| simulation.round().unwrap()).collect();
        assert_eq!(records, figures(expected), "{}", config.method);
        assert_eq!(&state, simulation.server().state(), "{}", config.method);
        let clients = evaluations(&simulation).into_iter().map(|client| client.predictions);
        assert_eq!(predictions, clients.collect::<Vec<_>>(), "{}", config.method);
    }
}

/// Everything ends at a random request, again and again; now and then the newest checkpoint is lost as well.
#[test]
fn killed_between_messages_it_goes_on_to_the_same_bits() {
    for config in methods() {
        let expected = uninterrupted(&config);
        for seed in 0..6 {
            let world = Arc::new(World::new(config.clone()));
            let rng = Arc::new(Mutex::new(Streams::new(seed).stream(Purpose::Digits, 0, 0)));
            let (mut kills, mut lost) = (0, 0);
            let (server, result) = loop {
                let draws = Arc::clone(&rng);
                let stop = move |_: &str, _| draws.lock().unwrap().random_bool(0.25);
                let mut server =
                    world.open(Loopback { world: Arc::clone(&world), stop: Box::new(stop) }).unwrap();
                match finish(&mut server) {
                    Ok(result) => break (server, result),
                    Err(RunError::Simulation(SimulationError::Executor(_))) => kills += 1,
                    Err(other) => panic!("{other}"),
                }
                drop(server);
                if rng.lock().unwrap().random_bool(0.2) {
                    lost += usize::from(lose_newest_checkpoint(&world.server()));
                }
                assert!(kills < 500, "it never ends");
            };
            assert!(kills > 0 || seed > 0, "nothing was killed");
            assert_eq!(
                finals(&world, &server, &result),
                expected,
                "{}, seed {seed}: {kills} kills, {lost} lost",
                config.method
            );
        }
    }
}

/// The newest of two checkpoints is removed, as if the disk had lost it.
fn lose_newest_checkpoint(server: &Path) -> bool {
    let mut files: Vec<PathBuf> = std::fs::read_dir(server.join("checkpoint"))
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "fedsi"));
    files.sort();
    files.len() > 1 && files.pop().is_some_and(|newest| std::fs::remove_file(newest).is_ok())
}

/// A kill at each change of any file, of the server or of a site, in turn.
#[test]
fn killed_at_any_change_of_a_file_it_goes_on_to_the_same_bits() {
    for config in [small("fedper", 3), small("fedsi", 3)] {
        let expected = uninterrupted(&config);
        let mut point = 0;
        loop {
            let world = Arc::new(World::new(config.clone()));
            let (passed, end) = (Arc::new(AtomicUsize::new(0)), point);
            let counted = Arc::clone(&passed);
            let hook = move |_: &Path| match counted.fetch_add(1, Ordering::SeqCst) < end {
                true => Then::GoOn,
                false => Then::Crash,
            };
            let run = || {
                let mut server = world.open(Loopback::new(&world)).unwrap();
                finish(&mut server).unwrap();
            };
            let ended = with_hook(world.root.path(), hook, || catch_unwind(AssertUnwindSafe(run)));
            match ended {
                Ok(()) => break,
                Err(crash) => assert!(crash.is::<Crash>(), "another panic at change {point}"),
            }
            let mut server = world.open(Loopback::new(&world)).unwrap();
            let result = finish(&mut server).unwrap();
            assert_eq!(finals(&world, &server, &result), expected, "{}: change {point}", config.method);
            point += 1;
        }
        assert!(point > 60, "{point} changes were killed at");
    }
}

/// A step that is stopped in the middle, after training and before a choice, leaves the round before; the next call makes it
/// again, in the same process.
#[test]
fn a_step_that_is_stopped_is_made_again() {
    let config = small("fedsi", 5);
    let expected = uninterrupted(&config);
    for wanted in ["train", "score-candidates", "score-test"] {
        let world = Arc::new(World::new(config.clone()));
        let left = Arc::new(AtomicUsize::new(1));
        let stop =
            move |kind: &str, client| kind == wanted && client > 0 && left.swap(0, Ordering::SeqCst) == 1;
        let mut server = world.open(Loopback { world: Arc::clone(&world), stop: Box::new(stop) }).unwrap();
        let mut stopped = 0;
        let result = loop {
            let before = (server.round(), server.coordinator().server().state().clone());
            match if server.round() < 5 { server.step().map(|_| None) } else { server.score().map(Some) } {
                Ok(Some(result)) => break result,
                Ok(None) => {}
                Err(error) => {
                    assert!(error.to_string().contains("killed"), "{error}");
                    assert_eq!((server.round(), server.coordinator().server().state().clone()), before);
                    stopped += 1;
                }
            }
        };
        assert_eq!(stopped, 1, "{wanted}");
        assert_eq!(finals(&world, &server, &result), expected, "{wanted}");
    }
}

/// A site's folder is a run of one client: its model predicts what the site told scores of.
#[test]
fn a_site_can_predict_with_its_own_model() {
    let config = small("fedper", 3);
    let world = Arc::new(World::new(config));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    let result = finish(&mut server).unwrap();
    for site in &result.sites {
        let saved = SavedRun::open(&world.site(site.client).join(server.id())).unwrap();
        let model = saved.client(site.client).unwrap();
        let test = world.data.samples(site.client, fedsi_data::Split::Test);
        let Predicted::Classes { probabilities, .. } = model.predict(&test.inputs).unwrap() else {
            panic!("values")
        };
        let (Predictions::Classes { probabilities: told, .. }, _) = saved.predictions().unwrap() else {
            panic!("values")
        };
        assert_eq!(probabilities, told);
        let (scores, _) = saved.predictions().unwrap();
        assert_eq!(site.scores, Some(scores.scores()));
        assert_eq!((site.samples, site.problem.as_deref()), (Some(test.count), None));
    }
}

#[test]
fn a_lost_disk_is_named_in_the_result() {
    let world = Arc::new(World::new(Config { rounds: 4, ..small("fedper", 4) }));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    let mut lost = None;
    while server.round() < 4 {
        let record = server.step().unwrap();
        if server.round() == 1 {
            let client = record.participants[0];
            lost = Some(client);
            std::fs::remove_dir_all(world.site(client)).unwrap();
        }
    }
    let result = server.score().unwrap();
    let lost = lost.unwrap();
    let site = &result.sites[lost];
    let told = site.left_out.get(&Exclusion::LostState).copied().unwrap_or(0);
    let asked_again = site.rounds > 1;
    assert_eq!(told, u64::from(asked_again), "{result:?}");
    assert!(
        asked_again || site.problem.as_ref().is_some_and(|problem| problem.contains("lost")),
        "{result:?}"
    );
}

#[test]
fn folders_are_taken_by_one_and_of_one_federation() {
    let world = Arc::new(World::new(small("fedper", 3)));
    let server = world.open(Loopback::new(&world)).unwrap();
    let create = |setup| FederationServer::create(&world.server(), setup, Box::new(Loopback::new(&world)));
    let resume = |setup| FederationServer::resume(&world.server(), setup, Box::new(Loopback::new(&world)));
    let words = |error: RunError| error.to_string();
    assert!(words(resume(world.setup()).err().unwrap()).contains("in use by another fedsi"));
    let id = server.id().to_owned();
    drop(server);
    assert!(words(create(world.setup()).err().unwrap()).contains("holds a federation already"));
    let other = |change: &dyn Fn(&mut FederationSetup)| {
        let mut setup = world.setup();
        change(&mut setup);
        words(resume(setup).err().unwrap())
    };
    assert!(other(&|setup| setup.sites.swap(0, 1)).contains("another list of sites"));
    assert!(other(&|setup| setup.agreement = None).contains("another agreement"));
    let found = other(&|setup| setup.config = small("fedper", 7).check().unwrap());
    assert!(found.contains("`rounds` is 3 there and 7 here"), "{found}");
    assert!(resume(world.setup()).is_ok());
    // Sites.
    let site = world.open_site(&id, 1);
    let setup = |client, agreement: &[u8]| SiteSetup {
        federation: id.clone(),
        client,
        clients: CLIENTS,
        config: world.config.clone(),
        agreement: Some(agreement.to_vec()),
        data: Arc::clone(&world.data),
        common: None,
    };
    let open = |setup| SiteFolder::open(&world.site(1), setup);
    assert!(words(open(setup(1, b"classes 3")).err().unwrap()).contains("in use"));
    let error = site.perform(b"no request").unwrap_err();
    assert!(matches!(error, RunError::Federation(FederationError::Request(_))), "{error}");
    drop(site);
    assert!(words(open(setup(2, b"classes 3")).err().unwrap()).contains("another site"));
    assert!(words(open(setup(1, b"classes 4")).err().unwrap()).contains("another site"));
    assert!(words(open(setup(5, b"classes 3")).err().unwrap()).contains("3 clients"));
    let traversing = SiteSetup { federation: "../elsewhere".to_owned(), ..setup(1, b"classes 3") };
    assert!(words(open(traversing).err().unwrap()).contains("letters, digits"));
    assert!(open(setup(1, b"classes 3")).is_ok());
    // A folder with somebody's files is left alone.
    let foreign = world.root.path().join("mine");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.txt"), "years of work").unwrap();
    let refused = FederationServer::create(&foreign, world.setup(), Box::new(Loopback::new(&world)));
    assert!(words(refused.err().unwrap()).contains("thesis.txt"));
}

/// The checkpoints of a server.
fn checkpoints(world: &World) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(world.server().join("checkpoint")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "fedsi"));
    files.sort();
    files
}

fn private(rounds: usize) -> Config {
    let mut config = support::private_data(small("fedper", rounds));
    (config.privacy.noise, config.privacy.clip) = (0.5, 1.0);
    config
}

/// What sites answered cannot be repeated: without a checkpoint a federation never starts over, and its files stay.
#[test]
fn a_federation_without_usable_checkpoints_does_not_start_over() {
    let world = Arc::new(World::new(small("fedper", 4)));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    (0..2).for_each(|_| drop(server.step().unwrap()));
    drop(server);
    let metrics = std::fs::read(world.server().join("metrics.jsonl")).unwrap();
    let whole: Vec<_> =
        checkpoints(&world).into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect();
    whole.iter().for_each(|(_, path)| std::fs::write(path, b"damaged").unwrap());
    let error = world.open(Loopback::new(&world)).err().unwrap().to_string();
    assert!(error.contains("cannot be used"), "{error}");
    whole.iter().for_each(|(_, path)| std::fs::remove_file(path).unwrap());
    let error = world.open(Loopback::new(&world)).err().unwrap().to_string();
    assert!(error.contains("no checkpoint left"), "{error}");
    assert_eq!(std::fs::read(world.server().join("metrics.jsonl")).unwrap(), metrics);
    whole.iter().for_each(|(bytes, path)| std::fs::write(path, bytes).unwrap());
    assert_eq!(world.open(Loopback::new(&world)).unwrap().round(), 2);
    // Before the first round nothing is lost.
    let world = Arc::new(World::new(small("fedper", 4)));
    drop(world.open(Loopback::new(&world)).unwrap());
    std::fs::remove_dir_all(world.server().join("checkpoint")).unwrap();
    assert_eq!(world.open(Loopback::new(&world)).unwrap().round(), 0);
}

/// A round that is made again would have its noise on other updates: with privacy only the newest checkpoint is used.
#[test]
fn with_privacy_no_older_checkpoint_is_used() {
    let world = Arc::new(World::new(private(4)));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    server.step().unwrap();
    let older =
        (checkpoints(&world).pop().unwrap(), std::fs::read(checkpoints(&world).pop().unwrap()).unwrap());
    server.step().unwrap();
    drop(server);
    let newest = checkpoints(&world).pop().unwrap();
    assert_eq!(checkpoints(&world).len(), 1, "no older one is kept");
    std::fs::write(&older.0, &older.1).unwrap();
    std::fs::write(&newest, b"damaged").unwrap();
    let error = world.open(Loopback::new(&world)).err().unwrap();
    assert!(matches!(error, RunError::Federation(FederationError::PrivateCheckpoint { .. })), "{error}");
    // Also before the first round, where there was a key.
    let world = Arc::new(World::new(private(4)));
    drop(world.open(Loopback::new(&world)).unwrap());
    checkpoints(&world).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let error = world.open(Loopback::new(&world)).err().unwrap();
    assert!(matches!(error, RunError::Federation(FederationError::NoCheckpoint { .. })), "{error}");
}

/// A result that could not be saved does not go out: the state is that of the round before, and the round is made again.
#[test]
fn a_round_that_cannot_be_saved_is_taken_back() {
    let config = small("fedper", 3);
    let expected = uninterrupted(&config);
    let world = Arc::new(World::new(config));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    server.step().unwrap();
    let before = (server.round(), server.coordinator().server().state().clone(), server.records().unwrap());
    let lines = std::fs::read(world.server().join("metrics.jsonl")).unwrap();
    // A folder in the place of the next checkpoint.
    let blocked = world.server().join("checkpoint/round-00000002.fedsi");
    std::fs::create_dir(&blocked).unwrap();
    server.step().unwrap_err();
    let after = (server.round(), server.coordinator().server().state().clone(), server.records().unwrap());
    assert_eq!(after, before);
    assert_eq!(std::fs::read(world.server().join("metrics.jsonl")).unwrap(), lines);
    std::fs::remove_dir(&blocked).unwrap();
    let result = finish(&mut server).unwrap();
    assert_eq!(finals(&world, &server, &result), expected);
}

/// Where all sites have lost what they kept, that is forgotten on disk as well, and a later call scores them as new ones.
#[test]
fn what_all_sites_lost_is_forgotten_for_good() {
    let world = Arc::new(World::new(Config { rounds: 1, ..small("fedper", 1) }));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    let participants = server.step().unwrap().participants;
    // Who took no part has nothing to lose, and does not answer.
    let answering = participants.clone();
    let id = server.id().to_owned();
    drop(server);
    for client in &participants {
        std::fs::remove_dir_all(world.site(*client).join(&id).join("states")).unwrap();
    }
    struct Answering(Loopback, Vec<usize>);
    impl Exchange for Answering {
        fn exchange(
            &self,
            kind: &str,
            mut requests: Vec<(usize, Vec<u8>)>,
            each: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            requests.retain(|(client, _)| self.1.contains(client));
            self.0.exchange(kind, requests, each)
        }
    }
    let open = || world.open(Answering(Loopback::new(&world), answering.clone())).unwrap();
    let error = open().score().unwrap_err();
    assert!(matches!(error, RunError::Simulation(SimulationError::NoModels { .. })), "{error}");
    // Another process.
    let result = open().score().unwrap();
    assert!(participants.iter().all(|&client| result.sites[client].scores.is_some()), "{result:?}");
}

/// A site's folder that was there and open to all, as from a copy, becomes its owner's, with all that is written into it.
#[cfg(unix)]
#[test]
fn a_sites_folder_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = Arc::new(World::new(small("fedper", 2)));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    let folders: Vec<PathBuf> = (0..CLIENTS).map(|client| world.site(client).join(server.id())).collect();
    let open = |path: &Path| {
        std::fs::create_dir_all(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    folders.iter().for_each(|path| open(path));
    finish(&mut server).unwrap();
    for name in ["config.toml", "site.json", "predictions.safetensors", "predictions.csv", "summary.json"] {
        assert_eq!(mode(&folders[0].join(name)), 0o600, "{name}");
    }
    for path in [folders[0].clone(), folders[0].join("states"), folders[0].join("clients")] {
        open(&path);
    }
    drop(world.open_site(server.id(), 0));
    for path in [folders[0].clone(), folders[0].join("states"), folders[0].join("clients")] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
}

/// A site may take no part in training and is scored all the same; sites' data is never put into one place.
#[test]
fn novel_sites_are_scored_and_pooled_data_is_refused() {
    let mut config = small("fedrep", 3);
    (config.federation.novel_clients, config.federation.participants) = (vec![1], 2);
    let world = Arc::new(World::new(config));
    let mut server = world.open(Loopback::new(&world)).unwrap();
    let result = finish(&mut server).unwrap();
    let rounds: Vec<usize> = result.sites.iter().map(|site| site.rounds).collect();
    assert_eq!(rounds, [3, 0, 3]);
    assert!(result.sites.iter().all(|site| site.scores.is_some()), "{result:?}");

    for key in ["partition.pooled", "partition.pooled_client"] {
        let mut config = small("fedrep", 3);
        config.federation.participants = 1;
        (config.partition.pooled, config.partition.pooled_client) =
            (key == "partition.pooled", key == "partition.pooled_client");
        let world = Arc::new(World::new(config));
        let error = world.open(Loopback::new(&world)).err().unwrap().to_string();
        assert!(error.contains(&format!("`{key}`")) && error.contains("keep their data"), "{error}");
        assert!(!world.server().exists(), "nothing is left behind");
    }
}

/// With privacy, a server and a site refuse data whose encoding or scales come from everybody's rows.
#[test]
fn with_privacy_both_ends_refuse_data_that_pools_rows() {
    let mut world = World::new(private(2));
    let open = || {
        let setup = SiteSetup {
            federation: "a-federation".to_owned(),
            client: 0,
            clients: CLIENTS,
            config: world.config.clone(),
            agreement: None,
            data: Arc::new(Pooled(clouds(CLIENTS))),
            common: None,
        };
        SiteFolder::open(&world.site(0), setup)
    };
    let refused = |error: RunError| {
        assert!(matches!(error, RunError::Config(_)), "{error}");
        assert!(error.to_string().contains("privacy.noise"), "{error}");
    };
    refused(open().err().unwrap());
    struct Nobody;
    impl Exchange for Nobody {
        fn exchange(
            &self,
            _: &str,
            _: Vec<(usize, Vec<u8>)>,
            _: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Ok(())
        }
    }
    let create = |world: &World| {
        let setup = FederationSetup { outline: Arc::new(Pooled(clouds(CLIENTS))), ..world.setup() };
        FederationServer::create(&world.server(), setup, Box::new(Nobody))
    };
    refused(create(&world).err().unwrap());
    assert!(!world.server().exists() && !world.site(0).exists(), "nothing was made");
    world.config = small("fedper", 2).check().unwrap();
    assert!(create(&world).is_ok(), "without privacy it may");
}

/// Data whose scales come from the rows of all clients.
struct Pooled(Arc<dyn Federation>);

impl Federation for Pooled {
    fn clients(&self) -> usize {
        self.0.clients()
    }
    fn client_name(&self, client: usize) -> Option<&str> {
        self.0.client_name(client)
    }
    fn input_shape(&self) -> &[usize] {
        self.0.input_shape()
    }
    fn task(&self) -> fedsi_data::Task {
        self.0.task()
    }
    fn class_names(&self) -> Option<&[String]> {
        self.0.class_names()
    }
    fn count(&self, client: usize, split: fedsi_data::Split) -> usize {
        self.0.count(client, split)
    }
    fn samples(&self, client: usize, split: fedsi_data::Split) -> fedsi_data::Samples {
        self.0.samples(client, split)
    }
    fn label_counts(&self, client: usize, split: fedsi_data::Split) -> Vec<usize> {
        self.0.label_counts(client, split)
    }
    fn target_scaling(&self) -> Option<&fedsi_data::Scaling> {
        None
    }
    fn pools_rows(&self) -> bool {
        true
    }
}
