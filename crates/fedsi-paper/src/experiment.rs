//! The six experiments: what each asks, on which settings, with which rows, and what is read off it.

use fedsi_data::Size;

use crate::entry::{ENTRIES, Entry, Source};
use crate::setting::{Partition, Setting, Variation};

/// A table or figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Accuracy by method, dataset and size.
    Table1,
    /// Calibration by method and dataset.
    Table2,
    /// The subnetwork's share.
    Fig3,
    /// Reliability diagrams.
    Fig4,
    /// Novel clients.
    Fig5,
    /// Local epochs.
    Fig6,
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The protocol.
    Full,
    /// A look: few rounds and seeds on the built-in digits.
    QuickDigits,
    /// The same on MNIST-small, whose files are given.
    QuickMnist,
}

/// Rounds and seeds of a quick form: all six fit five minutes each on two cores.
const QUICK_ROUNDS: usize = 16;
const QUICK_SEEDS: usize = 2;

/// The values that figures 3 and 6 vary.
const SHARES: [u32; 4] = [3, 5, 7, 9];
const EPOCHS: [u32; 4] = [5, 10, 15, 20];

impl Experiment {
    /// All, in the paper's order.
    pub const ALL: [Self; 6] = [Self::Table1, Self::Table2, Self::Fig3, Self::Fig4, Self::Fig5, Self::Fig6];

    /// Its name on the command line and as a folder.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Table1 => "table1",
            Self::Table2 => "table2",
            Self::Fig3 => "fig3",
            Self::Fig4 => "fig4",
            Self::Fig5 => "fig5",
            Self::Fig6 => "fig6",
        }
    }

    /// Its heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Table1 => "Table 1: accuracy by method, dataset and size",
            Self::Table2 => "Table 2: calibration by method and dataset",
            Self::Fig3 => "Figure 3: the subnetwork's share of the body",
            Self::Fig4 => "Figure 4: reliability diagrams",
            Self::Fig5 => "Figure 5: novel clients",
            Self::Fig6 => "Figure 6: local epochs",
        }
    }

    /// What it asks.
    #[must_use]
    pub const fn question(self) -> &'static str {
        match self {
            Self::Table1 => {
                "Which method's personal models are most often right, with little data and with more?"
            }
            Self::Table2 => {
                "How far can the probabilities be trusted: are they calibrated, do they rank errors last, and do the models \
                 notice inputs unlike their training data?"
            }
            Self::Fig3 => "How large does FedSI's subnetwork have to be?",
            Self::Fig4 => "Of the predictions made with some confidence, how many are right?",
            Self::Fig5 => "How good is a client that joins after training, with ten epochs of adaptation?",
            Self::Fig6 => "Do more local epochs a round pay, at the same number of rounds?",
        }
    }

    /// The scores that are ranked and tested, by their names in `summary.json`; the first is the one it is drawn by.
    #[must_use]
    pub const fn scores(self) -> &'static [&'static str] {
        match self {
            Self::Table1 | Self::Fig5 | Self::Fig6 => &["accuracy", "nll"],
            Self::Table2 => &["ece", "brier", "nll", "aurc"],
            // The rest of what probabilities are worth is in Table 2.
            Self::Fig4 => &["ece"],
            Self::Fig3 => &["accuracy", "ece", "nll"],
        }
    }

    /// The rows.
    #[must_use]
    pub fn entries(self) -> Vec<&'static Entry> {
        let is_of_other_rounds = |source: Source| source.is_pooled() || source == Source::Short;
        let wanted = |entry: &&Entry| match self {
            // Those of Table 2: the same tests, corrected for the same number.
            Self::Table1 | Self::Table2 | Self::Fig4 => true,
            Self::Fig3 => entry.method == "fedsi" && !entry.is_fedsi_over_own_classes(),
            // Networks of pooled data are no method that clients join, and the rounds of these rows are others.
            Self::Fig5 => !is_of_other_rounds(entry.source),
            Self::Fig6 => !is_of_other_rounds(entry.source) && entry.source != Source::OwnClasses,
        };
        ENTRIES.iter().filter(wanted).collect()
    }

    /// The settings, the most important first.
    #[must_use]
    pub fn settings(self, form: Form, partition: Partition) -> Vec<Setting> {
        let small = |dataset| Setting::new(dataset, Size::Small, partition);
        let large = |dataset| Setting::new(dataset, Size::Large, partition);
        let all_small = [small("mnist"), small("fashion-mnist"), small("cifar-10")];
        let quick = match form {
            Form::Full => None,
            Form::QuickDigits => Some(small("digits")),
            Form::QuickMnist => Some(small("mnist")),
        };
        if let Some(quick) = quick {
            let quick = Setting { rounds: QUICK_ROUNDS, seeds: QUICK_SEEDS, ..quick };
            return self.variations(&quick);
        }
        let bases: Vec<Setting> = match self {
            // With a hundred clients there is no data for more than the small sizes.
            Self::Table1 | Self::Table2 | Self::Fig4 if partition != Partition::Clients100 => {
                let larger = ["mnist", "fashion-mnist", "cifar-10"].map(large);
                all_small.into_iter().chain(larger).collect()
            }
            Self::Table1 | Self::Table2 | Self::Fig4 | Self::Fig5 => all_small.to_vec(),
            Self::Fig3 => vec![small("mnist"), small("cifar-10")],
            Self::Fig6 => vec![small("mnist")],
        };
        bases.iter().flat_map(|base| self.variations(base)).collect()
    }

    /// A setting in all forms that the experiment gives it.
    fn variations(self, base: &Setting) -> Vec<Setting> {
        let each = |all: &[Variation]| all.iter().map(|&one| base.clone().varied(one)).collect();
        match self {
            Self::Table1 | Self::Table2 | Self::Fig4 => vec![base.clone()],
            Self::Fig3 => each(&SHARES.map(Variation::SubnetworkPercent)),
            Self::Fig5 => each(&[Variation::NovelClient]),
            Self::Fig6 => each(&EPOCHS.map(Variation::LocalEpochs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_reliability_diagrams_share_all_runs() {
        let ids = |experiment: Experiment| -> Vec<String> {
            experiment.settings(Form::Full, Partition::Labels).into_iter().map(|one| one.id).collect()
        };
        assert_eq!(
            ids(Experiment::Table1),
            [
                "mnist-small",
                "fashion-mnist-small",
                "cifar-10-small",
                "mnist-large",
                "fashion-mnist-large",
                "cifar-10-large"
            ]
        );
        assert_eq!(ids(Experiment::Table2), ids(Experiment::Table1));
        assert_eq!(ids(Experiment::Fig4), ids(Experiment::Table2));
        assert_eq!(
            ids(Experiment::Fig6),
            ["mnist-small-epochs-5", "mnist-small", "mnist-small-epochs-15", "mnist-small-epochs-20"]
        );
        assert!(ids(Experiment::Fig3).contains(&"cifar-10-small".to_owned()));
    }

    #[test]
    fn both_profiles_are_in_every_experiment() {
        for experiment in Experiment::ALL {
            let entries = experiment.entries();
            for id in ["fedsi", "fedsi-paper"] {
                assert!(entries.iter().any(|entry| entry.id == id), "{} lacks {id}", experiment.id());
            }
        }
    }
}
