//! The server: holds the shared part, draws participants, judges what comes back, averages it.

use std::borrow::Cow;

use fedsi_random::{Purpose, SERVER, Streams};

use crate::RunError;
use crate::aggregate::{Aggregation, Shared};
use crate::message::{Download, Upload};
use crate::record::LeftOut;

/// The server's state between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    shared: Shared,
    round: u64,
    aggregation: Aggregation,
    quorum: f64,
}

impl Server {
    /// A server before its first round.
    #[must_use]
    pub const fn new(shared: Shared, aggregation: Aggregation, quorum: f64) -> Self {
        Self { shared, round: 0, aggregation, quorum }
    }

    /// Goes on from here: this shared part, so many rounds completed.
    ///
    /// # Errors
    /// A shared part of another size or kind.
    pub(crate) fn restore(&mut self, shared: Shared, round: u64) -> Result<(), String> {
        let kind = |shared: &Shared| (shared.values.len(), shared.variance.as_ref().map(Vec::len));
        if kind(&shared) != kind(&self.shared) {
            return Err("its shared part is of another size or kind".to_owned());
        }
        (self.shared, self.round) = (shared, round);
        Ok(())
    }

    /// The newest shared part.
    #[must_use]
    pub const fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether participants of the coming round send variances.
    #[must_use]
    pub const fn wants_spread(&self) -> bool {
        self.shared.variance.is_some() && self.aggregation.spread_is_due(self.round + 1)
    }

    /// Rounds completed.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.round
    }

    /// What every participant of the coming round receives.
    #[must_use]
    pub const fn download(&self) -> Download<'_> {
        Download { round: self.round + 1, shared: Cow::Borrowed(&self.shared) }
    }

    /// Completes the round with the updates that can be used; `missing` are participants that sent none.
    /// Returns everyone who was left out; their updates touch nothing. Sums run in the order of the uploads, in
    /// f64.
    ///
    /// # Errors
    /// Fewer usable updates than the quorum: the state stays that of the round before.
    pub fn complete(&mut self, uploads: &[Upload], missing: Vec<LeftOut>) -> Result<Vec<LeftOut>, RunError> {
        let participants = uploads.len() + missing.len();
        let mut left_out = missing;
        let mut usable = Vec::with_capacity(uploads.len());
        for upload in uploads {
            match self.objection(upload) {
                Some(reason) => left_out.push(LeftOut { client: upload.client, reason }),
                None => usable.push(upload),
            }
        }
        let needed = ((participants as f64 * self.quorum).ceil() as usize).max(1);
        if usable.len() < needed {
            let reasons = left_out.iter().map(|out| format!("client {} ({})", out.client, out.reason));
            return Err(RunError::Quorum {
                round: self.round + 1,
                usable: usable.len(),
                participants,
                needed,
                reasons: reasons.collect::<Vec<_>>().join(", "),
            });
        }
        self.shared = self.aggregation.merge(self.round + 1, &usable, &self.shared);
        self.round += 1;
        Ok(left_out)
    }

    /// Why an update cannot be used.
    fn objection(&self, upload: &Upload) -> Option<String> {
        if upload.round != self.round + 1 {
            return Some(format!("its update is for round {}", upload.round));
        }
        let size = self.shared.values.len();
        if upload.shared.len() != size {
            return Some(format!("it sent {} values, expected {size}", upload.shared.len()));
        }
        if !is_finite(&upload.shared) {
            let bad = upload.shared.iter().enumerate().find(|(_, value)| !value.is_finite());
            return bad.map(|(index, value)| format!("value {index} of its update is {value}"));
        }
        if upload.loss.is_some_and(|loss| !loss.is_finite()) {
            return Some("its training loss is not finite".to_owned());
        }
        let due = self.wants_spread();
        match &upload.spread {
            Some(spread) if due => spread.objection(size),
            None if due => Some("it sent no variances".to_owned()),
            Some(_) => Some("it sent variances that nobody asked for".to_owned()),
            None => None,
        }
    }
}

