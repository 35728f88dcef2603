//! 95% intervals of scores by resampling clients.
//!
//! Rows of one client share a model and a source, so they are not independent: a replicate draws as many clients as there
//! are, with replacement, and scores are computed again from their sums. With fewer than [`FEWEST_CLIENTS`] clients, rows
//! are drawn within each client instead: then an interval is for these clients alone, and says nothing of others.
//!
//! An interval is the estimate plus the 2.5th and 97.5th percentiles of the replicates around their own mean, which takes
//! out what resampling adds to scores that are no means (ECE). Deviations are widened by Student's quantile over the normal
//! one and by `sqrt(n / (n - 1))`, because percentiles of few clients are too narrow. Shares are never narrower than
//! Wilson's interval of as many rows: where no answer is wrong, no resampling finds one.
//!
//! Draws come from streams keyed by the replicate alone: equal predictions have equal intervals.

mod classes;
mod means;
mod values;

pub use means::{Estimate, MeanComparison, MeanOf, OwnedValues, compare_means, mean_interval};

use std::ops::Range;

use fedsi_random::{Purpose, SERVER, Streams};
use rand::RngExt as _;

use crate::normal::HALF_WIDTH_95;
use crate::paired::student_half_width;
use crate::{MetricsError, quantile};

/// With fewer clients rows are drawn within each.
pub const FEWEST_CLIENTS: usize = 5;

/// Times that clients are drawn.
const REPLICATES: usize = 1_000;

/// Parts that a client's rows are drawn in, where rows are drawn: of fewer rows each is a part of its own.
const PARTS: usize = 500;

/// The share of replicates below an interval, and above it.
const TAIL: f64 = 0.025;

/// What intervals were found by drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resampled {
    /// Clients, all their rows together.
    Clients,
    /// Rows within each client: there are too few clients.
    Rows,
}

/// 95% intervals of a run's scores, by their names in `summary.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Intervals {
    /// What was drawn.
    pub resampled: Resampled,
    /// Names and ends. Besides the scores: `overconfidence`, mean confidence less accuracy over all rows, and
    /// `above_majority`, accuracy less that of the baseline's answers, where those are given.
    pub figures: Vec<(&'static str, [f64; 2])>,
}

/// Which rows are drawn together, and among which.
struct Plan {
    resampled: Resampled,
    /// Rows of each client, in order.
    clients: Vec<Range<usize>>,
    /// Of each part: its client.
    client_of: Vec<usize>,
    /// The part of each row.
    part_of: Vec<usize>,
    /// Parts that are drawn among themselves.
    strata: Vec<Range<usize>>,
}

impl Plan {
    /// Of rows whose clients are `owners`, in runs of equal ones; `None` of fewer than two parts to draw.
    fn new(owners: &[usize]) -> Option<Self> {
        let clients = owners.chunk_by(|a, b| a == b).count();
        let resampled = if clients >= FEWEST_CLIENTS { Resampled::Clients } else { Resampled::Rows };
        Self::with(owners, resampled)
    }

    /// The same, drawing what is asked for.
    fn with(owners: &[usize], resampled: Resampled) -> Option<Self> {
        let clients: Vec<Range<usize>> = owners
            .chunk_by(|a, b| a == b)
            .scan(0, |start, run| {
                let from = *start;
                *start += run.len();
                Some(from..*start)
            })
            .collect();
        let (mut client_of, mut part_of, mut strata) = (Vec::new(), Vec::new(), Vec::new());
        for (client, rows) in clients.iter().enumerate() {
            let first = client_of.len();
            let parts = match resampled {
                Resampled::Clients => 1,
                Resampled::Rows => rows.len().min(PARTS),
            };
            // Rows in turn: neighbours, which may be alike, are in different parts.
            part_of.extend((0..rows.len()).map(|row| first + row % parts));
            client_of.extend(std::iter::repeat_n(client, parts));
            if resampled == Resampled::Rows {
                strata.push(first..first + parts);
            }
        }
        if resampled == Resampled::Clients {
            strata.push(0..clients.len());
        }
        (client_of.len() > 1).then_some(Self { resampled, clients, client_of, part_of, strata })
    }

    /// How often each part counts in a replicate.
    fn draw(&self, replicate: usize, weights: &mut [f64]) {
        let mut rng = Streams::new(0).stream(Purpose::Resampling, SERVER - 2, replicate as u64);
        weights.fill(0.0);
        for stratum in &self.strata {
            for _ in stratum.clone() {
                weights[rng.random_range(stratum.clone())] += 1.0;
            }
        }
    }

    /// By how much percentiles are too narrow for so few draws.
    fn widening(&self) -> f64 {
        let units = match self.resampled {
            Resampled::Clients => self.clients.len(),
            Resampled::Rows => self.part_of.len(),
        } as f64;
        student_half_width(units - 1.0) / HALF_WIDTH_95 * (units / (units - 1.0)).sqrt()
    }

