//! The server: samples participants, admits and aggregates what they send, keeps its state and chooses what the
//! federation chooses, from messages alone.

mod admission;
mod aggregate;
mod average;
mod calibration;
mod choose;
mod error;
mod estimate;
mod exclusion;
mod privacy;
mod robust;
mod settings;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use fedsi_nn::Layout;
use fedsi_random::{Purpose, SERVER, SecretKey, Streams};

pub use admission::{Admission, RoundRequest};
pub use aggregate::Aggregation;
pub use calibration::{CalibrationChoice, ScoresAlone, calibration_round};
pub use choose::Choices;
pub use error::ServerError;
pub use exclusion::{Exclusion, LeftOut};
pub use privacy::{Accountant, Mechanism, Privacy};
pub use robust::RobustEstimator;

use crate::calibration::Calibration;
use crate::config::{Config, Temperature};
use crate::methods::{Modes, Participation, Procedure, Uncertainty, Unprotected};
use crate::parameters::{Gaussian, Parameters, SharedParameters};
use crate::wire::{Download, SharedMode, Upload};
use calibration::Search;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// How many clients there are.
    pub clients: usize,
    /// Those that never take part, ascending: they are personalised at the end.
    pub novel_clients: Vec<usize>,
    /// How many of them are sampled for a round; with privacy their expected number is the mechanism's.
    pub participants: usize,
    /// Who trains in a round.
    pub participation: Participation,
    /// Where its random draws come from, but for those of privacy.
    pub streams: Streams,
    /// How updates become one; with privacy it says only when variances are due.
    pub aggregation: Aggregation,
    /// Which updates are used.
    pub admission: Admission,
    /// How many networks are trained in turn.
    pub modes: Modes,
    /// What the federation chooses on data that clients set aside, where it chooses anything.
    pub choices: Option<Choices>,
    /// For the first so many rounds everything that the server holds is shared, then only these parameters of it; none where
    /// it is always everything.
    pub narrowed: Option<(u64, Range<usize>)>,
    /// How clients are hidden, where they are: this then decides who takes part and what becomes of updates. No quorum
    /// applies, and no round is skipped.
    pub privacy: Option<Privacy>,
}

/// The server of a federation.
#[derive(Clone, Debug)]
pub struct Server {
    settings: ServerSettings,
    state: ServerState,
    /// What is still to be chosen before the next round, the next first.
    searches: VecDeque<Search>,
}

/// What the server knows between rounds: all that a checkpoint needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerState {
    /// Rounds completed, skipped ones included.
    pub round: u64,
    /// How many of the newest were skipped, one after another.
    pub skipped_in_a_row: u64,
    /// The newest shared part of each mode.
    pub modes: Vec<Arc<SharedParameters>>,
    /// What the federation has chosen.
    pub calibration: Calibration,
    /// Where participants and noise are drawn from, where there is privacy: whoever has it can remove the noise. A server
    /// takes one from the system's generator; [`Server::restore`] gives it that of a run that goes on.
    pub privacy_key: Option<SecretKey>,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundOutcome {
    /// Whose updates became the new shared part; nobody's where the round was skipped.
    pub used: Vec<usize>,
    /// Whose were not used, and why. A client that answered twice is in both.
    pub left_out: Vec<LeftOut>,
    /// Whether there were too few, and the server kept what it had.
    pub skipped: bool,
}

