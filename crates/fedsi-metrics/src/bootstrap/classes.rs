//! Scores of classification from sums over parts of the rows.

use super::{Intervals, Plan, around, check_owners};
use crate::proportion::wilson;
use crate::{Bins, MetricsError, PROBABILITY_FLOOR, PredictionRow, Predictions, selective};

/// Groups of rows of equal rank by confidence, for AURC.
const GROUPS: usize = 250;

/// Sums over the rows of one part. What most parts do not have is listed, not laid out.
#[derive(Clone, Default)]
struct PartSums {
    rows: f64,
    correct: f64,
    majority: f64,
    confidence: f64,
    nll: f64,
    brier: f64,
    /// Bins of confidence: which, and right answers less confidences.
    gaps: Vec<(usize, f64)>,
    /// Classes: which, samples of it, those that are recognised.
    classes: Vec<(usize, f64, f64)>,
    /// Groups by confidence: which, rows, wrong ones.
    groups: Vec<(usize, f64, f64)>,
}

/// The figures, in the order of [`NAMES`].
const NAMES: [&str; 8] =
    ["accuracy", "balanced_accuracy", "ece", "brier", "nll", "aurc", "overconfidence", "above_majority"];

impl<T: Copy + Into<f64>> Predictions<'_, T> {
    /// 95% intervals of the scores; accuracy is the mean over clients, the rest is of all rows. `owners` says whose each row
    /// is, a client's rows one after another; `majority` what a baseline answers each row. `None` of fewer than two
    /// rows. Costs a thousand passes over the sums of clients, or of at most 500 parts of each where they are few.
    ///
    /// # Errors
    /// Another number of owners or answers than of rows.
    pub fn intervals(
        &self,
        owners: &[usize],
        majority: Option<&[usize]>,
    ) -> Result<Option<Intervals>, MetricsError> {
        check_owners(self.len(), owners)?;
        if let Some(answers) = majority {
            check_owners(self.len(), answers)?;
        }
        let Some(plan) = Plan::new(owners) else { return Ok(None) };
        let parts = self.part_sums(&plan, majority);
        let score = |weights: &[f64]| scores(&plan, &parts, self.classes(), weights);
        let mut estimates = score(&vec![1.0; parts.len()]);
        // Groups only approximate it.
        let ranked = self.rows().map(|row| (1.0 - row.confidence(), row.is_correct())).collect();
        estimates[5] = selective::area(ranked).unwrap_or(estimates[5]);
        let deviations = plan.deviations(score);
        let correct = self.rows().filter(PredictionRow::is_correct).count();
        let pooled = correct as f64 / self.len() as f64;
        // Wilson's interval of as many rows, as deviations.
        let [low, high] = wilson(correct, self.len()).unwrap_or([pooled; 2]);
        let shares = [low - pooled, high - pooled];
        let above = majority.map_or([0.0; 2], |answers| self.sign_interval(answers));
        let of = |place: usize| -> Option<(&'static str, [f64; 2])> {
            let (least, range) = match NAMES[place] {
                "accuracy" => (shares, 0.0..1.0),
                "overconfidence" => ([-shares[1], -shares[0]], -1.0..1.0),
                "above_majority" => (above, -1.0..1.0),
                "brier" => ([0.0; 2], 0.0..2.0),
                "nll" => ([0.0; 2], 0.0..f64::MAX),
                _ => ([0.0; 2], 0.0..1.0),
            };
            Some((NAMES[place], around(estimates[place], deviations[place], least, range)?))
        };
        let wanted = (0..NAMES.len()).filter(|&place| majority.is_some() || NAMES[place] != "above_majority");
        Ok(Some(Intervals { resampled: plan.resampled, figures: wanted.filter_map(of).collect() }))
    }

    /// Wilson's interval of the accuracy less that of these answers, from the rows that only one of both gets right, as
    /// deviations: so wide a difference of few rows is at least, however alike clients are.
    fn sign_interval(&self, answers: &[usize]) -> [f64; 2] {
        let mut only = [0_usize; 2];
        for (row, &answer) in self.rows().zip(answers) {
            let [own, other] = [row.is_correct(), answer == row.label()];
            only[0] += usize::from(own && !other);
            only[1] += usize::from(other && !own);
        }
        let differing = only[0] + only[1];
        let share = differing as f64 / self.len().max(1) as f64;
        let found = only[0] as f64 / differing.max(1) as f64;
        let ends = wilson(only[0], differing).unwrap_or([found; 2]);
        ends.map(|end| 2.0 * (end - found) * share)
    }

    fn part_sums(&self, plan: &Plan, majority: Option<&[usize]>) -> Vec<PartSums> {
        let bins = Bins::default();
        let ranks = self.ranks();
        let mut parts = vec![PartSums::default(); plan.client_of.len()];
        for (place, row) in self.rows().enumerate() {
            let part = &mut parts[plan.part_of[place]];
            let (predicted, confidence) = row.largest();
            let right = f64::from(u8::from(predicted == row.label()));
            part.rows += 1.0;
            part.correct += right;
            part.majority +=
                majority.map_or(0.0, |answers| f64::from(u8::from(answers[place] == row.label())));
            part.confidence += confidence;
            part.nll -= row.probability_of_label().max(PROBABILITY_FLOOR).ln();
            for (class, &p) in row.probabilities().iter().enumerate() {
                let error = p.into() - f64::from(u8::from(class == row.label()));
                part.brier += error * error;
            }
            add_one(&mut part.gaps, bins.index(confidence), right - confidence);
            add(&mut part.classes, row.label(), 1.0, right);
            add(&mut part.groups, ranks[place], 1.0, 1.0 - right);
        }
        parts
    }

    /// The group of each row, the surest first; rows of equal confidence are in one group.
    fn ranks(&self) -> Vec<usize> {
        let doubts: Vec<f64> = self.rows().map(|row| 1.0 - row.confidence()).collect();
        let mut order: Vec<usize> = (0..doubts.len()).collect();
        order.sort_by(|&a, &b| doubts[a].total_cmp(&doubts[b]));
        let mut ranks = vec![0; doubts.len()];
        let mut group = 0;
        for (place, &row) in order.iter().enumerate() {
            let starts = place > 0 && doubts[order[place - 1]] != doubts[row];
            if starts || place == 0 {
                group = place * GROUPS / doubts.len();
            }
            ranks[row] = group;
        }
        ranks
    }
}

