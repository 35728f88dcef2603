//! The server's end of a federation, with its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fedsi_data::{DataDigest, Federation};
use fedsi_fl::client::Client;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::executor::{Exchange, RemoteExecutor};
use fedsi_fl::{Checked, Coordinator, SiteVersions};

use super::files::{
    agreement_digest, expect_settings, expect_unused, other, read_agreement, read_json, take, write_json,
    write_setup,
};
use super::identity::{FederationIdentity, check_sites};
use super::result::{FederationResult, site_results};
use crate::RunError;
use crate::checkpoint::{self, Checkpoint, CheckpointError, Progress};
use crate::federation_error::FederationError;
use crate::files::{Readers, for_owner_only, remove_temporary_in, write_failed};
use crate::folder::FolderError;
use crate::lock::FolderLock;
use crate::naming::dataset_name;
use crate::origin::{Origin, random_digits, run_id};
use crate::personal_file::{describe, save_server};
use crate::rounds::Rounds;
use crate::settings::settings_text;

/// Which federation a folder is of.
const FEDERATION: &str = "federation.json";

/// What it came to.
const RESULT: &str = "result.json";

/// What a federation is made from.
#[derive(Clone)]
pub struct FederationSetup {
    /// Its settings.
    pub config: Checked,
    /// The names of its sites, in the order of clients.
    pub sites: Vec<String>,
    /// What the sites agreed on about their data, where they had to.
    pub agreement: Option<Vec<u8>>,
    /// What all clients have in common, made for these settings and data of this form.
    pub client: Arc<Client>,
    /// The form of the data. Its samples are not read: it needs none.
    pub outline: Arc<dyn Federation>,
    /// Whether the network is of another library, so that its layers are not known.
    pub own_network: bool,
}

/// The server of a federation, in a folder of its own: settings, `federation.json`, `metrics.jsonl`, the last two
/// checkpoints (with privacy the last) and, at the end, `result.json` and the shared model.
pub struct FederationServer {
    setup: FederationSetup,
    identity: FederationIdentity,
    path: PathBuf,
    lock: FolderLock,
    coordinator: Coordinator,
    rounds: Rounds,
    /// What tells its models from those of any other federation.
    run: String,
}

impl FederationServer {
    /// A new federation in a folder that is not there, or empty.
    ///
    /// # Errors
    /// A folder that holds something, is in use or cannot be written; sites without names of their own; settings that do
    /// not go with so many clients.
    pub fn create(
        path: &Path,
        setup: FederationSetup,
        exchange: Box<dyn Exchange>,
    ) -> Result<Self, RunError> {
        check_sites(&setup.sites)?;
        setup.config.expect_unpooled(setup.outline.as_ref())?;
        setup.config.expect_divided()?;
        if path.join(FEDERATION).exists() {
            return Err(FederationError::HoldsAFederation { path: path.to_owned() }.into());
        }
        let federation = random_digits()?;
        // All that can be refused comes before the folder is made.
        let coordinator = coordinator(&setup, &federation, exchange)?;
        let readers = if setup.config.privacy.is_on() { Readers::Owner } else { Readers::Umask };
        let lock = take(path, readers)?;
        if path.join(FEDERATION).exists() {
            return Err(FederationError::HoldsAFederation { path: path.to_owned() }.into());
        }
        expect_unused(path)?;
        if setup.config.privacy.is_on() {
            for_owner_only(path)?;
        }
        remove_temporary_in(path)?;
        let identity = FederationIdentity {
            federation,
            sites: setup.sites.clone(),
            agreement: agreement_digest(setup.agreement.as_deref()),
            own_network: setup.own_network,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        write_setup(path, &setup.config, setup.agreement.as_deref())?;
        // Last: with it the folder is a federation's.
        write_json(&path.join(FEDERATION), Readers::Owner, &identity)?;
        Self::start(path, setup, identity, lock, coordinator, String::new(), Progress::default())
    }

    /// The federation in this folder, as its newest usable checkpoint has it (with privacy: its newest): every later round
    /// gives the bits that it would have given. A round that was not complete is made again. It never starts over once a
    /// round was made: what the sites answered cannot be repeated.
    ///
    /// # Errors
    /// A folder without a federation, in use, or of one with other settings, sites or agreement; checkpoints that cannot be
    /// used, or that are gone.
    pub fn resume(
        path: &Path,
        setup: FederationSetup,
        exchange: Box<dyn Exchange>,
    ) -> Result<Self, RunError> {
        let missing = || FederationError::NoFederation { path: path.to_owned() };
        if !path.join(FEDERATION).is_file() {
            return Err(missing().into());
        }
        let lock = take(path, Readers::Umask)?;
        let identity: FederationIdentity = read_json(&path.join(FEDERATION))?.ok_or_else(missing)?;
        expect_settings(path, &setup.config)?;
        if identity.sites != setup.sites {
            return other(
                path,
                "list of sites",
                format!("{:?} there, {:?} here", identity.sites, setup.sites),
            );
        }
        if identity.agreement != agreement_digest(setup.agreement.as_deref()) {
            return other(path, "agreement", "its digest is not the same".to_owned());
        }
        if identity.own_network != setup.own_network {
            return other(path, "kind of network", "of another library, or of fedsi's layers".to_owned());
        }
        read_agreement(path, identity.agreement.as_deref())?;
        remove_temporary_in(path)?;
        let mut coordinator = coordinator(&setup, &identity.federation, exchange)?;
        let (metrics, progress) = restore(path, &setup, &identity, &mut coordinator)?;
        Self::start(path, setup, identity, lock, coordinator, metrics, progress)
    }

    fn start(
        path: &Path,
        setup: FederationSetup,
        identity: FederationIdentity,
        lock: FolderLock,
        mut coordinator: Coordinator,
        metrics: String,
        progress: Progress,
    ) -> Result<Self, RunError> {
        let origin = origin(&identity);
        let run = run_id(&setup.config, &origin).map_err(|error| write_failed(path)(error.into()))?;
        let mut rounds = Rounds::new(path, &setup.config, &origin, metrics, progress, Instant::now())?;
        if setup.config.privacy.is_on() {
            rounds.keep_newest_checkpoint_only();
        }
        if coordinator.server().round() == 0 {
            // Before the first line of the metrics, so that lines without a checkpoint mean that checkpoints were lost.
            rounds.save(&mut coordinator)?;
        }
        Ok(Self { setup, identity, path: path.to_owned(), lock, coordinator, rounds, run })
    }

    /// The federation's id, which its sites must know.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.identity.federation
    }

