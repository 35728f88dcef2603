//! What rows are compared on: a dataset, a size, a partition, and what an experiment varies.

use fedsi_data::{DatasetDefaults, Datasets, Size};
use toml::Value;

use crate::assignment::Assignment;

/// How clients differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// The paper's: five of ten classes a client, clients of equal size.
    #[default]
    Labels,
    /// Shares of every class from a Dirichlet distribution with concentration 0.1: clients of unequal size.
    Dirichlet01,
    /// The same with 0.5.
    Dirichlet05,
    /// The paper's with 100 clients, ten of them a round.
    Clients100,
}

impl Partition {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Labels, Self::Dirichlet01, Self::Dirichlet05, Self::Clients100];

    /// Its name in files and on the command line.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Dirichlet01 => "dirichlet-0.1",
            Self::Dirichlet05 => "dirichlet-0.5",
            Self::Clients100 => "clients-100",
        }
    }

    /// What it is, for a sentence.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Labels => "five of ten classes a client, clients of equal size (the paper's)",
            Self::Dirichlet01 => "Dirichlet(0.1) shares of every class, clients of unequal size",
            Self::Dirichlet05 => "Dirichlet(0.5) shares of every class, clients of unequal size",
            Self::Clients100 => "100 clients with five of ten classes each, 10 of them a round",
        }
    }

    fn values(self, dataset: &str) -> Vec<Assignment> {
        let dirichlet = |concentration: f64| {
            vec![
                assign("partition.kind", Value::String("dirichlet".to_owned())),
                assign("partition.concentration", Value::Float(concentration)),
                assign("partition.unequal", Value::Boolean(true)),
            ]
        };
        match self {
            Self::Labels => Vec::new(),
            Self::Dirichlet01 => dirichlet(0.1),
            Self::Dirichlet05 => dirichlet(0.5),
            Self::Clients100 => {
                let (train, test) = samples_of_100(dataset);
                vec![
                    assign("partition.clients", Value::Integer(100)),
                    assign("federation.participants", Value::Integer(10)),
                    assign("partition.train", whole(train)),
                    assign("partition.test", whole(test)),
                ]
            }
        }
    }
}

/// Training and test images per class and client where there are 100 clients. Fifty of them share a class: of the rarest MNIST
/// has 6,313 images, CIFAR-10 has 6,000 of each.
fn samples_of_100(dataset: &str) -> (usize, usize) {
    if dataset == "cifar-10" { (25, 75) } else { (50, 70) }
}

fn assign(key: &str, value: Value) -> Assignment {
    (key.to_owned(), value)
}

fn whole(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A number with its thousands apart.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let comma = |place: usize| place > 0 && (digits.len() - place).is_multiple_of(3);
    let letters = digits.chars().enumerate();
    letters.flat_map(|(place, digit)| comma(place).then_some(',').into_iter().chain([digit])).collect()
}

/// What an experiment varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variation {
    /// Nothing.
    None,
    /// The subnetwork's share of the body, in percent.
    SubnetworkPercent(u32),
    /// Local epochs a round.
    LocalEpochs(u32),
    /// One client is left out of training, another one for each seed, and scored alone.
    NovelClient,
}

impl Variation {
    /// The value that is varied, in words; none where it is no number.
    #[must_use]
    pub fn value_label(self) -> Option<String> {
        match self {
            Self::SubnetworkPercent(percent) => Some(format!("{percent}%")),
            Self::LocalEpochs(epochs) => Some(format!("{epochs} epochs")),
            Self::None | Self::NovelClient => None,
        }
    }
}

/// A column of a table, or a point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name in files.
    pub id: String,
    /// Its name in tables.
    pub title: String,
    /// The dataset.
    pub dataset: &'static str,
    /// small or large.
    pub size: Size,
    /// Who has which samples.
    pub partition: Partition,
    /// What is varied.
    pub variation: Variation,
    /// Rounds of the protocol.
    pub rounds: usize,
    /// Seeds of the protocol.
    pub seeds: usize,
    /// The dataset and size that settings were tuned on.
    pub tuned_on: String,
}

