//! The server: samples participants, admits and aggregates what they send, keeps its state and chooses what the
//! federation chooses, from messages alone.

mod admission;
mod aggregate;
mod exclusion;
mod prior_search;
mod privacy;
mod robust;
mod settings;

use std::collections::BTreeSet;
use std::sync::Arc;

use fedsi_nn::Layout;
use fedsi_random::{NoEntropy, Purpose, SERVER, SecretKey, Streams};
use thiserror::Error;

pub use admission::{Admission, RoundRequest};
pub use aggregate::Aggregation;
pub use exclusion::{Exclusion, LeftOut};
pub use prior_search::{PriorChoice, prior_search_round};
pub use privacy::{Accountant, Mechanism, Privacy};
pub use robust::RobustEstimator;

use crate::config::Config;
use crate::methods::{Participation, PosteriorStructure, Procedure, Uncertainty, Unprotected};
use crate::parameters::{Gaussian, KindError, Parameters, SharedParameters};
use crate::wire::{Download, PriorScores, Upload};

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// How many clients there are.
    pub clients: usize,
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
    /// Where the federation chooses the prior variance of personal models: of posteriors of this structure, after this
    /// round.
    pub prior_search: Option<(PosteriorStructure, u64)>,
    /// How clients are hidden, where they are: this then decides who takes part and what becomes of updates. No quorum
    /// applies, and no round is skipped.
    pub privacy: Option<Privacy>,
}

/// The server of a federation.
#[derive(Clone, Debug)]
pub struct Server {
    settings: ServerSettings,
    state: ServerState,
}

/// What the server knows between rounds: all that a checkpoint needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerState {
    /// Rounds completed, skipped ones included.
    pub round: u64,
    /// How many of the newest were skipped, one after another.
    pub skipped_in_a_row: u64,
    /// The newest shared part.
    pub shared: Arc<SharedParameters>,
    /// The prior variance of personal models, once the federation has chosen it.
    pub prior_variance: Option<f64>,
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

/// Why the server cannot go on. Each message is one line.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Too few participants returned something usable.
    #[error(
        "round {round}: {usable} of {participants} participants returned a usable update, fewer than the quorum of \
         {needed}; left out: {reasons}"
    )]
    Quorum {
        /// The round.
        round: u64,
        /// Usable updates.
        usable: usize,
        /// Clients asked.
        participants: usize,
        /// Updates needed.
        needed: usize,
        /// Who was left out and why.
        reasons: String,
    },
    /// A state whose shared part is of another kind or size.
    #[error("its shared part: {0}")]
    OtherShared(#[from] KindError),
    /// A state without the key that a run with privacy has, or with one where there is none.
    #[error("{}", if *needed { "it has no privacy key, and the run needs one" } else { "it has a privacy key, and the run has no privacy" })]
    OtherKey {
        /// Whether the run has a key.
        needed: bool,
    },
    /// There is no key for privacy.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
    /// A procedure under which something becomes known without noise, where there is privacy.
    #[error("privacy cannot be had: {0}")]
    Unprotected(Unprotected),
}

impl Server {
    /// A server of `clients` clients before its first round. `initial` are the parameters of the whole network, `layout`
    /// says where its parts lie, and `participants` clients are sampled for a round.
    ///
    /// # Errors
    /// With privacy: no key from the system, or a procedure that would tell something without noise.
    pub fn new(
        config: &Config,
        procedure: &Procedure,
        layout: &Layout,
        initial: &Parameters,
        clients: usize,
        participants: usize,
    ) -> Result<Self, ServerError> {
        let values = initial.values()[procedure.shared.range(layout)].to_vec();
        let shared = match &procedure.uncertainty {
            Uncertainty::Laplace(laplace) => {
                SharedParameters::Gaussian(Gaussian::uniform(values, laplace.alpha))
            }
            Uncertainty::MeanField(mean_field) => {
                let variance = mean_field.initial_deviation.powi(2);
                SharedParameters::Gaussian(Gaussian::uniform(values, variance))
            }
            Uncertainty::None | Uncertainty::Samples(_) => SharedParameters::Point(values),
        };
        let privacy = settings::privacy(config, procedure, clients, participants);
        if privacy.is_some() {
            if let Some(unprotected) = procedure.unprotected() {
                return Err(ServerError::Unprotected(unprotected));
            }
            if config.privacy.delta >= 1.0 / clients as f64 {
                tracing::warn!(
                    "privacy.delta = {} is not below 1 / {clients}, one over the number of clients: at such a delta one \
                     client may be known completely",
                    config.privacy.delta
                );
            }
        }
        let search = procedure.laplace().filter(|_| procedure.searches_prior_variance());
        let settings = ServerSettings {
            clients,
            participants,
            participation: procedure.participation,
            streams: Streams::new(config.seed),
            aggregation: settings::aggregation(config, procedure),
            admission: settings::admission(config, privacy.is_none()),
            prior_search: search
                .map(|laplace| (laplace.structure.clone(), prior_search_round(config.rounds))),
            privacy,
        };
        Self::with_settings(settings, shared)
    }