fn add_one(list: &mut Vec<(usize, f64)>, key: usize, value: f64) {
    match list.iter_mut().find(|(own, _)| *own == key) {
        Some((_, sum)) => *sum += value,
        None => list.push((key, value)),
    }
}

fn add(list: &mut Vec<(usize, f64, f64)>, key: usize, first: f64, second: f64) {
    match list.iter_mut().find(|(own, ..)| *own == key) {
        Some((_, a, b)) => {
            *a += first;
            *b += second;
        }
        None => list.push((key, first, second)),
    }
}

/// The figures of parts that count so often.
fn scores(plan: &Plan, parts: &[PartSums], classes: usize, weights: &[f64]) -> [f64; NAMES.len()] {
    let mut gaps = vec![0.0; Bins::default().count()];
    let mut recalls = vec![(0.0, 0.0); classes];
    let mut groups = vec![(0.0, 0.0); GROUPS];
    let mut clients = vec![(0.0, 0.0, 0.0, 0.0); plan.clients.len()];
    let (mut rows, mut correct, mut confidence, mut nll, mut brier) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ((part, &client), &weight) in parts.iter().zip(&plan.client_of).zip(weights) {
        if weight == 0.0 {
            continue;
        }
        rows += weight * part.rows;
        correct += weight * part.correct;
        confidence += weight * part.confidence;
        nll += weight * part.nll;
        brier += weight * part.brier;
        let own = &mut clients[client];
        // A client drawn twice is two clients; of rows drawn within one it stays one.
        own.0 = if plan.resampled == super::Resampled::Clients { weight } else { 1.0 };
        own.1 += weight * part.rows;
        own.2 += weight * part.correct;
        own.3 += weight * part.majority;
        part.gaps.iter().for_each(|&(bin, gap)| gaps[bin] += weight * gap);
        for &(class, samples, found) in &part.classes {
            recalls[class].0 += weight * samples;
            recalls[class].1 += weight * found;
        }
        for &(group, samples, wrong) in &part.groups {
            groups[group].0 += weight * samples;
            groups[group].1 += weight * wrong;
        }
    }
    let (mut count, mut accuracy, mut majority) = (0.0, 0.0, 0.0);
    for &(times, samples, right, baseline) in clients.iter().filter(|client| client.1 > 0.0) {
        count += times;
        accuracy += times * right / samples;
        majority += times * baseline / samples;
    }
    let present = recalls.iter().filter(|(samples, _)| *samples > 0.0);
    let (sum, number) =
        present.fold((0.0, 0.0), |(sum, n), (samples, found)| (sum + found / samples, n + 1.0));
    [
        accuracy / count,
        sum / number,
        gaps.iter().map(|gap: &f64| gap.abs()).sum::<f64>() / rows,
        brier / rows,
        nll / rows,
        area(&groups, rows),
        (confidence - correct) / rows,
        (accuracy - majority) / count,
    ]
}

/// AURC of groups of rows, errors even within a group: the mean risk over all coverages, each group at its middle.
fn area(groups: &[(f64, f64)], rows: f64) -> f64 {
    let (mut answered, mut wrong, mut sum) = (0.0, 0.0, 0.0);
    for &(samples, errors) in groups.iter().filter(|(samples, _)| *samples > 0.0) {
        let middle = (wrong + 0.5 * errors) / (answered + 0.5 * samples);
        sum += samples * middle;
        answered += samples;
        wrong += errors;
    }
    sum / rows
}

#[cfg(test)]
mod tests {
    use super::super::Resampled;
    use super::*;