impl Setting {
    /// A dataset and size under the protocol of the paper.
    #[must_use]
    pub fn new(dataset: &'static str, size: Size, partition: Partition) -> Self {
        let name = match dataset {
            "mnist" => "MNIST",
            "fashion-mnist" => "Fashion-MNIST",
            "cifar-10" => "CIFAR-10",
            other => other,
        };
        let mut id = format!("{dataset}-{size}");
        let mut title = format!("{name} {size}");
        if partition != Partition::Labels {
            id.push_str(&format!("-{}", partition.id()));
            title.push_str(&format!(", {}", partition.id()));
        }
        let seeds = match (size, dataset) {
            (Size::Large, _) => 3,
            (Size::Small, "cifar-10") => 5,
            (Size::Small, _) => 10,
        };
        Self {
            id,
            title,
            dataset,
            size,
            partition,
            variation: Variation::None,
            rounds: 800,
            seeds,
            tuned_on: format!("{dataset}-small"),
        }
    }

    /// The same with something varied. What is its default is the setting itself, so that experiments share its runs.
    #[must_use]
    pub fn varied(mut self, variation: Variation) -> Self {
        let suffix = match variation {
            Variation::None => None,
            Variation::SubnetworkPercent(percent) => {
                (percent != self.default_percent()).then(|| format!("share-{percent}"))
            }
            Variation::LocalEpochs(epochs) => (epochs != 10).then(|| format!("epochs-{epochs}")),
            Variation::NovelClient => Some("novel".to_owned()),
        };
        if let Some(suffix) = suffix {
            self.id.push_str(&format!("-{suffix}"));
        }
        self.variation = variation;
        self
    }

    /// Its name in tables, with what is varied.
    #[must_use]
    pub fn label(&self) -> String {
        let novel = (self.variation == Variation::NovelClient).then(|| "novel client".to_owned());
        let varied = self.variation.value_label().or(novel);
        varied.map_or_else(|| self.title.clone(), |varied| format!("{}, {varied}", self.title))
    }

    /// The subnetwork's share where nothing is said.
    fn default_percent(&self) -> u32 {
        if self.dataset == "cifar-10" { 7 } else { 5 }
    }

    /// The weight noise that suits the dataset (docs/uncertainty.md).
    #[must_use]
    pub fn weight_noise(&self) -> f64 {
        self.defaults().map_or(0.0, |defaults| defaults.weight_noise)
    }

    /// Whether it is a small set as the paper's tables have it, without variation.
    #[must_use]
    pub fn is_plain_small(&self) -> bool {
        let is_plain = match self.variation {
            Variation::None => true,
            Variation::SubnetworkPercent(percent) => percent == self.default_percent(),
            Variation::LocalEpochs(epochs) => epochs == 10,
            Variation::NovelClient => false,
        };
        is_plain && self.size == Size::Small
    }

    /// How many clients there are.
    fn clients(&self) -> usize {
        match self.partition {
            Partition::Clients100 => 100,
            _ => self.defaults().map_or(1, |defaults| defaults.partition.clients.max(1)),
        }
    }

    fn defaults(&self) -> Option<DatasetDefaults> {
        Datasets::builtin().find(self.dataset).map(|found| found.defaults(self.size)).ok()
    }

    /// Clients and their samples, in words.
    #[must_use]
    pub fn about(&self) -> String {
        let clients = self.clients();
        let (participants, partition) = (clients.min(10), self.defaults().map(|found| found.partition));
        let classes = partition.as_ref().map_or(1, |partition| partition.labels_per_client);
        let (train, test) = match self.partition {
            Partition::Clients100 => samples_of_100(self.dataset),
            _ => partition.map_or((0, 0), |partition| (partition.train, partition.test)),
        };
        let (of, each) = match self.partition {
            Partition::Labels | Partition::Clients100 => (classes, "each"),
            Partition::Dirichlet01 | Partition::Dirichlet05 => (classes * clients, "in all"),
        };
        let network = if self.dataset == "cifar-10" { "CNN" } else { "MLP" };
        let (train, test) = (grouped(train * of), grouped(test * of));
        format!(
            "{clients} clients, {participants} a round, with {train} training and {test} test images {each}; {network}"
        )
    }

