//! The server: holds the shared part, draws participants, judges what comes back, averages it.

use std::borrow::Cow;

use fedsi_random::{Purpose, SERVER, Streams};

use crate::RunError;
use crate::admission::{Admission, Call};
use crate::aggregate::{Aggregation, Shared};
use crate::exclusion::LeftOut;
use crate::message::{Download, Upload};

/// The server's state between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    shared: Shared,
    round: u64,
    skipped_in_a_row: u64,
    aggregation: Aggregation,
    admission: Admission,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Whose updates became the new shared part; nobody's where the round was skipped.
    pub used: Vec<usize>,
    /// Whose were not used, and why. A client that answered twice is in both.
    pub left_out: Vec<LeftOut>,
    /// Whether there were too few, and the server kept what it had.
    pub skipped: bool,
}

impl Server {
    /// A server before its first round.
    #[must_use]
    pub const fn new(shared: Shared, aggregation: Aggregation, admission: Admission) -> Self {
        Self { shared, round: 0, skipped_in_a_row: 0, aggregation, admission }
    }

    /// Goes on from here: this shared part, so many rounds completed, the newest of them skipped.
    ///
    /// # Errors
    /// A shared part of another size or kind.
    pub(crate) fn restore(&mut self, shared: Shared, round: u64, skipped: u64) -> Result<(), String> {
        let kind = |shared: &Shared| (shared.values.len(), shared.variance.as_ref().map(Vec::len));
        if kind(&shared) != kind(&self.shared) {
            return Err("its shared part is of another size or kind".to_owned());
        }
        (self.shared, self.round, self.skipped_in_a_row) = (shared, round, skipped);
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

    /// Rounds completed, skipped ones included.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.round
    }

    /// How many of the newest rounds were skipped, one after another.
    #[must_use]
    pub const fn skipped_in_a_row(&self) -> u64 {
        self.skipped_in_a_row
    }

