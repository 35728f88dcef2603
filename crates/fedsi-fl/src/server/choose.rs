//! Where the federation chooses: which searches there are, what participants are asked, what becomes of their answers.

use super::Server;
use super::calibration::{self, CalibrationChoice, Search, SearchKind, SearchOutcome};
use super::exclusion::LeftOut;
use crate::calibration::{Calibration, SHARING};
use crate::methods::Modes;
use crate::wire::{CalibrationScores, Download};

/// What the federation chooses on data that clients set aside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// After which round.
    pub after: u64,
    /// The last round.
    pub last: u64,
    /// The prior variance of personal posteriors: the typical one, where the search starts.
    pub prior_variance: Option<f64>,
    /// The temperature.
    pub temperature: bool,
    /// Of how many networks.
    pub modes: Modes,
}

impl Server {
    /// What participants receive right after the round in which the federation chooses, until there is nothing left to
    /// choose: candidates, which they score on the data they set aside. What they found goes to [`Self::choose`].
    #[must_use]
    pub fn calibration_download(&self) -> Option<Download> {
        let candidates = self.searches.front()?.candidates();
        let is_end = self.is_end();
        Some(Download {
            data_set_aside: !is_end,
            common_set_aside: is_end,
            candidates: Some(candidates),
            ..self.personal_download()
        })
    }

    /// Who is asked, where it is not the participants of this round: at the end those of the round in which the federation
    /// chose, since what is measured is how their answers have changed.
    #[must_use]
    pub fn calibration_participants(&self) -> Option<Vec<usize>> {
        let choices = self.settings.choices.filter(|_| self.is_end())?;
        Some(self.participants_of(choices.after))
    }

    /// Whether all rounds are over, and the federation has chosen before the last.
    fn is_end(&self) -> bool {
        let round = self.state.round;
        self.settings.choices.is_some_and(|choices| round >= choices.last && choices.after < choices.last)
    }

    /// Chooses by what participants (ascending) found of the candidates they were sent. There is no choice where nobody
    /// had data to score by, so that the typical value is used, and where the best candidate was the last one, so that
    /// [`Self::calibration_download`] asks about more. Also returns whose scores were not used, and why.
    pub fn choose(
        &mut self,
        participants: &[usize],
        scores: &[CalibrationScores],
    ) -> (Option<CalibrationChoice>, Vec<LeftOut>) {
        let Some(search) = self.searches.pop_front() else { return (None, Vec::new()) };
        let expected = search.candidates().scores();
        let (usable, left_out) = calibration::admit(expected, self.state.round, participants, scores);
        let (kind, modes) = (search.kind(), self.settings.modes);
        let have_common = |report: &&CalibrationScores| report.samples >= modes.count * SHARING;
        let averages_are_asked =
            modes.are_set_apart() && kind != SearchKind::AverageTemperature && usable.iter().any(have_common);
        let choice = match search.conclude(&usable) {
            Some(SearchOutcome::Chosen(choice)) => choice,
            Some(SearchOutcome::Again(search)) => {
                self.searches.push_front(search);
                return (None, left_out);
            }
            None => return (None, left_out),
        };
        let calibration = &mut self.state.calibration;
        match kind {
            SearchKind::PriorVariance => calibration.prior_variance = Some(choice.chosen),
            SearchKind::Temperature => calibration.temperature = Some(choice.chosen),
            SearchKind::AverageTemperature => {
                calibration.mixture_temperature = Some(choice.chosen);
                let alone = choice.alone.as_ref().map(|alone| alone.temperature);
                calibration.temperature_alone = calibration.temperature_alone.or(alone);
            }
        }
        // What the first search says of averages holds: it knows whether posteriors calibrate the modes.
        calibration.mixture_temperature = calibration.mixture_temperature.or(choice.mixture_temperature);
        if averages_are_asked
            && !self.searches.iter().any(|next| next.kind() == SearchKind::AverageTemperature)
        {
            // After what calibrates each mode.
            self.searches.push_back(Search::average_temperature(modes, None));
        }
        (Some(choice), left_out)
    }
}

impl Choices {
    /// What is searched for that was not found yet, in order: a temperature comes after the posterior that it corrects.
    pub(super) fn searches(self, found: Calibration) -> impl Iterator<Item = Search> {
        let temperature = self.temperature && found.temperature.is_none();
        let temperature = temperature.then(|| Search::temperature(self.modes));
        let prior_variance = self.prior_variance.filter(|_| found.prior_variance.is_none());
        let prior_variance = prior_variance.map(|typical| Search::prior_variance(typical, self.modes));
        prior_variance.into_iter().chain(temperature)
    }
}