impl Server {
    /// A server of `clients` clients before its first round. `initial` are the parameters of the whole network, one for
    /// each mode, `layout` says where its parts lie, and `participants` clients are sampled for a round.
    ///
    /// # Errors
    /// With privacy: no key from the system, or a procedure that would tell something without noise.
    pub fn new(
        config: &Config,
        procedure: &Procedure,
        layout: &Layout,
        initial: &[Parameters],
        clients: usize,
        participants: usize,
    ) -> Result<Self, ServerError> {
        let shared = |initial: &Parameters| {
            let values = initial.values()[procedure.held().range(layout)].to_vec();
            match &procedure.uncertainty {
                Uncertainty::Laplace(laplace) => {
                    SharedParameters::Gaussian(Gaussian::uniform(values, laplace.alpha))
                }
                Uncertainty::MeanField(mean_field) => {
                    let variance = mean_field.initial_deviation.powi(2);
                    SharedParameters::Gaussian(Gaussian::uniform(values, variance))
                }
                Uncertainty::None | Uncertainty::Samples(_) => SharedParameters::Point(values),
            }
        };
        let mut novel_clients = config.novel_clients(clients);
        novel_clients.retain(|&client| client < clients);
        // Only those that may be drawn have something to hide.
        let training = clients - novel_clients.len();
        let privacy = settings::privacy(config, procedure, training, participants);
        if privacy.is_some() {
            if let Some(unprotected) = procedure.unprotected() {
                return Err(ServerError::Unprotected(unprotected));
            }
            if config.calibration.temperature == Temperature::AUTO {
                return Err(ServerError::Unprotected(Unprotected::TemperatureSearch));
            }
            if config.privacy.delta >= 1.0 / training as f64 {
                tracing::warn!(
                    "privacy.delta = {} is not below 1 / {training}, one over the number of clients: at such a delta one \
                     client may be known completely",
                    config.privacy.delta
                );
            }
        }
        let settings = ServerSettings {
            clients,
            novel_clients,
            participants,
            participation: procedure.participation,
            streams: Streams::new(config.seed),
            aggregation: settings::aggregation(config, procedure),
            admission: settings::admission(config, privacy.is_none()),
            modes: procedure.modes,
            choices: settings::choices(config, procedure),
            narrowed: procedure.warm_start.map(|stage| (stage.rounds, procedure.shared.range(layout))),
            privacy,
        };
        Self::with_settings(settings, initial.iter().map(shared).collect())
    }

    /// A server of these settings and this shared part of each mode before its first round.
    ///
    /// # Errors
    /// Not as many shared parts as modes, novel clients that are not there or not ascending. With privacy: no key from the
    /// system.
    pub fn with_settings(
        settings: ServerSettings,
        shared: Vec<SharedParameters>,
    ) -> Result<Self, ServerError> {
        let (expected, found) = (settings.modes.count, shared.len());
        if expected != found {
            return Err(ServerError::OtherModes { expected, found });
        }
        let novel = &settings.novel_clients;
        if !novel.is_sorted_by(|a, b| a < b) || novel.last().is_some_and(|&last| last >= settings.clients) {
            let (novel, clients) = (novel.clone(), settings.clients);
            return Err(ServerError::NovelClients { novel, clients });
        }
        let privacy_key = settings.privacy.is_some().then(SecretKey::generate).transpose()?;
        let state = ServerState {
            round: 0,
            skipped_in_a_row: 0,
            modes: shared.into_iter().map(Arc::new).collect(),
            calibration: Calibration::default(),
            privacy_key,
        };
        Ok(Self { settings, state, searches: VecDeque::new() })
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// What it knows between rounds.
    #[must_use]
    pub const fn state(&self) -> &ServerState {
        &self.state
    }

    /// Goes on from a state of the same federation.
    ///
    /// # Errors
    /// A shared part of another kind or size; no key where there is privacy.
    pub fn restore(&mut self, state: ServerState) -> Result<(), ServerError> {
        let (expected, found) = (self.state.modes.len(), state.modes.len());
        if expected != found {
            return Err(ServerError::OtherModes { expected, found });
        }
        for (own, other) in self.state.modes.iter().zip(&state.modes) {
            own.expect_like(other)?;
        }
        let needed = self.settings.privacy.is_some();
        if needed != state.privacy_key.is_some() {
            return Err(ServerError::OtherKey { needed });
        }
        self.state = state;
        self.searches = self.due_searches();
        Ok(())
    }

    /// The newest shared part of each mode; of a single network there is one.
    #[must_use]
    pub fn shared(&self) -> &[Arc<SharedParameters>] {
        &self.state.modes
    }

    /// Rounds completed, skipped ones included.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.state.round
    }

    /// What the federation chose; nothing before it did, or of what is given.
    #[must_use]
    pub const fn calibration(&self) -> Calibration {
        self.state.calibration
    }

    /// The privacy bound epsilon after the rounds so far, which follows from their number alone; none without privacy, or
    /// where nothing is shared. Costs what [`Accountant::epsilon`] does.
    #[must_use]
    pub fn epsilon(&self) -> Option<f64> {
        self.settings.privacy.as_ref().map(|privacy| privacy.accountant.epsilon(self.state.round))
    }

    /// The participants of the coming round, ascending. With privacy each client is drawn by itself: there may be more or
    /// fewer than expected, or none.
    #[must_use]
    pub fn participants(&self) -> Vec<usize> {
        self.participants_of(self.state.round + 1)
    }