    /// A server of these settings and this shared part before its first round.
    ///
    /// # Errors
    /// With privacy: no key from the system.
    pub fn with_settings(settings: ServerSettings, shared: SharedParameters) -> Result<Self, ServerError> {
        let privacy_key = settings.privacy.is_some().then(SecretKey::generate).transpose()?;
        let shared = Arc::new(shared);
        let state = ServerState { round: 0, skipped_in_a_row: 0, shared, prior_variance: None, privacy_key };
        Ok(Self { settings, state })
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
        self.state.shared.expect_like(&state.shared)?;
        let needed = self.settings.privacy.is_some();
        if needed != state.privacy_key.is_some() {
            return Err(ServerError::OtherKey { needed });
        }
        self.state = state;
        Ok(())
    }

    /// The newest shared part.
    #[must_use]
    pub fn shared(&self) -> &SharedParameters {
        &self.state.shared
    }

    /// Rounds completed, skipped ones included.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.state.round
    }

    /// The prior variance of personal models that the federation chose; none before it did, or where it is given.
    #[must_use]
    pub const fn prior_variance(&self) -> Option<f64> {
        self.state.prior_variance
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
        let (round, clients) = (self.state.round + 1, self.settings.clients);
        if let (Some(privacy), Some(key)) = (&self.settings.privacy, &self.state.privacy_key) {
            return privacy.mechanism.participants(key, round, clients);
        }
        match self.settings.participation {
            Participation::Sampled => {
                sample_participants(&self.settings.streams, round, clients, self.settings.participants)
            }
            Participation::Everyone => (0..clients).collect(),
        }
    }

    /// What every participant of the coming round receives.
    #[must_use]
    pub fn training_download(&self) -> Download {
        let round = self.state.round + 1;
        Download {
            variances_wanted: self.variances_wanted(),
            data_set_aside: self.data_is_set_aside(),
            prior_variance: self.state.prior_variance,
            ..Download::new(round, Arc::clone(&self.state.shared))
        }
    }

    /// What a client receives that personalises a model.
    #[must_use]
    pub fn personal_download(&self) -> Download {
        Download {
            data_set_aside: self.data_is_set_aside(),
            prior_variance: self.state.prior_variance,
            ..Download::new(self.state.round, Arc::clone(&self.state.shared))
        }
    }

    /// Whether participants of the coming round send variances.
    fn variances_wanted(&self) -> bool {
        let gaussian = matches!(*self.state.shared, SharedParameters::Gaussian(_));
        gaussian && self.settings.aggregation.variances_are_due(self.state.round + 1)
    }

    /// Whether clients still set data aside, by which the prior variance will be chosen.
    fn data_is_set_aside(&self) -> bool {
        self.settings.prior_search.as_ref().is_some_and(|(_, due)| self.state.round < *due)
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
        let variances_wanted = self.variances_wanted();
        let (settings, state) = (&self.settings, &mut self.state);
        let call = RoundRequest { round, participants, shared: &state.shared, variances_wanted };
        let (usable, refused) = settings.admission.admit(&call, uploads);
        let left_out: Vec<LeftOut> = missing.into_iter().chain(refused).collect();
        let used: Vec<usize> = usable.iter().map(|upload| upload.client).collect();
        if let (Some(privacy), Some(key)) = (&settings.privacy, &state.privacy_key) {
            let due = settings.aggregation.variances_are_due(round);
            state.shared = Arc::new(privacy.mechanism.merge(key, round, &usable, &state.shared, due));
            (state.round, state.skipped_in_a_row) = (round, 0);
            return Ok(RoundOutcome { used, left_out, skipped: false });
        }
        let needed = settings.admission.needed(participants.len());
        if usable.len() >= needed {
            state.shared = Arc::new(settings.aggregation.merge(round, &usable, &state.shared));
            (state.round, state.skipped_in_a_row) = (round, 0);
            return Ok(RoundOutcome { used, left_out, skipped: false });
        }
        let permanent = left_out.iter().filter(|out| !out.kind.is_transient());
        let lost: BTreeSet<usize> = permanent.map(|out| out.client).collect();
        let may_answer_next_time = participants.iter().filter(|&client| !lost.contains(client)).count();
        if may_answer_next_time >= needed && state.skipped_in_a_row < settings.admission.patience {
            (state.round, state.skipped_in_a_row) = (round, state.skipped_in_a_row + 1);
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

    /// Right after the round in which the prior variance of personal models is to be chosen: what participants receive.
    /// They score its candidates on the data they set aside.
    #[must_use]
    pub fn prior_search(&self) -> Option<Download> {
        let (structure, due) = self.settings.prior_search.as_ref()?;
        (self.state.round == *due).then(|| Download {
            data_set_aside: true,
            prior_candidates: prior_search::candidates(structure),
            ..self.personal_download()
        })
    }

    /// Chooses the prior variance by what participants (ascending) found of the candidates they were sent. The choice is
    /// none where nobody had data to score by: the typical value is then used. Also returns whose scores were not used,
    /// and why.
    pub fn choose_prior_variance(
        &mut self,
        participants: &[usize],
        candidates: Vec<f64>,
        scores: &[PriorScores],
    ) -> (Option<PriorChoice>, Vec<LeftOut>) {
        let (usable, left_out) =
            prior_search::admit(candidates.len(), self.state.round, participants, scores);
        let choice = PriorChoice::of(candidates, &usable);
        self.state.prior_variance = choice.as_ref().map(|choice| choice.chosen);
        (choice, left_out)
    }
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
