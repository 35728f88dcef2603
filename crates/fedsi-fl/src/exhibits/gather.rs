//! Gathering exhibits while clients are evaluated.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fedsi_bayes::Explanation;
use fedsi_data::{Federation, Split, Targets, Task};
use fedsi_metrics::entropy;
use fedsi_nn::Layout;

use super::pick::{Picker, kept_shape};
use super::{Exhibits, ForeignEntropies, MOST_CLIENTS, Selection, SelectionMap, TensorSelection};
use crate::belief::PersonalModel;
use crate::simulation::Simulation;

/// Predictions on foreign classes, of one client and of all together.
const FOREIGN_OF_A_CLIENT: usize = 200;
const FOREIGN_IN_ALL: usize = 20_000;

/// Other clients asked for samples of a class: beyond them, a class nobody near has is not looked for.
const NEIGHBOURS: usize = 64;

/// Sees personal models while they have their posteriors. What it gathers does not depend on the order in which they
/// come, nor on threads; memory is bounded whatever their number.
pub(crate) struct Witness<'a> {
    simulation: &'a Simulation,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    foreign: BTreeMap<usize, Vec<f32>>,
    selection: Option<Counts>,
}

/// Chosen parameters, summed over clients: whole numbers, so that the order of the sum does not matter.
#[derive(Debug)]
struct Counts {
    clients: u64,
    tensors: Vec<(String, u64, usize)>,
    map: Vec<u64>,
}

/// The chosen parameters of a model (indices into all of them) and what is said of them.
fn subnetwork(model: &PersonalModel) -> Option<(&[usize], &Explanation)> {
    let inferred = model.belief.laplace()?;
    Some((inferred.posterior.selected(), &inferred.subnetwork))
}

impl<'a> Witness<'a> {
    pub(crate) fn new(simulation: &'a Simulation) -> Self {
        Self { simulation, seen: Mutex::default() }
    }

    /// Sees a model while it has its posterior, on the thread that made it. Cost: predictions on at most
    /// [`FOREIGN_OF_A_CLIENT`] samples, and the making of two other clients' test data.
    pub(crate) fn see(&self, model: &PersonalModel) {
        let federation = self.simulation.federation();
        let clients = federation.clients();
        let quota = FOREIGN_OF_A_CLIENT.min(FOREIGN_IN_ALL / clients.clamp(1, MOST_CLIENTS));
        let mut entropies = Vec::new();
        if let (Task::Classification { classes }, true) = (federation.task(), model.client < MOST_CLIENTS) {
            let inputs = foreign_inputs(federation, model.client, quota);
            let rows = self.simulation.predictor().probabilities(model, &inputs);
            entropies.extend(rows.chunks_exact(classes).map(|row| entropy(row) as f32));
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !entropies.is_empty() && entropies.iter().all(|value| value.is_finite()) {
            seen.foreign.insert(model.client, entropies);
        }
        if let Some((selected, explanation)) = subnetwork(model) {
            let place = Place::of(self.simulation.network().layout(), federation.input_shape());
            let counts = seen.selection.get_or_insert_with(|| Counts::new(explanation, place.as_ref()));
            counts.add(selected, explanation, place.as_ref());
        }
    }

    /// Everything gathered, with the samples that were picked meanwhile.
    pub(crate) fn finish(self, picker: Picker) -> Exhibits {
        let federation = self.simulation.federation();
        let image = image_shape(federation.input_shape());
        let seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let place = Place::of(self.simulation.network().layout(), federation.input_shape());
        let counts = |split| -> Vec<Vec<usize>> {
            (0..federation.clients().min(MOST_CLIENTS))
                .map(|client| match federation.task() {
                    Task::Classification { .. } => federation.label_counts(client, split),
                    Task::Regression { .. } => vec![federation.count(client, split)],
                })
                .collect()
        };
        let classes = match (federation.task(), federation.class_names()) {
            (Task::Regression { .. }, _) => Vec::new(),
            (Task::Classification { .. }, Some(names)) => names.to_vec(),
            (Task::Classification { classes }, None) => (0..classes).map(|class| class.to_string()).collect(),
        };
        let foreign = seen.foreign.into_iter();
        Exhibits {
            classes,
            train: counts(Split::Train),
            test: counts(Split::Test),
            image: image.map(kept_shape),
            samples: picker.finish(federation, image),
            foreign: foreign.map(|(client, entropies)| ForeignEntropies { client, entropies }).collect(),
            selection: seen.selection.map(|counts| counts.finish(place.as_ref())),
        }
    }
}

/// Grey or coloured images.
fn image_shape(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [channels @ (1 | 3), height, width] if height > 1 && width > 1 => Some([channels, height, width]),
        _ => None,
    }
}