    fn participants_of(&self, round: u64) -> Vec<usize> {
        let novel = &self.settings.novel_clients;
        let training = self.settings.clients - novel.len();
        let drawn = match (&self.settings.privacy, &self.state.privacy_key, self.settings.participation) {
            (Some(privacy), Some(key), _) => privacy.mechanism.participants(key, round, training),
            (_, _, Participation::Sampled) => {
                sample_participants(&self.settings.streams, round, training, self.settings.participants)
            }
            (_, _, Participation::Everyone) => (0..training).collect(),
        };
        without_novel(drawn, novel)
    }

    /// What every participant of the coming round receives: the shared part of the mode whose turn it is; after a warm
    /// start what those receive that have kept something since.
    #[must_use]
    pub fn training_download(&self) -> Download {
        self.download_of(self.shared_in_round())
    }

    /// What participants of the coming round receive that have kept nothing so far, where that is more than
    /// [`Self::training_download`]: after a warm start the whole network, in which theirs begins.
    #[must_use]
    pub fn first_download(&self) -> Option<Download> {
        self.narrow_range().map(|_| self.download_of(Arc::clone(&self.state.modes[self.next_mode()])))
    }

    fn download_of(&self, shared: Arc<SharedParameters>) -> Download {
        let mode = self.next_mode();
        Download {
            variances_wanted: self.variances_wanted(),
            data_set_aside: self.data_is_set_aside(),
            common_set_aside: self.common_is_set_aside(),
            calibration: self.state.calibration,
            ..Download::of_modes(self.state.round + 1, vec![SharedMode { mode, shared }])
        }
    }

    /// The mode that is trained in the coming round.
    const fn next_mode(&self) -> usize {
        self.settings.modes.of_round(self.state.round + 1)
    }

    /// The parameters that are shared in the coming round, where they are not all that the server holds.
    fn narrow_range(&self) -> Option<Range<usize>> {
        let (rounds, range) = self.settings.narrowed.as_ref()?;
        (self.state.round >= *rounds).then(|| range.clone())
    }

    /// What is shared in the coming round.
    fn shared_in_round(&self) -> Arc<SharedParameters> {
        let shared = &self.state.modes[self.next_mode()];
        match self.narrow_range() {
            None => Arc::clone(shared),
            Some(range) => Arc::new(shared.part(range)),
        }
    }

    /// What a client receives that personalises a model: the shared part of every mode.
    #[must_use]
    pub fn personal_download(&self) -> Download {
        let modes = self.state.modes.iter().enumerate();
        let modes = modes.map(|(mode, shared)| SharedMode { mode, shared: Arc::clone(shared) }).collect();
        Download {
            data_set_aside: self.data_is_set_aside(),
            common_set_aside: self.common_is_set_aside(),
            calibration: self.state.calibration,
            ..Download::of_modes(self.state.round, modes)
        }
    }

    /// Whether participants of the coming round send variances.
    fn variances_wanted(&self) -> bool {
        let round = self.state.round + 1;
        let shared = &self.state.modes[self.settings.modes.of_round(round)];
        let gaussian = matches!(**shared, SharedParameters::Gaussian(_));
        gaussian && self.variances_are_due(round)
    }

    /// Whether a round is one in which participants infer variances: every so many of its mode's.
    fn variances_are_due(&self, round: u64) -> bool {
        self.settings.aggregation.variances_are_due(self.settings.modes.rounds_of_mode(round))
    }

    /// Whether clients still set data aside, by which the federation will choose.
    fn data_is_set_aside(&self) -> bool {
        self.settings.choices.is_some_and(|choices| self.state.round < choices.after)
    }

    /// Whether clients, after that, still set aside what neighbouring modes have in common.
    fn common_is_set_aside(&self) -> bool {
        let measured = self.state.calibration.temperature_alone.is_some();
        let is_between = |choices: Choices| (choices.after..choices.last).contains(&self.state.round);
        measured && self.settings.choices.is_some_and(is_between)
    }