    /// The names of its sites, in the order of clients.
    #[must_use]
    pub fn sites(&self) -> &[String] {
        &self.identity.sites
    }

    /// Its settings.
    #[must_use]
    pub const fn config(&self) -> &Checked {
        &self.setup.config
    }

    /// Rounds completed, skipped ones included.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.coordinator.server().round()
    }

    /// What leads it.
    #[must_use]
    pub const fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// One whole round: training and, where it is due, the choices on data set aside; then its line in `metrics.jsonl` and a
    /// checkpoint.
    ///
    /// # Errors
    /// Too few usable updates, an exchange that failed or was stopped, files that cannot be written. The state is then that of
    /// the round before, here and on disk: another call makes the round again.
    pub fn step(&mut self) -> Result<RoundRecord, RunError> {
        let planned = self.setup.config.rounds;
        if self.round() >= planned as u64 {
            return Err(FederationError::Finished { rounds: planned }.into());
        }
        let (before, mark) = (self.coordinator.snapshot()?, self.rounds.mark());
        let Self { rounds, coordinator, lock, path, .. } = self;
        let made = rounds.round(coordinator, || check_held(lock, path));
        // A result that is not on disk must not go out: the round could be made again, with other updates under its noise.
        match made.and_then(|record| rounds.save(coordinator).map(|()| record)) {
            Ok(record) => Ok(record),
            Err(error) => {
                if coordinator.server().round() != before.server.round {
                    coordinator
                        .restore(before)
                        .map_err(|source| CheckpointError::Snapshot { path: path.clone(), source })?;
                    if let Err(second) = rounds.go_back(mark) {
                        tracing::warn!("the metrics of a round that failed stay on disk: {second}");
                    }
                }
                Err(error)
            }
        }
    }

    /// Has every site score its personal model, and writes `result.json` and the shared model,
    /// `checkpoint/server.safetensors`. Also before the last round, and again: what is written is replaced.
    ///
    /// # Errors
    /// An exchange that failed or was stopped, no site with a usable model, files that cannot be written.
    pub fn score(&mut self) -> Result<FederationResult, RunError> {
        let scored = self.coordinator.score(|_| Ok(()));
        check_held(&self.lock, &self.path)?;
        // A state that was found lost is forgotten for good, also where no site has a model: the next call asks them anew.
        let saved = self.rounds.save(&mut self.coordinator);
        let scored = scored?;
        saved?;
        let config = &self.setup.config;
        let description = describe(self.setup.outline.as_ref(), config, !self.setup.own_network)?;
        save_server(&self.coordinator, &description, &self.path, &self.run)?;
        let server = self.coordinator.server();
        let progress = &self.rounds.progress;
        let result = FederationResult {
            federation: self.identity.federation.clone(),
            method: config.method.clone(),
            dataset: dataset_name(config),
            seed: config.seed,
            rounds: server.round(),
            scores: scored.pooled,
            sites: site_results(&self.identity.sites, &self.records()?, &scored),
            calibration: server.calibration(),
            bytes: progress.bytes,
            seconds: progress.seconds,
            trouble: progress.trouble.clone(),
            epsilon: server.epsilon(),
            delta: server.epsilon().map(|_| config.privacy.delta),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.run.clone(),
        };
        write_json(&self.path.join(RESULT), Readers::Umask, &result)?;
        Ok(result)
    }

    /// What was recorded of the rounds so far.
    ///
    /// # Errors
    /// Lines that are no records: a checkpoint of another version.
    pub fn records(&self) -> Result<Vec<RoundRecord>, RunError> {
        let records = self.rounds.lines().lines().map(serde_json::from_str).collect::<Result<_, _>>();
        records.map_err(|error| {
            let path = self.path.join("metrics.jsonl");
            FederationError::Damaged { path, reason: error.to_string() }.into()
        })
    }
}

