//! The server round by round.

use super::*;
use crate::config::{VarianceAverage, Weighting};
use crate::wire::Variances;
use proptest::prelude::*;

fn upload(client: usize, samples: usize, shared: Vec<f32>) -> Upload {
    Upload { round: 1, client, samples, loss: Some(0.1), shared, variances: None }
}

fn server(size: usize, weighting: Weighting) -> Server {
    let aggregation = Aggregation { weighting, ..Aggregation::mean(VarianceAverage::Deviation, 1.0, 1) };
    of(SharedParameters::Point(vec![0.0; size]), aggregation, admission(0.5))
}

fn of(shared: SharedParameters, aggregation: Aggregation, admission: Admission) -> Server {
    let settings = ServerSettings {
        clients: 8,
        novel_clients: Vec::new(),
        participants: 8,
        participation: Participation::Sampled,
        streams: Streams::new(1),
        aggregation,
        admission,
        modes: Modes::ONE,
        choices: None,
        narrowed: None,
        privacy: None,
    };
    Server::with_settings(settings, vec![shared]).unwrap()
}

fn admission(quorum: f64) -> Admission {
    Admission { quorum, patience: 2, outlier_factor: 100.0, compare: true }
}

/// Completes a round that asked so many clients.
fn complete(server: &mut Server, asked: usize, uploads: &[Upload]) -> Result<Vec<LeftOut>, ServerError> {
    let asked: Vec<usize> = (0..asked).collect();
    server.complete(&asked, uploads, vec![]).map(|completed| completed.left_out)
}

#[test]
fn averages_are_uniform_or_by_samples() {
    let uploads = [upload(0, 1, vec![1.0, 2.0]), upload(1, 3, vec![5.0, -2.0])];
    let mut uniform = server(2, Weighting::Uniform);
    assert!(complete(&mut uniform, 2, &uploads).unwrap().is_empty());
    assert_eq!(uniform.shared()[0].values(), [3.0, 0.0]);
    let mut by_samples = server(2, Weighting::Samples);
    complete(&mut by_samples, 2, &uploads).unwrap();
    assert_eq!(by_samples.shared()[0].values(), [4.0, -1.0]);
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
    assert_eq!(server.shared()[0].values(), [2.0]);
}

fn gaussian_parameters() -> SharedParameters {
    SharedParameters::Gaussian(Gaussian::uniform(vec![0.0], 1.0))
}

/// A Gaussian wants variances, point values want none.
#[test]
fn variances_come_where_they_are_expected() {
    let aggregation = Aggregation::mean(VarianceAverage::Variance, 1.0, 1);
    let mut gaussian = of(gaussian_parameters(), aggregation, admission(0.1));
    let variances = |values: Vec<f32>| Some(Variances { selected: Some(vec![0]), values });
    let with = |client, variances| Upload { variances, ..upload(client, 1, vec![2.0]) };
    let uploads = [with(0, variances(vec![0.5])), with(1, None), with(2, variances(vec![-1.0]))];
    let left_out = complete(&mut gaussian, 3, &uploads).unwrap();
    assert_eq!(left_out.iter().map(|out| out.client).collect::<Vec<_>>(), [1, 2]);
    assert!(left_out[0].reason.contains("no variances"), "{}", left_out[0].reason);
    assert_eq!(
        *gaussian.shared()[0],
        SharedParameters::Gaussian(Gaussian { mean: vec![2.0], variance: vec![0.5] })
    );
    // In every third round only: before that the server keeps what it has.
    let rare = Aggregation { posterior_interval: 3, ..aggregation };
    let mut server_of_rare = of(gaussian_parameters(), rare, admission(0.1));
    for round in 1..=3 {
        assert_eq!(server_of_rare.variances_wanted(), round == 3);
        let sent = if round == 3 { variances(vec![0.5]) } else { None };
        let sent = [Upload { round, ..with(0, sent) }];
        assert!(complete(&mut server_of_rare, 1, &sent).unwrap().is_empty());
        let variance = server_of_rare.shared()[0].variance();
        assert_eq!(variance, Some(&[if round == 3 { 0.5 } else { 1.0 }][..]), "round {round}");
    }
    let mut point = server(1, Weighting::Uniform);
    let left_out = complete(&mut point, 2, &[with(0, variances(vec![0.5])), with(1, None)]).unwrap();
    assert!(left_out[0].reason.contains("were not requested"), "{}", left_out[0].reason);
}