/// Test inputs of other clients whose class `client` has never seen in training: the next clients first, each giving
/// at most half of what is wanted, spread evenly over what it has.
fn foreign_inputs(federation: &dyn Federation, client: usize, quota: usize) -> Vec<f32> {
    let known = federation.label_counts(client, Split::Train);
    let is_foreign = |class: usize| known.get(class) == Some(&0);
    let clients = federation.clients();
    let (mut inputs, mut wanted) = (Vec::new(), quota);
    if known.iter().all(|&count| count > 0) {
        return inputs;
    }
    for donor in (1..clients.min(1 + NEIGHBOURS)).map(|step| (client + step) % clients) {
        let has = federation.label_counts(donor, Split::Test);
        if !has.iter().enumerate().any(|(class, &count)| count > 0 && is_foreign(class)) {
            continue;
        }
        let samples = federation.samples(donor, Split::Test);
        let Targets::Classes(labels) = &samples.targets else { return inputs };
        let foreign: Vec<usize> =
            (0..labels.len()).filter(|&place| is_foreign(labels[place] as usize)).collect();
        let take = foreign.len().min(quota.div_ceil(2)).min(wanted);
        let chosen: Vec<usize> = (0..take).map(|step| foreign[step * foreign.len() / take]).collect();
        inputs.extend(samples.select(&chosen).inputs);
        wanted -= take;
        if wanted == 0 {
            break;
        }
    }
    inputs
}

/// How the weights of the first layer lie over what it looks at.
#[derive(Debug)]
struct Place {
    weights: usize,
    height: usize,
    width: usize,
}

impl Place {
    fn of(layout: &Layout, input: &[usize]) -> Option<Self> {
        let [channels, height, width] = image_shape(input)?;
        let first = layout.tensors().first()?;
        let weights = first.range.len();
        match *first.shape.as_slice() {
            [_, inputs] if inputs == channels * height * width => Some(Self { weights, height, width }),
            [_, _, rows, columns] => Some(Self { weights, height: rows, width: columns }),
            _ => None,
        }
    }

    const fn cells(&self) -> usize {
        self.height * self.width
    }
}

impl Counts {
    fn new(explanation: &Explanation, place: Option<&Place>) -> Self {
        let tensors = explanation.layers.iter().map(|share| (share.tensor.clone(), 0, share.of)).collect();
        Self { clients: 0, tensors, map: vec![0; place.map_or(0, Place::cells)] }
    }

    fn add(&mut self, selected: &[usize], explanation: &Explanation, place: Option<&Place>) {
        self.clients += 1;
        for ((_, chosen, _), share) in self.tensors.iter_mut().zip(&explanation.layers) {
            *chosen += share.chosen as u64;
        }
        if let Some(place) = place {
            // The first tensor begins at 0, its last two sides are rows and columns.
            for &index in selected.iter().filter(|&&index| index < place.weights) {
                self.map[index % place.cells()] += 1;
            }
        }
    }

    fn finish(self, place: Option<&Place>) -> Selection {
        let clients = self.clients as f64;
        let tensors = self.tensors.into_iter();
        let tensors = tensors.map(|(tensor, chosen, of)| TensorSelection {
            tensor,
            chosen: chosen as f64 / clients,
            of,
        });
        let map = place.map(|place| {
            let all = clients * (place.weights / place.cells()) as f64;
            let shares = self.map.iter().map(|&count| count as f64 / all).collect();
            SelectionMap { height: place.height, width: place.width, shares }
        });
        Selection { clients: self.clients as usize, tensors: tensors.collect(), map }
    }
}