    /// What every participant of the coming round receives.
    #[must_use]
    pub const fn download(&self) -> Download<'_> {
        Download { round: self.round + 1, shared: Cow::Borrowed(&self.shared) }
    }

    /// Completes the round with the updates that can be used; `participants` (ascending) were asked, and `missing` says
    /// why some sent nothing. Everyone who is left out is named; their updates touch nothing. Sums run in the order of
    /// the uploads, in f64.
    ///
    /// Below the quorum the shared part stays as it is. Where that many would have answered but for silence, delay and
    /// damaged messages, the round counts as skipped, up to `patience` times in a row.
    ///
    /// # Errors
    /// Fewer usable updates than the quorum because training diverged, or once too often: the state stays that of the
    /// round before.
    pub fn complete(
        &mut self,
        participants: &[usize],
        uploads: &[Upload],
        missing: Vec<LeftOut>,
    ) -> Result<Completed, RunError> {
        let round = self.round + 1;
        let wants_spread = self.wants_spread();
        let call = Call { round, participants, shared: &self.shared, wants_spread };
        let (usable, refused) = self.admission.judge(&call, uploads);
        let left_out: Vec<LeftOut> = missing.into_iter().chain(refused).collect();
        let used: Vec<usize> = usable.iter().map(|upload| upload.client).collect();
        let needed = self.admission.needed(participants.len());
        if usable.len() >= needed {
            self.shared = self.aggregation.merge(round, &usable, &self.shared);
            (self.round, self.skipped_in_a_row) = (round, 0);
            return Ok(Completed { used, left_out, skipped: false });
        }
        let may_come_back =
            |client: &usize| !left_out.iter().any(|out| out.client == *client && !out.kind.is_transient());
        let hopeful = participants.iter().filter(|&client| may_come_back(client)).count();
        if hopeful >= needed && self.skipped_in_a_row < self.admission.patience {
            (self.round, self.skipped_in_a_row) = (round, self.skipped_in_a_row + 1);
            return Ok(Completed { used: Vec::new(), left_out, skipped: true });
        }
        let reasons = left_out.iter().map(|out| format!("client {} ({})", out.client, out.reason));
        Err(RunError::Quorum {
            round,
            usable: usable.len(),
            participants: participants.len(),
            needed,
            reasons: reasons.collect::<Vec<_>>().join(", "),
        })
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
    use crate::exclusion::Exclusion;
    use proptest::prelude::*;

    fn upload(client: usize, samples: usize, shared: Vec<f32>) -> Upload {
        Upload { round: 1, client, samples, loss: Some(0.1), shared, spread: None }
    }

    fn server(size: usize, weighting: Weighting) -> Server {
        let aggregation = Aggregation { weighting, ..Aggregation::mean(SpreadAverage::Deviation, 1.0, 1) };
        Server::new(Shared::point(vec![0.0; size]), aggregation, admission(0.5))
    }

    fn admission(quorum: f64) -> Admission {
        Admission { quorum, patience: 2, largest: 100.0, compare: true }
    }

    /// Completes a round that asked so many clients.
    fn complete(server: &mut Server, asked: usize, uploads: &[Upload]) -> Result<Vec<LeftOut>, RunError> {
        let asked: Vec<usize> = (0..asked).collect();
        server.complete(&asked, uploads, vec![]).map(|completed| completed.left_out)
    }

    #[test]
    fn averages_are_uniform_or_by_samples() {
        let uploads = [upload(0, 1, vec![1.0, 2.0]), upload(1, 3, vec![5.0, -2.0])];
        let mut uniform = server(2, Weighting::Uniform);
        assert!(complete(&mut uniform, 2, &uploads).unwrap().is_empty());
        assert_eq!(uniform.shared().values, [3.0, 0.0]);
        let mut by_samples = server(2, Weighting::Samples);
        complete(&mut by_samples, 2, &uploads).unwrap();
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
        let left_out = complete(&mut server, 8, &uploads).unwrap();
        assert_eq!(left_out.iter().map(|out| out.client).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(left_out[0].reason.contains("NaN"), "{}", left_out[0].reason);
        assert!(left_out[1].reason.contains("2 values, expected 1"), "{}", left_out[1].reason);
        assert!(left_out[2].reason.contains("round 7"), "{}", left_out[2].reason);
        assert_eq!(server.shared().values, [2.0]);
    }

    /// A Gaussian wants variances, point values want none.
    #[test]
    fn variances_come_where_they_are_expected() {
        let aggregation = Aggregation::mean(SpreadAverage::Variance, 1.0, 1);
        let mut gaussian = Server::new(Shared::gaussian(vec![0.0], 1.0), aggregation, admission(0.1));
        let spread = |values: Vec<f32>| Some(Variances { selected: Some(vec![0]), values });
        let with = |client, spread| Upload { spread, ..upload(client, 1, vec![2.0]) };
        let uploads = [with(0, spread(vec![0.5])), with(1, None), with(2, spread(vec![-1.0]))];
        let left_out = complete(&mut gaussian, 3, &uploads).unwrap();
        assert_eq!(left_out.iter().map(|out| out.client).collect::<Vec<_>>(), [1, 2]);
        assert!(left_out[0].reason.contains("no variances"), "{}", left_out[0].reason);
        assert_eq!(gaussian.shared(), &Shared { values: vec![2.0], variance: Some(vec![0.5]) });
        // In every third round only: before that the server keeps what it has.
        let rare = Aggregation { every: 3, ..aggregation };
        let mut server_of_rare = Server::new(Shared::gaussian(vec![0.0], 1.0), rare, admission(0.1));
        for round in 1..=3 {
            assert_eq!(server_of_rare.wants_spread(), round == 3);
            let spread = if round == 3 { spread(vec![0.5]) } else { None };
            let sent = [Upload { round, ..with(0, spread) }];
            assert!(complete(&mut server_of_rare, 1, &sent).unwrap().is_empty());
            let variance = server_of_rare.shared().variance.as_deref();
            assert_eq!(variance, Some(&[if round == 3 { 0.5 } else { 1.0 }][..]), "round {round}");
        }
        let mut point = server(1, Weighting::Uniform);
        let left_out = complete(&mut point, 2, &[with(0, spread(vec![0.5])), with(1, None)]).unwrap();
        assert!(left_out[0].reason.contains("nobody asked for"), "{}", left_out[0].reason);
    }

    #[test]
    fn below_the_quorum_nothing_changes() {
        let mut server = server(1, Weighting::Uniform);
        let before = server.clone();
        let uploads = [upload(0, 1, vec![1.0]), upload(1, 1, vec![f32::NAN]), upload(2, 1, vec![f32::NAN])];
        let error = complete(&mut server, 3, &uploads).unwrap_err();
        assert!(error.to_string().contains("1 of 3 participants"), "{error}");
        assert_eq!(server, before);
    }

    /// Silence may end; two skipped rounds in a row are borne, a third is not, and one that goes well starts anew.
    #[test]
    fn patience_is_for_silence_and_ends() {
        let mut server = server(1, Weighting::Uniform);
        let silent = |clients: &[usize]| {
            clients
                .iter()
                .map(|&client| LeftOut::new(client, Exclusion::Dropped, "silent"))
                .collect::<Vec<_>>()
        };
        let short = |server: &mut Server| server.complete(&[0, 1], &[], silent(&[0, 1]));
        for skipped in 1..=2 {
            let completed = short(&mut server).unwrap();
            assert!(completed.skipped && completed.used.is_empty() && completed.left_out.len() == 2);
            assert_eq!((server.round(), server.skipped_in_a_row()), (skipped, skipped));
            assert_eq!(server.shared().values, [0.0]);
        }
        let before = server.clone();
        let error = short(&mut server).unwrap_err().to_string();
        assert!(error.contains("0 of 2 participants") && error.contains("client 1 (silent)"), "{error}");
        assert_eq!(server, before);
        let good = [Upload { round: 3, ..upload(0, 1, vec![4.0]) }];
        assert!(!server.complete(&[0, 1], &good, silent(&[1])).unwrap().skipped);
        assert_eq!((server.round(), server.skipped_in_a_row()), (3, 0));
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
                    complete(&mut server, uploads.len(), uploads).unwrap();
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