    /// Completes the round with the updates that can be used; `participants` (ascending) were asked, and `missing` says
    /// why some sent nothing. Everyone who is left out is named; their updates touch nothing. Sums run in the order of
    /// the uploads, in f64.
    ///
    /// Below the quorum the shared part stays as it is. Where that many would have answered but for silence, delay and
    /// damaged messages, the round counts as skipped, up to `patience` times in a row. With privacy there is no quorum:
    /// whether others answered must not decide what becomes of an update, and noise is added whoever did.
    ///
    /// # Errors
    /// Fewer usable updates than the quorum because training diverged, or once too often: the state stays that of the
    /// round before.
    pub fn complete(
        &mut self,
        participants: &[usize],
        uploads: &[Upload],
        missing: Vec<LeftOut>,
    ) -> Result<RoundOutcome, ServerError> {
        let round = self.state.round + 1;
        let mode = self.next_mode();
        let (variances_wanted, due) = (self.variances_wanted(), self.variances_are_due(round));
        let (before, narrow) = (self.shared_in_round(), self.narrow_range());
        let (settings, state) = (&self.settings, &self.state);
        let merged = |part: SharedParameters| match narrow {
            None => part,
            Some(range) => state.modes[mode].with_part(range, &part),
        };
        let call = RoundRequest { round, participants, shared: &before, variances_wanted };
        let (usable, refused) = settings.admission.admit(&call, uploads);
        let left_out: Vec<LeftOut> = missing.into_iter().chain(refused).collect();
        let used: Vec<usize> = usable.iter().map(|upload| upload.client).collect();
        if let (Some(privacy), Some(key)) = (&settings.privacy, &state.privacy_key) {
            let shared = merged(privacy.mechanism.merge(key, round, &usable, &before, due));
            self.completed(mode, Some(shared));
            return Ok(RoundOutcome { used, left_out, skipped: false });
        }
        let needed = settings.admission.needed(participants.len());
        if usable.len() >= needed {
            let shared = merged(settings.aggregation.merge(due, &usable, &before));
            self.completed(mode, Some(shared));
            return Ok(RoundOutcome { used, left_out, skipped: false });
        }
        let permanent = left_out.iter().filter(|out| !out.kind.is_transient());
        let lost: BTreeSet<usize> = permanent.map(|out| out.client).collect();
        let may_answer_next_time = participants.iter().filter(|&client| !lost.contains(client)).count();
        if may_answer_next_time >= needed && state.skipped_in_a_row < settings.admission.patience {
            self.completed(mode, None);
            return Ok(RoundOutcome { used: Vec::new(), left_out, skipped: true });
        }
        let reasons = left_out.iter().map(|out| format!("client {} ({})", out.client, out.reason));
        Err(ServerError::Quorum {
            round,
            usable: usable.len(),
            participants: participants.len(),
            needed,
            reasons: reasons.collect::<Vec<_>>().join(", "),
        })
    }

    /// Goes on to the next round, with a new shared part of the mode, or with none where the round was skipped.
    fn completed(&mut self, mode: usize, shared: Option<SharedParameters>) {
        let state = &mut self.state;
        state.round += 1;
        match shared {
            Some(shared) => (state.modes[mode], state.skipped_in_a_row) = (Arc::new(shared), 0),
            None => state.skipped_in_a_row += 1,
        }
        if self.settings.modes.are_common_after(state.round) {
            let common = Arc::clone(&state.modes[0]);
            state.modes.fill(common);
        }
        self.searches = self.due_searches();
    }

    /// What is to be chosen between this round and the next, less what was. The effect of averages is asked about after a choice
    /// of this server alone: a state is kept after the whole round.
    fn due_searches(&self) -> VecDeque<Search> {
        let Some(choices) = self.settings.choices else { return VecDeque::new() };
        if choices.after == self.state.round {
            return choices.searches(self.state.calibration).collect();
        }
        let before = self.state.calibration.temperature_alone.filter(|_| choices.last == self.state.round);
        before
            .map(|before| Search::average_temperature(self.settings.modes, Some(before)))
            .into_iter()
            .collect()
    }
}

/// The ids of clients that were counted without the novel ones; both ascending.
fn without_novel(mut counted: Vec<usize>, novel: &[usize]) -> Vec<usize> {
    let mut before = 0;
    for client in &mut counted {
        while novel.get(before).is_some_and(|&id| id <= *client + before) {
            before += 1;
        }
        *client += before;
    }
    counted
}

/// The participants of a round, ascending: `count` of `clients`, uniformly without replacement.
#[must_use]
pub fn sample_participants(streams: &Streams, round: u64, clients: usize, count: usize) -> Vec<usize> {
    let mut rng = streams.stream(Purpose::Participants, SERVER, round);
    let mut drawn = rand::seq::index::sample(&mut rng, clients, count.min(clients)).into_vec();
    drawn.sort_unstable();
    drawn
}

#[cfg(test)]
mod tests;