    /// The deviations of each figure's 95% interval from its estimate: below and above.
    fn deviations<const N: usize>(&self, score: impl Fn(&[f64]) -> [f64; N]) -> [Option<[f64; 2]>; N] {
        self.widened(self.widening(), score)
    }

    /// The same, deviations widened by this factor.
    fn widened<const N: usize>(
        &self,
        widening: f64,
        score: impl Fn(&[f64]) -> [f64; N],
    ) -> [Option<[f64; 2]>; N] {
        let mut weights = vec![0.0; self.client_of.len()];
        let mut columns: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(REPLICATES));
        for replicate in 0..REPLICATES {
            self.draw(replicate, &mut weights);
            for (column, value) in columns.iter_mut().zip(score(&weights)) {
                if value.is_finite() {
                    column.push(value);
                }
            }
        }
        columns.map(|column| {
            let mean = column.iter().sum::<f64>() / column.len().max(1) as f64;
            let end = |share| quantile(&column, share).map(|found| widening * (found - mean));
            Some([end(TAIL)?.min(0.0), end(1.0 - TAIL)?.max(0.0)])
        })
    }
}

/// The interval around an estimate, at least as wide as `least` says, and within the figure's range.
fn around(
    estimate: f64,
    deviations: Option<[f64; 2]>,
    least: [f64; 2],
    range: Range<f64>,
) -> Option<[f64; 2]> {
    let [below, above] = deviations?;
    let ends = [estimate + below.min(least[0]), estimate + above.max(least[1])];
    let ends = ends.map(|end| end.clamp(range.start, range.end));
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}

fn check_owners(rows: usize, owners: &[usize]) -> Result<(), MetricsError> {
    if owners.len() == rows {
        return Ok(());
    }
    Err(MetricsError::Unpaired {
        left: "predictions",
        right: "clients",
        left_len: rows,
        right_len: owners.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_clients_are_drawn_whole_and_few_by_rows() {
        let owners: Vec<usize> = (0..6).flat_map(|client| [client; 3]).collect();
        let plan = Plan::new(&owners).unwrap();
        assert_eq!((plan.resampled, plan.client_of.len(), plan.strata.len()), (Resampled::Clients, 6, 1));
        assert_eq!(plan.part_of[..7], [0, 0, 0, 1, 1, 1, 2]);
        let plan = Plan::new(&owners[..9]).unwrap();
        assert_eq!((plan.resampled, plan.client_of.len(), plan.strata.len()), (Resampled::Rows, 9, 3));
        assert_eq!(plan.part_of, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        // Draws stay within their stratum, and are as many as it has.
        let mut weights = vec![0.0; 9];
        for replicate in 0..50 {
            plan.draw(replicate, &mut weights);
            for stratum in &plan.strata {
                assert_eq!(weights[stratum.clone()].iter().sum::<f64>(), 3.0);
            }
        }
        assert!(Plan::new(&[]).is_none() && Plan::new(&[4]).is_none());
        // Many rows of one client are drawn in parts.
        let plan = Plan::new(&vec![7; 1_200]).unwrap();
        assert_eq!((plan.client_of.len(), plan.part_of[501]), (PARTS, 1));
    }

    /// The deviations of a mean are those of its standard error, widened for few clients.
    #[test]
    fn a_mean_s_interval_is_student_s() {
        for clients in [6_usize, 12, 40] {
            let values: Vec<f64> = (0..clients).map(|client| ((client * 37) % 41) as f64).collect();
            let plan = Plan::new(&(0..clients).collect::<Vec<_>>()).unwrap();
            let mean = |weights: &[f64]| {
                [weights.iter().zip(&values).map(|(w, v)| w * v).sum::<f64>() / clients as f64]
            };
            let [Some([below, above])] = plan.deviations(mean) else { panic!("no interval") };
            let spread = crate::Summary::of(values.iter().copied()).unwrap().std_dev.unwrap();
            let expected = student_half_width(clients as f64 - 1.0) * spread / (clients as f64).sqrt();
            for found in [-below, above] {
                assert!((found / expected - 1.0).abs() < 0.15, "{clients}: {found} is not {expected}");
            }
        }
    }

    #[test]
    fn intervals_stay_within_the_range() {
        assert_eq!(around(0.9, Some([-0.2, 0.2]), [0.0, 0.0], 0.0..1.0), Some([0.7, 1.0]));
        let [low, high] = around(0.5, Some([-0.1, 0.1]), [-0.2, 0.0], 0.0..1.0).unwrap();
        assert!((low - 0.3).abs() < 1e-12 && (high - 0.6).abs() < 1e-12);
        assert_eq!(around(0.5, None, [0.0, 0.0], 0.0..1.0), None);
    }
}
