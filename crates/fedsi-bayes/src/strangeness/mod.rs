//! A score for "I have not seen this": how far an input is from those that a model was trained on.
//!
//! It is a sum of three parts, each in standard deviations of what training inputs have:
//!
//! 1. **Features**: the distance of the body's features from the nearest class, less their distance from all classes
//!    together (relative Mahalanobis distance; [`ClassDistances`]). It sees other datasets, unseen classes, rotations.
//! 2. **Evidence**: how small the largest logit is. What excites no class is strange, whichever it resembles most. Not
//!    for regressions.
//! 3. **Detail**: how much of the input lies outside the principal axes of training inputs, against how much usually does
//!    ([`InputDetail`]). Too much (noise) and too little (blur) are both strange.
//!
//! The sum is again measured in standard deviations of what training inputs have, so that 0 is usual and 3 is not.
//! Standard deviations of features and detail come from training inputs that were left out of the fit (five folds): what was
//! fitted looks less strange than it is.
//!
//! It needs no labels to score, nothing but the client's own training data to fit, and works on any network: where
//! features cannot be had, outputs stand in.

mod axes;
mod detail;
mod distances;
#[cfg(test)]
mod tests;

pub use axes::PrincipalAxes;
pub use detail::InputDetail;
pub use distances::ClassDistances;

/// Fewest training samples that say what is usual.
pub const FEWEST_SAMPLES: usize = 10;

/// Least that a large logit takes off: in standard deviations.
const LEAST_EVIDENCE: f64 = -3.0;

/// Parts that training samples are divided into, each scored by what the others say.
const FOLDS: usize = 5;

/// Most samples that wide rows are fitted to; of more, evenly spaced ones.
const MOST_SAMPLES: usize = 512;

/// How training inputs score: mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usual {
    /// The mean.
    pub mean: f64,
    /// The standard deviation, above 0.
    pub deviation: f64,
}

impl Usual {
    fn of(scores: &[f64]) -> Option<Self> {
        let count = scores.len().max(1) as f64;
        let mean = scores.iter().sum::<f64>() / count;
        let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / count;
        // Scores that never vary say nothing of how much is much.
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        Some(Self { mean, deviation }).filter(Self::is_sound)
    }

    fn standardise(self, score: f64) -> f64 {
        (score - self.mean) / self.deviation
    }

    fn is_sound(&self) -> bool {
        self.mean.is_finite() && self.deviation.is_finite() && self.deviation > 0.0
    }
}

/// What a network (a mode of a model) makes of some inputs, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Responses {
    /// What its head sees.
    pub features: Vec<f64>,
    /// Its outputs, where they are logits.
    pub logits: Option<Vec<f64>>,
}

/// What is usual in a mode.
#[derive(Clone, Debug, PartialEq)]
pub struct UsualResponses {
    /// What features are like.
    pub distances: ClassDistances,
    /// How far training inputs are.
    pub distance: Usual,
    /// The largest logit of training inputs, negated; none where outputs are no logits.
    pub evidence: Option<Usual>,
}

/// What is usual among a model's training inputs, and how strange others are beside them.
///
/// A model may have several networks (modes): each has features and logits of its own, whose scores are averaged.
#[derive(Clone, Debug, PartialEq)]
pub struct Strangeness {
    /// What inputs themselves are like, and how training inputs score.
    pub detail: (InputDetail, Usual),
    /// What each mode makes of them.
    pub modes: Vec<UsualResponses>,
    /// How training inputs score in all.
    pub sum: Usual,
}

impl Strangeness {
    /// Fits training samples: their inputs, what each mode makes of them, and their classes where they have any. None
    /// where there are fewer than [`FEWEST_SAMPLES`], or numbers that are not finite.
    ///
    /// Cost: six eigendecompositions of at most 512 x 512 for inputs, and twelve for each mode.
    #[must_use]
    pub fn fit(count: usize, inputs: &[f64], modes: &[Responses], labels: Option<&[u32]>) -> Option<Self> {
        if count < FEWEST_SAMPLES || modes.is_empty() {
            return None;
        }
        let folds = folds(count, labels);
        let (detail, detail_usual, detail_scores) = fit_detail(count, inputs, &folds)?;
        let mut sum: Vec<f64> =
            detail_scores.iter().map(|&score| detail_usual.standardise(score).abs()).collect();
        let mut fitted = Vec::with_capacity(modes.len());
        for mode in modes {
            let (distances, distance, scores) = fit_distances(count, &mode.features, labels, &folds)?;
            let negated = mode.logits.as_ref().map(|logits| negated_largest(logits, count));
            let evidence = match &negated {
                Some(negated) => Some(Usual::of(negated)?),
                None => None,
            };
            let usual = UsualResponses { distances, distance, evidence };
            usual.add(&mut sum, &scores, negated.as_deref(), modes.len());
            fitted.push(usual);
        }
        Some(Self { detail: (detail, detail_usual), modes: fitted, sum: Usual::of(&sum)? })
    }

