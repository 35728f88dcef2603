//! What models answered, and how well their doubts tell strange inputs from their clients' own.

use fedsi_metrics::{Bins, MetricsError, Predictions, auroc, entropy};
use serde::{Deserialize, Serialize};

use super::inputs::InputSet;
use crate::saved::{Predicted, SavedError, SavedModel};

/// What a model says of some inputs.
pub(super) struct Answers {
    probabilities: Vec<f32>,
    labels: Option<Vec<u32>>,
    entropies: Vec<f64>,
    strangeness: Option<Vec<f64>>,
}

impl Answers {
    /// Costs a prediction, and about a forward pass more.
    pub(super) fn of(
        model: &SavedModel,
        inputs: &[f32],
        labels: Option<Vec<u32>>,
    ) -> Result<Self, SavedError> {
        let (classes, probabilities) = match model.predict(inputs)? {
            Predicted::Classes { classes, probabilities, .. } => (classes, probabilities),
            // Refused before models are read.
            Predicted::Values { outputs, .. } => (outputs, Vec::new()),
        };
        let entropies = probabilities.chunks_exact(classes).map(entropy).collect();
        Ok(Self { probabilities, labels, entropies, strangeness: model.strangeness(inputs)? })
    }
}

/// What all clients' models made of one set of inputs. Read back from JSON it is the same, to the bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Which inputs.
    pub inputs: InputSet,
    /// How many, of all clients together.
    pub samples: usize,
    /// Of all predictions together; none where no class is right.
    pub accuracy: Option<f64>,
    /// The same.
    pub nll: Option<f64>,
    /// The same, in ten bins.
    pub ece: Option<f64>,
    /// The mean entropy of the predicted distributions, in nats.
    pub entropy: f64,
    /// The mean of how far inputs are from the client's training inputs; none where no model knows.
    pub strangeness: Option<f64>,
    /// How well strangeness tells these inputs from the client's own test samples, mean over clients; none of those
    /// themselves.
    pub auroc_strangeness: Option<f64>,
    /// The same by entropy.
    pub auroc_entropy: Option<f64>,
}

/// The sets that any client was shown, in the order of the first one's, and what became of each.
pub(super) fn measure(
    asked: &[Vec<(InputSet, Answers)>],
    classes: usize,
) -> Result<Vec<Measured>, MetricsError> {
    let mut sets: Vec<&InputSet> = Vec::new();
    for (set, _) in asked.iter().flatten() {
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets.into_iter().map(|set| measure_set(asked, set, classes)).collect()
}

fn measure_set(
    asked: &[Vec<(InputSet, Answers)>],
    set: &InputSet,
    classes: usize,
) -> Result<Measured, MetricsError> {
    let find =
        |client: &'_ [(InputSet, Answers)], set: &InputSet| client.iter().position(|(own, _)| own == set);
    let (mut probabilities, mut labels): (Vec<f32>, Vec<u32>) = (Vec::new(), Vec::new());
    let (mut entropies, mut strangeness) = (Vec::new(), Vec::new());
    let (mut by_entropy, mut by_strangeness) = (Vec::new(), Vec::new());
    for client in asked {
        let (Some(at), Some(own)) = (find(client, set), find(client, &InputSet::Own)) else { continue };
        let (answers, own) = (&client[at].1, &client[own].1);
        if let Some(right) = &answers.labels {
            probabilities.extend_from_slice(&answers.probabilities);
            labels.extend_from_slice(right);
        }
        entropies.extend_from_slice(&answers.entropies);
        strangeness.extend(answers.strangeness.iter().flatten().copied());
        if *set != InputSet::Own {
            by_entropy.extend(auroc(&own.entropies, &answers.entropies)?);
            if let (Some(own), Some(found)) = (&own.strangeness, &answers.strangeness) {
                by_strangeness.extend(auroc(own, found)?);
            }
        }
    }
    let scores = Predictions::new(&probabilities, &labels, classes)?.scores(Bins::default());
    let mean = |values: &[f64]| {
        let count = values.len();
        (count > 0).then(|| values.iter().sum::<f64>() / count as f64)
    };
    Ok(Measured {
        inputs: set.clone(),
        samples: entropies.len(),
        accuracy: scores.map(|scores| scores.accuracy),
        nll: scores.map(|scores| scores.nll),
        ece: scores.map(|scores| scores.ece),
        entropy: mean(&entropies).unwrap_or(0.0),
        strangeness: mean(&strangeness),
        auroc_strangeness: mean(&by_strangeness),
        auroc_entropy: mean(&by_entropy),
    })
}