    /// The client that is left out on a seed, where one is: from the last one down, another one for each seed.
    #[must_use]
    pub fn novel_client(&self, seed: u64) -> Option<usize> {
        let clients = self.clients();
        let left_out = clients - 1 - (seed % clients as u64) as usize;
        (self.variation == Variation::NovelClient).then_some(left_out)
    }

    /// The keys that decide it, for a seed: the client that is left out is another one for each.
    #[must_use]
    pub fn values(&self, seed: u64) -> Vec<Assignment> {
        let mut values = vec![
            assign("data.dataset", Value::String(self.dataset.to_owned())),
            assign("data.size", Value::String(self.size.to_string())),
            assign("rounds", whole(self.rounds)),
        ];
        values.extend(self.partition.values(self.dataset));
        match self.variation {
            Variation::None => {}
            Variation::SubnetworkPercent(percent) if percent == self.default_percent() => {}
            Variation::SubnetworkPercent(percent) => {
                values.push(assign("fedsi.subnetwork", Value::Float(f64::from(percent) / 100.0)));
            }
            Variation::LocalEpochs(10) => {}
            Variation::LocalEpochs(epochs) => {
                values.push(assign("training.epochs", Value::Integer(i64::from(epochs))));
            }
            Variation::NovelClient => {
                let left_out = self.novel_client(seed).into_iter().map(whole).collect();
                values.push(assign("federation.novel_clients", Value::Array(left_out)));
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_shared_between_experiments() {
        let plain = Setting::new("mnist", Size::Small, Partition::Labels);
        for same in [Variation::SubnetworkPercent(5), Variation::LocalEpochs(10)] {
            let varied = plain.clone().varied(same);
            assert_eq!((&varied.id, varied.values(101)), (&plain.id, plain.values(101)), "{same:?}");
        }
        for other in [Variation::SubnetworkPercent(7), Variation::LocalEpochs(5), Variation::NovelClient] {
            let varied = plain.clone().varied(other);
            assert_ne!(varied.id, plain.id);
            assert_ne!(varied.values(101), plain.values(101));
        }
        let convolutions = Setting::new("cifar-10", Size::Small, Partition::Labels);
        assert_eq!(convolutions.clone().varied(Variation::SubnetworkPercent(7)).id, convolutions.id);
    }

    #[test]
    fn clients_and_samples_in_words() {
        let about = |dataset, partition| Setting::new(dataset, Size::Small, partition).about();
        assert_eq!(
            about("mnist", Partition::Labels),
            "10 clients, 10 a round, with 250 training and 4,750 test images each; MLP"
        );
        assert_eq!(
            about("cifar-10", Partition::Labels),
            "20 clients, 10 a round, with 125 training and 2,375 test images each; CNN"
        );
        assert!(
            about("mnist", Partition::Dirichlet01).contains("2,500 training and 47,500 test images in all")
        );
        assert!(
            about("mnist", Partition::Clients100)
                .starts_with("100 clients, 10 a round, with 250 training and 350")
        );
    }

    #[test]
    fn the_novel_client_rotates_over_seeds() {
        let setting = Setting::new("mnist", Size::Small, Partition::Labels).varied(Variation::NovelClient);
        let left_out = |seed| setting.values(seed).pop().unwrap().1;
        assert_eq!(left_out(101), Value::Array(vec![Value::Integer(8)]));
        assert_eq!(left_out(110), Value::Array(vec![Value::Integer(9)]));
        let all: std::collections::BTreeSet<String> =
            (101..=110).map(|seed| left_out(seed).to_string()).collect();
        assert_eq!(all.len(), 10, "each client is left out once in ten seeds");
    }
}