    /// How strange each row is, in standard deviations of what training inputs have: larger is stranger. `modes` has what
    /// each mode makes of the rows. None where they are not of this model's kind and widths.
    ///
    /// Cost: a product of rows and at most 32 axes of inputs, and of features and at most 128 axes of theirs, twice.
    #[must_use]
    pub fn scores(&self, inputs: &[f64], modes: &[Responses]) -> Option<Vec<f64>> {
        let (detail, usual) = &self.detail;
        let count = inputs.len() / detail.axes.width;
        let fits = |(mode, own): (&Responses, &UsualResponses)| {
            let whole = |logits: &Vec<f64>| logits.len().is_multiple_of(count.max(1));
            mode.features.len() == count * own.distances.width()
                && mode.logits.is_some() == own.evidence.is_some()
                && mode.logits.as_ref().is_none_or(whole)
        };
        if !inputs.len().is_multiple_of(detail.axes.width)
            || modes.len() != self.modes.len()
            || !modes.iter().zip(&self.modes).all(fits)
        {
            return None;
        }
        let mut sum: Vec<f64> =
            detail.scores(inputs).into_iter().map(|score| usual.standardise(score).abs()).collect();
        for (mode, usual) in modes.iter().zip(&self.modes) {
            let negated = mode.logits.as_ref().map(|logits| negated_largest(logits, count));
            usual.add(&mut sum, &usual.distances.scores(&mode.features), negated.as_deref(), modes.len());
        }
        Some(sum.into_iter().map(|sum| self.sum.standardise(sum)).collect())
    }

    /// Whether its parts belong together and are finite: to be asked of one that was read from a file.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let (detail, usual) = &self.detail;
        detail.is_sound()
            && usual.is_sound()
            && self.sum.is_sound()
            && !self.modes.is_empty()
            && self.modes.iter().all(UsualResponses::is_sound)
    }
}

impl UsualResponses {
    /// Adds what a mode says of each row to its sum, as one of so many modes.
    fn add(&self, sum: &mut [f64], distances: &[f64], negated: Option<&[f64]>, modes: usize) {
        let share = 1.0 / modes as f64;
        for (sum, &distance) in sum.iter_mut().zip(distances) {
            *sum += share * self.distance.standardise(distance);
        }
        if let (Some(evidence), Some(negated)) = (self.evidence, negated) {
            for (sum, &negated) in sum.iter_mut().zip(negated) {
                // Far away logits are as large as one likes: that alone makes nothing usual.
                *sum += share * evidence.standardise(negated).max(LEAST_EVIDENCE);
            }
        }
    }

    fn is_sound(&self) -> bool {
        self.distances.is_sound()
            && self.distance.is_sound()
            && self.evidence.as_ref().is_none_or(Usual::is_sound)
    }
}

/// The largest logit of each of so many rows, negated.
fn negated_largest(logits: &[f64], count: usize) -> Vec<f64> {
    let rows = logits.chunks_exact((logits.len() / count.max(1)).max(1));
    rows.map(|row| -row.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect()
}

fn fit_detail(count: usize, inputs: &[f64], folds: &[usize]) -> Option<(InputDetail, Usual, Vec<f64>)> {
    let width = inputs.len() / count;
    let most = InputDetail::axes_for(count, width);
    let fit = |rows: &[usize]| InputDetail::fit(&select(inputs, width, &spaced(rows, width)), width, most);
    let whole = fit(&(0..count).collect::<Vec<_>>())?;
    let scores =
        left_out(count, folds, |kept, aside| Some(fit(kept)?.scores(&select(inputs, width, aside))))?;
    let usual = Usual::of(&scores)?;
    Some((whole, usual, scores))
}

fn fit_distances(
    count: usize,
    features: &[f64],
    labels: Option<&[u32]>,
    folds: &[usize],
) -> Option<(ClassDistances, Usual, Vec<f64>)> {
    let width = features.len() / count;
    // Decided once: a fold may lack a class and is still measured like the others.
    let labels = labels.filter(|labels| labels.iter().any(|label| *label != labels[0]));
    let fit = |rows: &[usize]| {
        let rows = spaced(rows, width);
        let own: Option<Vec<u32>> = labels.map(|labels| rows.iter().map(|&row| labels[row]).collect());
        ClassDistances::fit(&select(features, width, &rows), width, own.as_deref())
    };
    let whole = fit(&(0..count).collect::<Vec<_>>())?;
    let scores =
        left_out(count, folds, |kept, aside| Some(fit(kept)?.scores(&select(features, width, aside))))?;
    let usual = Usual::of(&scores)?;
    Some((whole, usual, scores))
}

/// The score of each sample by what was fitted without its fold.
fn left_out(
    count: usize,
    folds: &[usize],
    score: impl Fn(&[usize], &[usize]) -> Option<Vec<f64>>,
) -> Option<Vec<f64>> {
    let mut all = vec![0.0; count];
    for fold in 0..FOLDS {
        let (aside, kept): (Vec<usize>, Vec<usize>) = (0..count).partition(|&row| folds[row] == fold);
        for (&row, score) in aside.iter().zip(score(&kept, &aside)?) {
            all[row] = score;
        }
    }
    Some(all)
}

/// The fold of each sample: those of a class take turns, so that every fold has about its share of every class.
fn folds(count: usize, labels: Option<&[u32]>) -> Vec<usize> {
    let Some(labels) = labels else { return (0..count).map(|row| row % FOLDS).collect() };
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&row| (labels[row], row));
    let mut folds = vec![0; count];
    for (turn, row) in order.into_iter().enumerate() {
        folds[row] = turn % FOLDS;
    }
    folds
}

/// Evenly spaced ones of these rows, where rows of this width are too many.
fn spaced(rows: &[usize], width: usize) -> Vec<usize> {
    if width <= MOST_SAMPLES || rows.len() <= MOST_SAMPLES {
        return rows.to_vec();
    }
    (0..MOST_SAMPLES).map(|step| rows[step * rows.len() / MOST_SAMPLES]).collect()
}

fn select(values: &[f64], width: usize, rows: &[usize]) -> Vec<f64> {
    rows.iter().flat_map(|&row| values[row * width..(row + 1) * width].iter().copied()).collect()
}