/// Whether the folder is still the one that was taken.
fn check_held(lock: &FolderLock, path: &Path) -> Result<(), FolderError> {
    match lock.is_held() {
        true => Ok(()),
        false => Err(FolderError::Moved { path: path.to_owned() }),
    }
}

/// The coordinator before its first round: states are at the sites.
fn coordinator(
    setup: &FederationSetup,
    id: &str,
    exchange: Box<dyn Exchange>,
) -> Result<Coordinator, RunError> {
    let client = Arc::clone(&setup.client);
    let executor = RemoteExecutor::new(id, Arc::clone(&client), exchange);
    let mut coordinator = Coordinator::new(&setup.config, setup.sites.len(), client, Box::new(executor))?;
    coordinator.set_client_store(Box::new(SiteVersions::new()));
    Ok(coordinator)
}

/// What checkpoints say of whose they are: the federation's id in the place of digests of data, which a server has not.
fn origin(identity: &FederationIdentity) -> Origin {
    let data = DataDigest { files: Vec::new(), partition: identity.agreement.clone().unwrap_or_default() };
    Origin { data, nonce: Some(identity.federation.clone()), states: None }
}

/// Goes back to the newest usable checkpoint: the lines of the metrics, and how far the figures have got.
fn restore(
    path: &Path,
    setup: &FederationSetup,
    identity: &FederationIdentity,
    coordinator: &mut Coordinator,
) -> Result<(String, Progress), RunError> {
    let config = &setup.config;
    let settings = settings_text(config).map_err(|error| write_failed(path)(error.into()))?;
    let is_private = config.privacy.is_on();
    let usable = if is_private { checkpoint::Usable::Newest } else { checkpoint::Usable::Any };
    let restored = checkpoint::newest_usable(path, usable, |file, checkpoint| {
        let Checkpoint { snapshot, settings: there, origin: theirs, metrics, progress } = checkpoint;
        if there != settings {
            return Err(CheckpointError::OtherSettings { path: file.to_owned() });
        }
        if theirs != origin(identity) {
            let reason = "it is of another federation".to_owned();
            return Err(CheckpointError::Damaged { path: file.to_owned(), reason });
        }
        let round = snapshot.server.round;
        let unfit = |source| CheckpointError::Snapshot { path: file.to_owned(), source };
        coordinator.restore(snapshot).map_err(unfit)?;
        tracing::info!(round, "resuming from a checkpoint");
        Ok((metrics, progress))
    });
    match restored {
        Ok(Some(found)) => Ok(found),
        Ok(None) if was_begun(path, is_private) => {
            Err(FederationError::NoCheckpoint { path: path.to_owned() }.into())
        }
        Ok(None) => {
            tracing::info!("there is no checkpoint yet: starting from round 1");
            Ok((String::new(), Progress::default()))
        }
        // A round that is made again from an older checkpoint has its noise on other updates: their difference would tell
        // what the noise hides.
        Err(error) if is_private => {
            Err(FederationError::PrivateCheckpoint { reason: error.to_string() }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether a federation without checkpoints had some: there are lines of its rounds or, with privacy, a place where its key
/// was. A file that cannot be looked at counts.
fn was_begun(path: &Path, is_private: bool) -> bool {
    let metrics = match std::fs::metadata(path.join("metrics.jsonl")) {
        Ok(found) => found.len() > 0,
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    metrics || is_private && checkpoint::folder(path).exists()
}
