//! Collecting report data while clients are evaluated.

use std::collections::BTreeMap;

use fedsi_data::{Federation, Split, TableEncoding, Targets, Task};
use fedsi_fl::Simulation;
use fedsi_metrics::entropy;
use fedsi_nn::Layout;

use crate::evaluated_client::{ChosenParameters, EvaluatedClient};

use super::samples::{SamplePicker, kept_shape};
use super::{ForeignEntropies, MOST_CLIENTS, ReportData, Selection, SelectionMap, TensorSelection};

/// Predictions on foreign classes, of one client and of all together.
const FOREIGN_OF_A_CLIENT: usize = 200;
const FOREIGN_IN_ALL: usize = 20_000;

/// Cells of the table of clients and classes.
const MOST_CELLS: usize = 1_000_000;

/// Other clients asked for samples of a class: beyond them, a class nobody near has is not looked for.
const NEIGHBOURS: usize = 64;

/// Collects what a report needs of evaluated clients. What it collects does not depend on the order in which they come;
/// memory is bounded whatever their number.
pub(crate) struct ReportCollector<'a> {
    simulation: &'a Simulation,
    foreign: BTreeMap<usize, Vec<f32>>,
    selection: Option<SelectionCounts>,
}

/// How often each parameter was chosen, summed over clients: whole numbers, so that the order of the sum does not matter.
#[derive(Debug)]
struct SelectionCounts {
    clients: u64,
    tensors: Vec<(String, u64, usize)>,
    map: Vec<u64>,
}

/// Test inputs of classes that a client has never seen in training, for its model to predict: at most
/// [`FOREIGN_OF_A_CLIENT`], none of a client beyond those that a page shows. Cost: the making of two other clients' test
/// data.
pub(crate) fn unseen_inputs(federation: &dyn Federation, client: usize) -> Vec<f32> {
    let clients = federation.clients();
    match federation.task() {
        Task::Classification { .. } if client < MOST_CLIENTS => {
            let quota = FOREIGN_OF_A_CLIENT.min(FOREIGN_IN_ALL / clients.clamp(1, MOST_CLIENTS));
            inputs_of_unseen_classes(federation, client, quota)
        }
        Task::Classification { .. } | Task::Regression { .. } => Vec::new(),
    }
}

impl<'a> ReportCollector<'a> {
    pub(crate) const fn new(simulation: &'a Simulation) -> Self {
        Self { simulation, foreign: BTreeMap::new(), selection: None }
    }

    /// Takes what is needed of a client's evaluation, whose further inputs were [`unseen_inputs`].
    pub(crate) fn observe(&mut self, evaluation: &EvaluatedClient) {
        let federation = self.simulation.federation();
        if let Task::Classification { classes } = federation.task() {
            let rows = evaluation.further_probabilities.chunks_exact(classes);
            let entropies: Vec<f32> = rows.map(|row| entropy(row) as f32).collect();
            if !entropies.is_empty() && entropies.iter().all(|value| value.is_finite()) {
                self.foreign.insert(evaluation.client, entropies);
            }
        }
        if let Some(chosen) = &evaluation.subnetwork {
            let layout = self.simulation.client().network().layout();
            let grid = FirstLayerGrid::of(layout, federation.input_shape());
            let counts = self.selection.get_or_insert_with(|| SelectionCounts::new(chosen, grid.as_ref()));
            counts.add(chosen, grid.as_ref());
        }
    }

    /// Everything collected, with the samples that were picked meanwhile.
    pub(crate) fn finish(self, picker: SamplePicker) -> ReportData {
        let federation = self.simulation.federation();
        let image = image_shape(federation.input_shape());
        let grid = FirstLayerGrid::of(self.simulation.client().network().layout(), federation.input_shape());
        let rows = table_rows(federation.clients(), federation.task());
        let counts = |split| -> Vec<Vec<usize>> {
            (0..rows)
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
        let foreign = self.foreign.into_iter();
        ReportData {
            classes,
            train: counts(Split::Train),
            test: counts(Split::Test),
            image: image.map(kept_shape),
            columns: federation.table_encoding().map(TableEncoding::column_names).unwrap_or_default(),
            samples: picker.finish(federation, image),
            foreign: foreign.map(|(client, entropies)| ForeignEntropies { client, entropies }).collect(),
            selection: self.selection.map(|counts| counts.finish(grid.as_ref())),
        }
    }
}

/// Clients whose samples are counted class by class: of very many classes fewer, so that the table stays within
/// [`MOST_CELLS`].
fn table_rows(clients: usize, task: Task) -> usize {
    let classes = match task {
        Task::Classification { classes } => classes.max(1),
        Task::Regression { .. } => 1,
    };
    clients.min(MOST_CLIENTS).min((MOST_CELLS / classes).max(1))
}

/// Grey or coloured images.
fn image_shape(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [channels @ (1 | 3), height, width] if height > 1 && width > 1 => Some([channels, height, width]),
        _ => None,
    }
}

/// Test inputs of other clients whose class `client` has never seen in training: the next clients first, each giving
/// at most half of what is wanted, spread evenly over what it has. Cost: the making of their test data.
#[must_use]
pub fn inputs_of_unseen_classes(federation: &dyn Federation, client: usize, quota: usize) -> Vec<f32> {
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
        let foreign: Vec<usize> = (0..labels.len()).filter(|&row| is_foreign(labels[row] as usize)).collect();
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
struct FirstLayerGrid {
    weights: usize,
    height: usize,
    width: usize,
}

impl FirstLayerGrid {
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

impl SelectionCounts {
    fn new(chosen: &ChosenParameters, grid: Option<&FirstLayerGrid>) -> Self {
        let tensors = chosen.tensors.iter().map(|share| (share.tensor.clone(), 0, share.of)).collect();
        Self { clients: 0, tensors, map: vec![0; grid.map_or(0, FirstLayerGrid::cells)] }
    }

    fn add(&mut self, chosen: &ChosenParameters, grid: Option<&FirstLayerGrid>) {
        self.clients += 1;
        for ((_, sum, _), share) in self.tensors.iter_mut().zip(&chosen.tensors) {
            *sum += share.chosen as u64;
        }
        if let Some(grid) = grid {
            // The first tensor begins at 0, its last two sides are rows and columns.
            let indices = chosen.selected.iter().map(|&index| index as usize);
            for index in indices.filter(|&index| index < grid.weights) {
                self.map[index % grid.cells()] += 1;
            }
        }
    }

    fn finish(self, grid: Option<&FirstLayerGrid>) -> Selection {
        let clients = self.clients as f64;
        let tensors = self.tensors.into_iter();
        let tensors = tensors.map(|(tensor, chosen, of)| TensorSelection {
            tensor,
            chosen: chosen as f64 / clients,
            of,
        });
        let map = grid.map(|grid| {
            let all = clients * (grid.weights / grid.cells()) as f64;
            let shares = self.map.iter().map(|&count| count as f64 / all).collect();
            SelectionMap { height: grid.height, width: grid.width, shares }
        });
        Selection { clients: self.clients as usize, tensors: tensors.collect(), map }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_classes_is_bounded() {
        let classes = |classes| Task::Classification { classes };
        assert_eq!(table_rows(30, classes(10)), 30);
        assert_eq!(table_rows(5_000, classes(1_000)), 1_000);
        assert_eq!(table_rows(5_000, classes(65_536)), 15);
        assert_eq!(table_rows(5_000, classes(10_000_000)), 1);
        assert_eq!(table_rows(5_000, Task::Regression { outputs: 3 }), 1_000);
    }
}