/// Whether all values are numbers. No early exit: it runs in vectors, and the answer is almost always yes.
pub(crate) fn is_finite(values: &[f32]) -> bool {
    values.iter().fold(true, |finite, value| finite & value.is_finite())
}

/// The participants of a round, ascending: `count` of `clients`, uniformly without replacement.
#[must_use]
pub fn draw_participants(streams: &Streams, round: u64, clients: usize, count: usize) -> Vec<usize> {
    let mut rng = streams.stream(Purpose::Participants, SERVER, round);
    let mut drawn = rand::seq::index::sample(&mut rng, clients, count.min(clients)).into_vec();
    drawn.sort_unstable();
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{SpreadAverage, Variances};
    use crate::config::Weighting;
    use proptest::prelude::*;

    fn upload(client: usize, samples: usize, shared: Vec<f32>) -> Upload {
        Upload { round: 1, client, samples, loss: Some(0.1), shared, spread: None }
    }

    fn server(size: usize, weighting: Weighting) -> Server {
        let aggregation =
            Aggregation { weighting, spread: SpreadAverage::Deviation, unselected: 1.0, every: 1 };
        Server::new(Shared::point(vec![0.0; size]), aggregation, 0.5)
    }

    #[test]
    fn averages_are_uniform_or_by_samples() {
        let uploads = [upload(0, 1, vec![1.0, 2.0]), upload(1, 3, vec![5.0, -2.0])];
        let mut uniform = server(2, Weighting::Uniform);
        assert!(uniform.complete(&uploads, vec![]).unwrap().is_empty());
        assert_eq!(uniform.shared().values, [3.0, 0.0]);
        let mut by_samples = server(2, Weighting::Samples);
        by_samples.complete(&uploads, vec![]).unwrap();
        assert_eq!(by_samples.shared().values, [4.0, -1.0]);
        assert_eq!(by_samples.round(), 1);
    }

    #[test]
    fn unusable_updates_are_left_out_and_named() {
        let mut late = upload(3, 1, vec![9.0]);
        late.round = 7;
        let uploads = [
            upload(0, 1, vec![1.0]),
            upload(1, 1, vec![f32::NAN]),
            upload(2, 1, vec![9.0, 9.0]),
            late,
            Upload { loss: Some(f64::INFINITY), ..upload(4, 1, vec![9.0]) },
            upload(5, 1, vec![3.0]),
            upload(6, 1, vec![2.0]),
            upload(7, 1, vec![2.0]),
        ];
        let mut server = server(1, Weighting::Uniform);
        let left_out = server.complete(&uploads, vec![]).unwrap();
        assert_eq!(left_out.iter().map(|out| out.client).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(left_out[0].reason.contains("NaN"), "{}", left_out[0].reason);
        assert!(left_out[1].reason.contains("2 values, expected 1"), "{}", left_out[1].reason);
        assert!(left_out[2].reason.contains("round 7"), "{}", left_out[2].reason);
        assert_eq!(server.shared().values, [2.0]);
    }

    /// A Gaussian wants variances, point values want none.
    #[test]
    fn variances_come_where_they_are_expected() {
        let aggregation = Aggregation {
            weighting: Weighting::Uniform,
            spread: SpreadAverage::Variance,
            unselected: 1.0,
            every: 1,
        };
        let mut gaussian = Server::new(Shared::gaussian(vec![0.0], 1.0), aggregation, 0.1);
        let spread = |values: Vec<f32>| Some(Variances { selected: Some(vec![0]), values });
        let with = |client, spread| Upload { spread, ..upload(client, 1, vec![2.0]) };
        let uploads = [with(0, spread(vec![0.5])), with(1, None), with(2, spread(vec![-1.0]))];
        let left_out = gaussian.complete(&uploads, vec![]).unwrap();
        assert_eq!(left_out.iter().map(|out| out.client).collect::<Vec<_>>(), [1, 2]);
        assert!(left_out[0].reason.contains("no variances"), "{}", left_out[0].reason);
        assert_eq!(gaussian.shared(), &Shared { values: vec![2.0], variance: Some(vec![0.5]) });
        // In every third round only: before that the server keeps what it has.
        let rare = Aggregation { every: 3, ..aggregation };
        let mut server_of_rare = Server::new(Shared::gaussian(vec![0.0], 1.0), rare, 0.1);
        for round in 1..=3 {
            assert_eq!(server_of_rare.wants_spread(), round == 3);
            let spread = if round == 3 { spread(vec![0.5]) } else { None };
            let sent = [Upload { round, ..with(0, spread) }];
            assert!(server_of_rare.complete(&sent, vec![]).unwrap().is_empty());
            let variance = server_of_rare.shared().variance.as_deref();
            assert_eq!(variance, Some(&[if round == 3 { 0.5 } else { 1.0 }][..]), "round {round}");
        }
        let mut point = server(1, Weighting::Uniform);
        let left_out = point.complete(&[with(0, spread(vec![0.5])), with(1, None)], vec![]).unwrap();
        assert!(left_out[0].reason.contains("nobody asked for"), "{}", left_out[0].reason);
    }

    #[test]
    fn below_the_quorum_nothing_changes() {
        let mut server = server(1, Weighting::Uniform);
        let before = server.clone();
        let uploads = [upload(0, 1, vec![1.0]), upload(1, 1, vec![f32::NAN]), upload(2, 1, vec![f32::NAN])];
        let error = server.complete(&uploads, vec![]).unwrap_err();
        assert!(error.to_string().contains("1 of 3 participants"), "{error}");
        assert_eq!(server, before);
    }

    proptest! {
        /// The average of equal uploads is the upload; it lies between the extremes; order does not matter but
        /// for rounding.
        #[test]
        fn an_average_is_an_average(rows in proptest::collection::vec(
            (1_usize..50, proptest::collection::vec(-100.0_f32..100.0, 4)), 1..8)) {
            let uploads: Vec<Upload> =
                rows.iter().enumerate().map(|(i, (n, row))| upload(i, *n, row.clone())).collect();
            for weighting in [Weighting::Uniform, Weighting::Samples] {
                let of = |uploads: &[Upload]| {
                    let mut server = server(4, weighting);
                    server.complete(uploads, vec![]).unwrap();
                    server.shared().values.clone()
                };
                let mean = of(&uploads);
                let reversed: Vec<Upload> = uploads.iter().rev().cloned().collect();
                for (index, (a, b)) in mean.iter().zip(of(&reversed)).enumerate() {
                    prop_assert!((a - b).abs() < 1e-4);
                    let column = uploads.iter().map(|upload| upload.shared[index]);
                    let (low, high) = column.fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(x), h.max(x)));
                    prop_assert!(*a >= low - 1e-4 && *a <= high + 1e-4);
                }
                let same: Vec<Upload> = (0..3).map(|i| upload(i, 2, rows[0].1.clone())).collect();
                prop_assert_eq!(of(&same), rows[0].1.clone());
            }
        }
    }

    #[test]
    fn participants_are_drawn_without_replacement_and_alike_over_rounds() {
        let streams = Streams::new(3);
        let mut times = [0; 12];
        for round in 1..=3000 {
            let drawn = draw_participants(&streams, round, 12, 4);
            assert_eq!(drawn.len(), 4);
            assert!(drawn.is_sorted_by(|a, b| a < b), "twice in a round: {drawn:?}");
            drawn.iter().for_each(|&client| times[client] += 1);
        }
        assert!(times.iter().all(|&count| (900..1100).contains(&count)), "unfair: {times:?}");
        assert_eq!(draw_participants(&streams, 5, 12, 4), draw_participants(&streams, 5, 12, 4));
    }
}