#[test]
fn below_the_quorum_nothing_changes() {
    let mut server = server(1, Weighting::Uniform);
    let before = server.clone();
    let uploads = [upload(0, 1, vec![1.0]), upload(1, 1, vec![f32::NAN]), upload(2, 1, vec![f32::NAN])];
    let error = complete(&mut server, 3, &uploads).unwrap_err();
    assert!(error.to_string().contains("1 of 3 participants"), "{error}");
    assert_eq!(server.state, before.state);
}

/// Silence may end; two skipped rounds in a row are borne, a third is not, and one that goes well starts anew.
#[test]
fn patience_is_for_silence_and_ends() {
    let mut server = server(1, Weighting::Uniform);
    let silent = |clients: &[usize]| {
        clients.iter().map(|&client| LeftOut::new(client, Exclusion::Dropped, "silent")).collect::<Vec<_>>()
    };
    let short = |server: &mut Server| server.complete(&[0, 1], &[], silent(&[0, 1]));
    for skipped in 1..=2 {
        let completed = short(&mut server).unwrap();
        assert!(completed.skipped && completed.used.is_empty() && completed.left_out.len() == 2);
        assert_eq!((server.round(), server.state.skipped_in_a_row), (skipped, skipped));
        assert_eq!(server.shared()[0].values(), [0.0]);
    }
    let before = server.clone();
    let error = short(&mut server).unwrap_err().to_string();
    assert!(error.contains("0 of 2 participants") && error.contains("client 1 (silent)"), "{error}");
    assert_eq!(server.state, before.state);
    let good = [Upload { round: 3, ..upload(0, 1, vec![4.0]) }];
    assert!(!server.complete(&[0, 1], &good, silent(&[1])).unwrap().skipped);
    assert_eq!((server.round(), server.state.skipped_in_a_row), (3, 0));
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
                server.shared()[0].values().to_vec()
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
        let drawn = sample_participants(&streams, round, 12, 4);
        assert_eq!(drawn.len(), 4);
        assert!(drawn.is_sorted_by(|a, b| a < b), "twice in a round: {drawn:?}");
        drawn.iter().for_each(|&client| times[client] += 1);
    }
    assert!(times.iter().all(|&count| (900..1100).contains(&count)), "unfair: {times:?}");
    assert_eq!(sample_participants(&streams, 5, 12, 4), sample_participants(&streams, 5, 12, 4));
}

/// Clients with the same number of samples count alike, to the bit, however they are weighed.
#[test]
fn equal_clients_weigh_the_same_either_way() {
    for count in [1, 3, 7, 10] {
        for samples in [1, 7, 250, 4500] {
            let uploads: Vec<Upload> = (0..count)
                .map(|client| upload(client, samples, vec![0.1 + client as f32 / 3.0, -1e-3 * client as f32]))
                .collect();
            let participants: Vec<usize> = (0..count).collect();
            let merged = |weighting| {
                let mut server = server(2, weighting);
                server.complete(&participants, &uploads, Vec::new()).unwrap();
                server.shared()[0].as_ref().clone()
            };
            assert_eq!(merged(Weighting::Uniform), merged(Weighting::Samples), "{count} x {samples}");
        }
    }
}

/// After its first rounds the server averages a part of what it holds, and leaves the rest as it was.
#[test]
fn a_narrowed_server_shares_a_part_of_what_it_holds() {
    let mut server = server(3, Weighting::Uniform);
    server.settings.narrowed = Some((1, 1..3));
    assert_eq!(server.first_download(), None);
    server.complete(&[0], &[upload(0, 1, vec![1.0, 2.0, 3.0])], Vec::new()).unwrap();
    assert_eq!(server.training_download().modes[0].shared.values(), [2.0, 3.0]);
    assert_eq!(server.first_download().unwrap().modes[0].shared.values(), [1.0, 2.0, 3.0]);
    let whole = Upload { round: 2, ..upload(0, 1, vec![9.0; 3]) };
    let part = Upload { round: 2, ..upload(1, 1, vec![5.0, 6.0]) };
    let outcome = server.complete(&[0, 1], &[whole, part], Vec::new()).unwrap();
    assert_eq!((outcome.used, outcome.left_out[0].client), (vec![1], 0), "the whole is refused");
    assert_eq!(server.shared()[0].values(), [1.0, 5.0, 6.0]);
    assert_eq!(server.personal_download().modes[0].shared.values(), [1.0, 5.0, 6.0]);
}