    /// Clients with so many rows of two classes, a share of them right with confidence `sure`.
    fn rows(
        clients: usize,
        each: usize,
        right: impl Fn(usize) -> f64,
        sure: f64,
    ) -> (Vec<f64>, Vec<u32>, Vec<usize>) {
        let (mut p, mut labels, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for client in 0..clients {
            for row in 0..each {
                let label = u32::from(row % 2 == 1);
                let is_right = (row as f64) < right(client) * each as f64;
                let first = if (label == 0) == is_right { sure } else { 1.0 - sure };
                p.extend([first, 1.0 - first]);
                labels.push(label);
                owners.push(client);
            }
        }
        (p, labels, owners)
    }

    fn find(found: &Intervals, name: &str) -> [f64; 2] {
        found.figures.iter().find(|(own, _)| *own == name).unwrap().1
    }

    #[test]
    fn clients_that_differ_make_intervals_wide() {
        // Ten clients, each right on 0.7 or 0.9 of its rows: the mean is 0.8, the deviation 0.105, over sqrt 10.
        let right = |client: usize| if client.is_multiple_of(2) { 0.7 } else { 0.9 };
        let (p, labels, owners) = rows(10, 100, right, 0.95);
        let all = Predictions::new(&p, &labels, 2).unwrap();
        let found = all.intervals(&owners, None).unwrap().unwrap();
        assert_eq!(found.resampled, Resampled::Clients);
        let [low, high] = find(&found, "accuracy");
        // Student's quantile with nine degrees is 2.262: 0.8 +- 0.075.
        assert!((low - 0.725).abs() < 0.015 && (high - 0.875).abs() < 0.015, "{low} {high}");
        // Confidence 0.95, accuracy 0.8: overconfident by 0.15, for sure.
        let [low, high] = find(&found, "overconfidence");
        assert!(low > 0.05 && low < 0.15 && high > 0.15 && high < 0.25, "{low} {high}");
        // The same again, to the bit.
        assert_eq!(all.intervals(&owners, None).unwrap().unwrap(), found);
        let scores = all.scores(Bins::default()).unwrap();
        for (name, value) in [
            ("ece", scores.ece),
            ("nll", scores.nll),
            ("brier", scores.brier),
            ("aurc", scores.aurc),
            ("balanced_accuracy", scores.balanced_accuracy),
        ] {
            let [low, high] = find(&found, name);
            assert!(low <= value && value <= high && low < high, "{name}: {low} {value} {high}");
        }
        assert!(!found.figures.iter().any(|(name, _)| *name == "above_majority"));
    }

    #[test]
    fn of_few_clients_rows_are_drawn() {
        let (p, labels, owners) = rows(2, 200, |_| 0.8, 0.8);
        let all = Predictions::new(&p, &labels, 2).unwrap();
        let majority = vec![0; 400];
        let found = all.intervals(&owners, Some(&majority)).unwrap().unwrap();
        assert_eq!(found.resampled, Resampled::Rows);
        // sqrt(0.16 / 400) = 0.02: 0.8 +- 0.039.
        let [low, high] = find(&found, "accuracy");
        assert!((low - 0.76).abs() < 0.008 && (high - 0.84).abs() < 0.008, "{low} {high}");
        // Half of the labels are class 0: 0.3 above that, by far more than chance.
        let [low, high] = find(&found, "above_majority");
        assert!(low > 0.2 && high < 0.4, "{low} {high}");
    }

    #[test]
    fn where_nothing_is_wrong_wilson_s_interval_stays() {
        let (p, labels, owners) = rows(1, 13, |_| 1.0, 0.99);
        let all = Predictions::new(&p, &labels, 2).unwrap();
        let found = all.intervals(&owners, None).unwrap().unwrap();
        assert_eq!(find(&found, "accuracy"), wilson(13, 13).unwrap());
        let [low, high] = find(&found, "overconfidence");
        assert!(low < 0.0 && high > 0.1, "thirteen right answers do not show underconfidence: {low} {high}");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_has_no_interval() {
        let (p, labels, owners) = rows(1, 4, |_| 1.0, 0.9);
        let all = Predictions::new(&p, &labels, 2).unwrap();
        assert!(all.intervals(&owners[..3], None).is_err());
        assert!(all.intervals(&owners, Some(&[0])).is_err());
        let nothing = Predictions::<f64>::new(&[], &[], 2).unwrap();
        assert_eq!(nothing.intervals(&[], None).unwrap(), None);
    }

    /// Groups come close to the area itself.
    #[test]
    fn the_area_of_groups() {
        let groups: Vec<(f64, f64)> =
            (0..GROUPS).map(|group| (4.0, if group > 200 { 2.0 } else { 0.0 })).collect();
        let pairs = groups
            .iter()
            .enumerate()
            .flat_map(|(group, &(_, wrong))| (0..4).map(move |row| (group as f64, f64::from(row) >= wrong)));
        let exact = selective::area(pairs.collect()).unwrap();
        assert!((area(&groups, 1_000.0) / exact - 1.0).abs() < 0.02);
    }
}
